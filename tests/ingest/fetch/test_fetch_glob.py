import shutil

import pytest

from odf.errors import BadInputError, NotFoundError
from odf.ingest.fetch import Fetched, Unchanged, fetch
from odf.ingest.fetch.glob_walk import GlobPattern, find_files
from odf.metadata.model import (
    EventTimeSourceFromPath,
    EventTimeSourceFromSystemTime,
    FetchStepFilesGlob,
    SourceOrdering,
    SourceState,
)

BY_TIME = SourceOrdering.BY_EVENT_TIME


def etag(value):
    return SourceState("default", "odf/etag", value)


def drain(step, around, state=None):
    """Pull until nothing is left; return the files and states, and the last answer."""
    taken = []
    while isinstance(got := fetch(step, state, around.ctx(is_first=state is None)), Fetched):
        state = got.source_state
        taken.append((str(got.path.relative_to(around.root)), state.value))
        if len(taken) > 50:
            pytest.fail("does not end")
    return taken, state, got


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("d/*.csv", ["a.csv", "b.csv"]),
        ("d/?.csv", ["a.csv", "b.csv"]),
        ("d/[!a].csv", ["b.csv"]),
        ("d/a.csv", ["a.csv"]),
        ("./d//*.csv", ["a.csv", "b.csv"]),
        ("d/.*.csv", [".hidden.csv"]),
        ("d/**/*.csv", ["a.csv", "b.csv", "sub/deep/c.csv", "sub/c.csv"]),
        ("d/**/**/c.csv", ["sub/c.csv", "sub/deep/c.csv"]),
        ("d/**", ["a.csv", "b.csv", "n.txt", "sub/c.csv", "sub/deep/c.csv"]),
        ("d/*/c.csv", ["link/c.csv", "sub/c.csv"]),
        ("d/link/*.csv", ["c.csv"]),
        ("d/l*/c.csv", ["link/c.csv"]),
        ("no/*.csv", []),
    ],
)
def test_matching(tmp_path, write, pattern, wanted):
    for name in [
        "a.csv",
        "b.csv",
        ".hidden.csv",
        "n.txt",
        "sub/c.csv",
        "sub/deep/c.csv",
        ".h/x.csv",
    ]:
        write(f"d/{name}")
    (tmp_path / "d/link").symlink_to(tmp_path / "d/sub")
    (tmp_path / "d/folder.csv").mkdir()
    (tmp_path / "d/sub/circle").symlink_to(tmp_path / "d")
    (tmp_path / "d/gone.csv").symlink_to(tmp_path / "nowhere")
    (tmp_path / "d/self.csv").symlink_to(tmp_path / "d/self.csv")
    assert list(find_files(GlobPattern.parse(pattern, tmp_path))) == sorted(wanted)


@pytest.mark.parametrize("pattern", ["", "/", "d/", "d/a**.csv", "a\0b"])
def test_what_is_no_pattern(around, pattern):
    with pytest.raises(BadInputError, match="FilesGlob"):
        fetch(FetchStepFilesGlob(pattern), None, around.ctx())


def test_files_come_one_by_one_in_order_of_name(around, write):
    for name in ["b.csv", "c.csv", "a.csv", "a.txt"]:
        write(f"d/{name}", at=1_700_000_000)
    step = FetchStepFilesGlob("d/*.csv")
    first = fetch(step, None, around.ctx())
    assert (first.name, first.has_more, first.owned, first.size) == ("d/a.csv", True, False, 2)
    assert (first.source_state, str(first.event_time)) == (etag("a.csv"), "2023-11-14T22:13:20Z")
    taken, state, last = drain(step, around)
    assert taken == [(f"d/{n}.csv", f"{n}.csv") for n in "abc"]
    assert fetch(step, etag("b.csv"), around.ctx()).has_more is False
    assert last == Unchanged("no file after c.csv matches d/*.csv")
    write("d/d.csv")
    assert drain(step, around, state)[0] == [("d/d.csv", "d.csv")]


