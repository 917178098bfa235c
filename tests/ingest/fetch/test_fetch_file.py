import os

import pytest

from odf.errors import BadInputError, NotFoundError
from odf.ingest.fetch import Fetched, Unchanged, fetch
from odf.metadata.model import (
    EventTimeSourceFromMetadata,
    EventTimeSourceFromPath,
    EventTimeSourceFromSystemTime,
    FetchStepUrl,
    SourceCachingForever,
    SourceState,
    Timestamp,
)


def test_a_file_is_read_where_it_lies(around, write):
    path = write("data/a.csv", "1,2\n", at=1_700_000_000.123)
    got = fetch(FetchStepUrl(f"file://{path}"), None, around.ctx())
    assert isinstance(got, Fetched)
    assert (got.path, got.name, got.owned, got.size) == (path, "data/a.csv", False, 4)
    assert got.source_state == SourceState(
        "default", "odf/last-modified", "2023-11-14T22:13:20.123Z"
    )
    assert got.event_time == Timestamp.from_epoch_ms(1_700_000_000_123)
    assert (got.has_more, got.warnings, got.complete) == (False, (), True)


def test_an_untouched_file_is_unchanged_and_any_other_time_is_a_change(around, write):
    path = write("a.csv")
    step = FetchStepUrl(f"file://{path}")
    got = fetch(step, None, around.ctx())
    assert isinstance(fetch(step, got.source_state, around.ctx(is_first=False)), Unchanged)
    os.utime(path, (1_600_000_000, 1_600_000_000))
    older = fetch(step, got.source_state, around.ctx(is_first=False))
    assert isinstance(older, Fetched)
    assert older.source_state.value == "2020-09-13T12:26:40Z"


def test_modification_times_are_rounded_to_milliseconds(around, write):
    path = write("a.csv")
    os.utime(path, ns=(0, 1_700_000_000_000_500_000))
    got = fetch(FetchStepUrl(f"file://{path}"), None, around.ctx())
    assert got.source_state.value == "2023-11-14T22:13:20.001Z"


@pytest.mark.parametrize(
    "form", ["file:data/a%20b.csv", "file://data/a%20b.csv", "file:./data/a b.csv"]
)
def test_relative_urls_start_at_the_workspace_root(around, write, form, monkeypatch):
    path = write("data/a b.csv")
    monkeypatch.chdir("/")
    assert fetch(FetchStepUrl(form), None, around.ctx()).path == path


def test_localhost_is_this_machine(around, write):
    path = write("a.csv")
    assert fetch(FetchStepUrl(f"file://localhost{path}"), None, around.ctx()).path == path


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        (None, "2023-11-14T22:13:20Z"),
        (EventTimeSourceFromMetadata(), "2023-11-14T22:13:20Z"),
        (EventTimeSourceFromSystemTime(), "2024-06-01T12:00:00Z"),
        (EventTimeSourceFromPath(r"-(\d{8})\.csv", "yyyyMMdd"), "2022-09-01T00:00:00Z"),
    ],
)
def test_event_time(around, write, source, wanted):
    path = write("data-20220901.csv")
    got = fetch(FetchStepUrl(f"file://{path}", event_time=source), None, around.ctx())
    assert str(got.event_time) == wanted


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (r"(\d{4}-\d\d-\d\d)", "fits nothing"),
        (r"data", "no group"),
        (r"data(", "not valid"),
        (r"data(?=x)", "not valid"),
        (r"(x)?data", "group 1 .* is empty"),
        (r"(data)", "does not fit the timestamp format"),
    ],
)
def test_event_time_from_a_path_that_has_none(around, write, pattern, message):
    path = write("data-x.csv")
    step = FetchStepUrl(f"file://{path}", event_time=EventTimeSourceFromPath(pattern))
    with pytest.raises(BadInputError, match=message):
        fetch(step, None, around.ctx())


