from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odf.errors import BadInputError
from odf.ingest.fetch.time_format import parse_time


@pytest.mark.parametrize(
    ("pattern", "text", "wanted"),
    [
        ("yyyy-MM-dd", "2024-01-31", "2024-01-31T00:00:00Z"),
        ("yyyyMMdd", "20240131", "2024-01-31T00:00:00Z"),
        ("yyyyMMddHHmmss", "20240131235958", "2024-01-31T23:59:58Z"),
        ("yyyyMMdd'T'HHmmssSSSX", "20240131T235958123Z", "2024-01-31T23:59:58.123Z"),
        ("yyyy-MM-dd'T'HH:mm:ssXXX", "2024-01-31T01:30:00+02:00", "2024-01-30T23:30:00Z"),
        ("dd MMM yyyy", "5 jan 2024", "2024-01-05T00:00:00Z"),
        ("EEEE, d MMMM yy", "Friday, 5 January 24", "2024-01-05T00:00:00Z"),
        ("yyyy", "2024", "2024-01-01T00:00:00Z"),
        ("yyyyDDD", "2024366", "2024-12-31T00:00:00Z"),
        ("yy", "69", "1969-01-01T00:00:00Z"),
        ("yyyy-MM-dd hh:mm a", "2024-01-31 12:05 AM", "2024-01-31T00:05:00Z"),
        ("yyyy-MM-dd hh:mm a", "2024-01-31 12:05 PM", "2024-01-31T12:05:00Z"),
        ("yyyy 'o''clock' HH z", "2024 o'clock 07 GMT", "2024-01-01T07:00:00Z"),
        ("%Y-%m-%d", "2024-01-31", "2024-01-31T00:00:00Z"),
        ("%Y%m%d", "20240131", "2024-01-31T00:00:00Z"),
        ("%F_%H%M%S", "2024-01-31_235958", "2024-01-31T23:59:58Z"),
        ("%F %T%.f %z", "2024-01-31 01:00:00.5 +0130", "2024-01-30T23:30:00.500Z"),
        ("%d-%b-%y", "31-Jan-24", "2024-01-31T00:00:00Z"),
        ("%-d.%-m.%Y", "1.2.2024", "2024-02-01T00:00:00Z"),
        ("%s", "-1", "1969-12-31T23:59:59Z"),
        ("%s", "1700000000", "2023-11-14T22:13:20Z"),
        ("%Y%j", "2024060", "2024-02-29T00:00:00Z"),
        ("%I%p %Y %%", "11pm 2024 %", "2024-01-01T23:00:00Z"),
    ],
)
def test_times(pattern, text, wanted):
    assert str(parse_time(text, pattern)) == wanted


@pytest.mark.parametrize(
    ("pattern", "text", "message"),
    [
        ("yyyy-MM-dd", "2024-02-30", "no time of the format"),
        ("yyyy-MM-dd", "2024-1", "does not fit"),
        ("yyyy-MM-dd", "2024-01-01x", "does not fit"),
        ("yyyyDDD", "2023366", "no such day"),
        ("MM-dd", "01-01", "has no year"),
        ("%Y-%m-%d", "2024-13-01", "month"),
        ("YYYY-MM-dd", "2024-01-01", "letter Y"),
        ("yyyy 'x", "2024 x", "quote is not closed"),
        ("%Y %Q", "2024 1", "%Q is not known"),
        ("%Y%", "2024", "not followed by a letter"),
        ("%I %Y", "13 2024", "half a day"),
        ("%Y", "٢٠٢٤", "does not fit"),
        ("%Y", "0000", "no time"),
    ],
)
def test_what_is_no_time(pattern, text, message):
    with pytest.raises(BadInputError, match=message):
        parse_time(text, pattern)


@given(st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 31)))  # noqa: DTZ001
def test_python_writes_what_we_read(moment):
    whole = moment.replace(microsecond=0, tzinfo=UTC)
    for ours, pythons in [
        ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S"),
        ("yyyyMMddHHmmss", "%Y%m%d%H%M%S"),
        ("%d %b %Y %I:%M:%S %p %z", "%d %b %Y %I:%M:%S %p %z"),
    ]:
        assert parse_time(whole.strftime(pythons), ours).to_datetime() == whole


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_pattern_ends_in_a_time_or_an_error(pattern, text):
    with suppress(BadInputError):  # anything else is a failure
        parse_time(text, pattern)