def test_a_failed_commit_gets_the_same_file_again(around, write):
    write("a.csv")
    write("b.csv")
    step = FetchStepFilesGlob("*.csv")
    for _ in range(2):
        got = fetch(step, None, around.ctx())
        assert (got.source_state.value, got.warnings) == ("a.csv", ())


def test_absolute_patterns(around, write):
    write("a.csv")
    assert fetch(FetchStepFilesGlob(f"{around.root}/*.csv"), None, around.ctx()).name == "a.csv"


def test_equal_names_in_different_folders_are_all_taken(around, write):
    for name in ["x.csv", "b/x.csv", "a/x.csv", "a/w.csv", "c/y.csv"]:
        write(f"d/{name}")
    taken, _, last = drain(FetchStepFilesGlob("d/**/*.csv"), around)
    assert taken == [
        ("d/a/w.csv", "w.csv"),
        ("d/a/x.csv", "a/x.csv"),
        ("d/b/x.csv", "b/x.csv"),
        ("d/x.csv", "./x.csv"),
        ("d/c/y.csv", "y.csv"),
    ]
    assert last.warnings == ()


def test_an_equal_name_that_appears_later_is_taken_or_told_of(around, write):
    step = FetchStepFilesGlob("d/*/x.csv")
    write("d/b/x.csv")
    _, state, _ = drain(step, around)
    assert state == etag("x.csv")
    write("d/c/x.csv")
    taken, state, last = drain(step, around, state)
    assert (taken, last.warnings) == ([("d/c/x.csv", "c/x.csv")], ())
    write("d/a/x.csv")
    taken, _, last = drain(step, around, state)
    assert taken == []
    assert "a/x.csv came after its turn" in last.warnings[0]


def test_an_equal_name_is_never_taken_twice_without_the_record(around, write):
    step = FetchStepFilesGlob("d/*/x.csv")
    write("d/b/x.csv")
    _, state, _ = drain(step, around)
    write("d/a/x.csv")
    shutil.rmtree(around.root / ".odf")
    taken, _, last = drain(step, around, state)
    assert taken == []
    assert "a/x.csv, b/x.csv, and it cannot be told which" in last.warnings[0]


def test_a_name_handed_out_twice_means_the_file_that_was_committed(around, write):
    step = FetchStepFilesGlob("d/*/x.csv")
    first = write("d/a/x.csv")
    assert fetch(step, None, around.ctx()).path == first
    first.unlink()  # before it was committed
    write("d/b/x.csv")
    _, state, _ = drain(step, around)
    assert state == etag("x.csv")
    write("d/a/x.csv")
    taken, _, last = drain(step, around, state)
    assert taken == []
    assert isinstance(last, Unchanged)


def test_late_files_are_told_of_on_every_pull(around, write):
    step = FetchStepFilesGlob("*.csv")
    write("b.csv")
    _, state, last = drain(step, around)
    assert last.warnings == ()
    write("a.csv")
    for _ in range(2):
        got = fetch(step, state, around.ctx())
        assert isinstance(got, Unchanged)
        assert "1 came too late" in got.reason
        assert "a.csv came after its turn" in got.warnings[0]
    write("a2.csv")
    got = fetch(step, state, around.ctx())
    assert "2 came too late and were not taken" in got.reason
    assert "a.csv, a2.csv came after their turn" in got.warnings[0]
    write("c.csv")
    got = fetch(step, state, around.ctx())
    assert got.name == "c.csv"
    assert "--take-late-files takes them" in got.warnings[0]


def test_files_changed_after_their_turn_are_told_of(around, write):
    step = FetchStepFilesGlob("*.csv")
    write("a.csv")
    write("b.csv")
    fetch(step, None, around.ctx())
    write("b.csv", "longer before its turn")
    _, state, last = drain(step, around)
    assert last.warnings == ()
    write("a.csv", "changed")
    (warning,) = fetch(step, state, around.ctx()).warnings
    assert "a.csv changed after it was taken" in warning