def test_a_pattern_that_is_made_to_hang_does_not(around, write):
    path = write("a" * 100 + ".csv")
    step = FetchStepUrl(f"file://{path}", event_time=EventTimeSourceFromPath(r"((a+)+)+$"))
    with pytest.raises(BadInputError, match="fits nothing"):
        fetch(step, None, around.ctx())


@pytest.mark.parametrize(
    "state", [None, SourceState("default", "odf/last-modified", "2020-01-01T00:00:00Z")]
)
def test_a_missing_file_is_named_with_its_url(around, state):
    with pytest.raises(NotFoundError, match=r"file:no/such\.csv: there is no file no/such\.csv"):
        fetch(FetchStepUrl("file:no/such.csv"), state, around.ctx())


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("file:///", "names no file"),
        ("file:", "names no file"),
        ("file:a.csv?x=1", "no query"),
        ("file:a%00.csv", "names no file"),
        ("sftp://h/a.csv", "file, http, https, ftp and ftps URLs only"),
        ("/data/a.csv", "file, http, https, ftp and ftps URLs only"),
        ("", "file, http, https, ftp and ftps URLs only"),
    ],
)
def test_urls_that_name_no_file(around, url, message):
    with pytest.raises(BadInputError, match=message):
        fetch(FetchStepUrl(url), None, around.ctx())


def test_folders_and_pipes_are_refused(around):
    os.mkfifo(around.root / "pipe")
    with pytest.raises(BadInputError, match="not an ordinary file"):
        fetch(FetchStepUrl("file:pipe"), None, around.ctx())
    with pytest.raises(BadInputError, match="a folder") as caught:
        fetch(FetchStepUrl("file:."), None, around.ctx())
    assert "FilesGlob" in (caught.value.hint or "")


def test_cache_forever_takes_a_file_once(around, write):
    step = FetchStepUrl(f"file://{write('a.csv')}", cache=SourceCachingForever())
    assert isinstance(fetch(step, None, around.ctx()), Fetched)
    assert isinstance(fetch(step, None, around.ctx(is_first=False)), Unchanged)


def test_templated_paths_are_masked(around):
    ctx = around.ctx(environment={"WHERE": "hush"})
    with pytest.raises(NotFoundError) as caught:
        fetch(FetchStepUrl("file:data/${{ env.WHERE }}.csv"), None, ctx)
    assert "hush" not in caught.value.message
    assert "data/***.csv" in caught.value.message


def test_changes_while_reading_are_noticed(around, write):
    path = write("a.csv", "12")
    got = fetch(FetchStepUrl(f"file://{path}"), None, around.ctx())
    got.check_unmodified()
    write("a.csv", "123")
    with pytest.raises(BadInputError, match="2 bytes, now 3"):
        got.check_unmodified()
    write("a.csv", "21", at=1_700_000_001)
    with pytest.raises(BadInputError, match="written to or replaced"):
        got.check_unmodified()
    path.unlink()
    with pytest.raises(BadInputError, match="removed"):
        got.check_unmodified()


def test_a_file_replaced_by_its_like_is_noticed(around, write):
    path = write("a.csv", "12")
    got = fetch(FetchStepUrl(f"file://{path}"), None, around.ctx())
    write("b.csv", "21").replace(path)
    with pytest.raises(BadInputError, match="replaced"):
        got.check_unmodified()


@pytest.mark.parametrize(
    "state",
    [
        SourceState("default", "odf/etag", '"v1"'),
        SourceState("default", "odf/last-modified", "soon"),
    ],
)
def test_states_that_are_not_understood_are_told_of_and_ignored(around, write, state):
    got = fetch(FetchStepUrl(f"file://{write('a.csv')}"), state, around.ctx())
    assert "is not understood" in got.warnings[0]


def test_other_spellings_of_a_time_are_the_same_state(around, write):
    path = write("a.csv", at=1_700_000_000)
    state = SourceState("default", "odf/last-modified", "2023-11-14T23:13:20.000+01:00")
    assert isinstance(fetch(FetchStepUrl(f"file://{path}"), state, around.ctx()), Unchanged)
