"""Points in time."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odf.metadata.timestamp import Timestamp, TimestampError
from tests.metadata.model_strategies import timestamps


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("2020-01-01T12:00:00Z", "2020-01-01T12:00:00Z"),
        ("2020-01-01t12:00:00z", "2020-01-01T12:00:00Z"),
        ("2020-01-01T12:00:00+02:00", "2020-01-01T10:00:00Z"),
        ("2020-01-01T00:30:00-00:45", "2020-01-01T01:15:00Z"),
        ("2020-01-01T12:00:00.1Z", "2020-01-01T12:00:00.100Z"),
        ("2020-01-01T12:00:00.100001Z", "2020-01-01T12:00:00.100001Z"),
        ("1969-12-31T23:59:59.000000001Z", "1969-12-31T23:59:59.000000001Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999999999Z"),
    ],
)
def test_rfc3339(text, canonical):
    assert str(Timestamp.parse(text)) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2020-01-01",
        "2020-01-01T12:00:00",
        "2020-13-01T12:00:00Z",
        "2020-01-01T24:00:00Z",
        "2020-01-01T12:00:60Z",
        "2020-01-01T12:00:00+24:00",
        "2020-01-01T12:00:00.0000000001Z",
        "0001-01-01T00:00:00+00:01",
        "\uff12020-01-01T12:00:00Z",
    ],
)
def test_what_is_no_time_is_refused(text):
    with pytest.raises(TimestampError):
        Timestamp.parse(text)


@given(timestamps)
def test_text_comes_back(moment):
    assert Timestamp.parse(str(moment)) == moment


@given(st.datetimes(timezones=st.just(UTC)))
def test_datetimes_come_back(moment):
    assert Timestamp.from_datetime(moment).to_datetime() == moment


def test_a_datetime_without_zone_is_refused():
    with pytest.raises(TimestampError, match="no time zone"):
        Timestamp.from_datetime(datetime(2020, 1, 1))  # noqa: DTZ001 - the point of the test


def test_milliseconds_are_cut_towards_the_past():
    assert Timestamp(-1).epoch_ms == -1
    assert Timestamp(1_999_999).epoch_ms == 1
    assert Timestamp.from_epoch_ms(-5).epoch_ns == -5_000_000