def test_a_cleared_cache_is_told_of_once(around, write):
    step = FetchStepFilesGlob("*.csv")
    write("a.csv")
    write("b.csv")
    first = fetch(step, etag("b.csv"), around.ctx())
    assert "record of files seen so far is not there" in first.warnings[0]
    assert fetch(step, etag("b.csv"), around.ctx()).warnings == ()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": 1, "files": {"a": 3}}', "\x00"])
def test_a_broken_record_counts_as_none(around, write, content):
    step = FetchStepFilesGlob("*.csv")
    write("a.csv")
    fetch(step, None, around.ctx())
    (record,) = (around.root / ".odf/cache/fetch").glob("glob-*.json")
    record.write_text(content)
    assert "is not there" in fetch(step, etag("a.csv"), around.ctx()).warnings[0]


def test_an_unchanged_source_does_not_write_its_record(around, write):
    step = FetchStepFilesGlob("*.csv")
    write("a.csv")
    _, state, _ = drain(step, around)
    (record,) = (around.root / ".odf/cache/fetch").glob("glob-*.json")
    before = record.stat()
    fetch(step, state, around.ctx())
    assert record.stat().st_ino == before.st_ino


def test_no_match_is_an_error_only_at_first(around, write):
    step = FetchStepFilesGlob("d/*.csv")
    with pytest.raises(
        NotFoundError, match=r"d/\*\.csv: looked for \*\.csv in .*/d, which does not"
    ):
        fetch(step, None, around.ctx())
    write("d/a.txt")
    with pytest.raises(NotFoundError, match=r"in .*/d$"):
        fetch(step, None, around.ctx())
    assert isinstance(fetch(step, etag("a.csv"), around.ctx()), Unchanged)


@pytest.mark.parametrize(
    "state",
    [
        SourceState("default", "odf/last-modified", "2020-01-01T00:00:00Z"),
        etag('"abc"'),
        etag('W/"x"'),
    ],
)
def test_states_of_other_kinds_of_sources_are_told_of_and_ignored(around, write, state):
    write("a.csv")
    got = fetch(FetchStepFilesGlob("*.csv"), state, around.ctx())
    assert got.name == "a.csv"
    assert "is not one of FilesGlob" in got.warnings[0]


def test_order_by_event_time_from_path(around, write):
    for name in ["z-2024-01-01.csv", "a-2024-01-03.csv", "m-2024-01-02.csv", "b-2024-01-02.csv"]:
        write(name)
    source = EventTimeSourceFromPath(r"(\d{4}-\d\d-\d\d)")
    step = FetchStepFilesGlob("*.csv", event_time=source, order=BY_TIME)
    taken, state, _ = drain(step, around)
    assert taken == [
        (name, f"{name[2:12]}T00:00:00Z {name}")
        for name in ["z-2024-01-01.csv", "b-2024-01-02.csv", "m-2024-01-02.csv", "a-2024-01-03.csv"]
    ]
    (around.root / "a-2024-01-03.csv").unlink()
    write("y-2024-01-04.csv")
    assert [name for name, _ in drain(step, around, state)[0]] == ["y-2024-01-04.csv"]
    # The same dataset goes on by name: what sorts behind the last name is next.
    by_name = FetchStepFilesGlob("*.csv", event_time=source)
    assert fetch(by_name, state, around.ctx()).name == "b-2024-01-02.csv"


def test_order_by_modification_time_takes_changed_files_again(around, write):
    write("b.csv", at=1)
    write("a.csv", at=2)
    step = FetchStepFilesGlob("*.csv", order=BY_TIME)
    taken, state, _ = drain(step, around)
    assert [name for name, _ in taken] == ["b.csv", "a.csv"]
    write("b.csv", "changed", at=3)
    taken, _, last = drain(step, around, state)
    assert (taken, last.warnings) == ([("b.csv", "1970-01-01T00:00:03Z b.csv")], ())


def test_going_over_from_name_to_event_time_needs_the_last_file(around, write):
    write("a.csv", at=1)
    write("b.csv", at=2)
    step = FetchStepFilesGlob("*.csv", order=BY_TIME)
    assert fetch(step, etag("a.csv"), around.ctx()).name == "b.csv"
    with pytest.raises(BadInputError, match="gone"):
        fetch(step, etag("0.csv"), around.ctx())


def test_order_by_event_time_needs_event_times(around, write):
    write("a.csv")
    step = FetchStepFilesGlob("*.csv", event_time=EventTimeSourceFromSystemTime(), order=BY_TIME)
    with pytest.raises(BadInputError, match="not the system time"):
        fetch(step, None, around.ctx())


def test_event_time_from_a_folder_name(around, write):
    write("d/2024-02-03/x.csv")
    source = EventTimeSourceFromPath(r"(\d{4}-\d\d-\d\d)")
    got = fetch(FetchStepFilesGlob("d/*/x.csv", event_time=source), None, around.ctx())
    assert str(got.event_time) == "2024-02-03T00:00:00Z"


def test_names_that_are_not_text_are_refused(around):
    with open(bytes(around.root) + b"/\xff.csv", "wb"):  # noqa: PTH123
        pass
    with pytest.raises(BadInputError, match="not UTF-8"):
        fetch(FetchStepFilesGlob("*.csv"), None, around.ctx())


def test_real_daily_files_come_in_order(real_data, around):
    folder = real_data("b4")
    source = EventTimeSourceFromPath(r"-(\d{8})\.csv", "yyyyMMdd")
    step = FetchStepFilesGlob(f"{folder}/*.csv", event_time=source)
    state, times = None, []
    while isinstance(got := fetch(step, state, around.ctx()), Fetched):
        state = got.source_state
        times.append(str(got.event_time))
    assert times == [f"2022-09-{day:02}T00:00:00Z" for day in range(1, 31)]


@pytest.mark.parametrize("order", [None, BY_TIME])
def test_late_files_are_taken_when_asked_for(around, write, order):
    step = FetchStepFilesGlob("*.csv", order=order)
    write("m.csv", at=1_700_000_500)
    write("n.csv", at=1_700_000_600)
    _, state, _ = drain(step, around)
    write("a.csv", at=1_700_000_100)
    write("b.csv", at=1_700_000_200)
    write("z.csv", at=1_700_000_900)
    taken = []
    while isinstance(
        got := fetch(step, state, around.ctx(is_first=False, take_late=True)), Fetched
    ):
        taken.append((got.name, got.source_state == state, got.has_more, got.warnings))
        got.settle()
        got.discard()
        state = got.source_state
    assert taken == [
        ("a.csv", True, True, ()),
        ("b.csv", True, True, ()),
        ("z.csv", False, False, ()),
    ]
    assert got.warnings == ()
    assert (around.root / "a.csv").exists()
    assert fetch(step, state, around.ctx(is_first=False)).warnings == ()


def test_a_late_file_that_was_not_committed_stays_late(around, write):
    step = FetchStepFilesGlob("*.csv")
    write("b.csv")
    _, state, _ = drain(step, around)
    write("a.csv")
    for _ in range(2):
        got = fetch(step, state, around.ctx(is_first=False, take_late=True))
        assert got.name == "a.csv"
        got.discard()  # as after a failure
    assert "a.csv came after its turn" in fetch(step, state, around.ctx()).warnings[0]


def test_without_a_record_no_file_is_late(around, write):
    """Else all files would be taken a second time."""
    step = FetchStepFilesGlob("*.csv")
    write("a.csv")
    write("b.csv")
    _, state, _ = drain(step, around)
    shutil.rmtree(around.root / ".odf")
    got = fetch(step, state, around.ctx(is_first=False, take_late=True))
    assert isinstance(got, Unchanged)
    assert "taken for known" in got.warnings[0]
