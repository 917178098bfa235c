import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odf.cli.output import Cell, Column, Output, OutputFormat, StdoutClosedError, Terminal, dumps
from odf.cli.text import clean, count, counted, duration, json_safe, one_line, seconds, size
from odf.errors import OdfError
from odf.metadata.model import Timestamp

HOSTILE = "a\x1b[31mred\x07\r\n\tb\x9b2J\u202eltr\x00\ud800"


def output(*, tty: bool = False, width: int = 40, color: bool = False, **options) -> Output:
    terminal = Terminal(io.StringIO(), io.StringIO(), tty, tty, width, color)
    made = Output(terminal, **options)
    made.streams = (terminal.stdout, terminal.stderr)  # type: ignore[attr-defined]
    return made


def written(made: Output) -> tuple[str, str]:
    out, err = made.streams  # type: ignore[attr-defined]
    return out.getvalue(), err.getvalue()


def is_harmless(text: str) -> bool:
    return all(c == "\n" or (c.isprintable() and not "\u202a" <= c <= "\u202e") for c in text)


def test_control_characters_become_visible():
    assert clean(HOSTILE) == ("a\\x1b[31mred\\x07\\r\\n\\tb\\x9b2J\\u202eltr\\x00\\ud800")
    assert clean("Größe → 東京 🙂") == "Größe → 東京 🙂"
    assert one_line("a\n  b\r\nc\x1b") == "a b c\\x1b"


@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_nothing_that_a_terminal_obeys_is_left(text):
    made = output(width=4000)
    made.line(text)
    made.report(OdfError(text, hint=text), subject=text)
    made.progress(text, text)
    made.table([Column("x")], [[text]])
    controls = {chr(c) for c in (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F))} - {"\n"}
    for stream in written(made):
        assert not controls & set(stream)


@given(st.recursive(st.text() | st.integers() | st.none(), lambda v: st.dictionaries(st.text(), v)))
def test_json_is_escaped_without_changing_its_meaning(value):
    document = dumps({"value": value})
    assert json.loads(document) == {"value": value}
    assert not set(document) & {"\x7f", "\x9b", "\u202e", "\x1b"}
    assert json_safe(document) == document


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (120_000, "117 KiB"),
        (1_023_900, "1.0 MiB"),
        (5 * 2**30, "5.0 GiB"),
        (2**60, "1048576 TiB"),
    ],
)
def test_sizes(number, text):
    assert size(number) == text


def test_numbers_and_times():
    assert count(1234567) == "1,234,567"
    assert counted(1, "block") == "1 block"
    assert counted(2000, "block") == "2,000 blocks"
    assert duration(0.04) == "0.0 s"
    assert duration(12.3) == "12 s"
    assert duration(185) == "3 min 5 s"
    assert seconds(None) == "-"
    assert seconds(Timestamp.parse("2024-05-01T12:30:05.123Z")) == "2024-05-01 12:30:05"


def test_tables_fit_the_terminal_and_are_whole_in_a_pipe():
    columns = [Column("Name", shrink=True), Column("Rows", align="right")]
    rows = [["a" * 60, "1,000"], ["b", "2"]]
    narrow = output(tty=True, width=30)
    narrow.table(columns, rows)
    lines = written(narrow)[0].splitlines()
    assert all(len(line) <= 30 for line in lines)
    assert "…" in lines[1]
    assert lines[1].endswith("1,000")
    wide = output(width=30)
    wide.table(columns, rows)
    assert written(wide)[0].splitlines()[1] == "a" * 60 + "  1,000"


WIDE = [
    Column("Name", shrink=True, shrink_last=True, least=8),
    Column("Origin", shrink=True, least=6, drop=3),
    Column("Updated", drop=2),
    Column("ID", shrink=True, shrink_last=True, least=6, drop=1),
]
WIDE_ROW = ["n" * 12, "o" * 12, "2024-05-01 12:00:00", "i" * 12]


@pytest.mark.parametrize(
    ("width", "cells", "dropped"),
    [
        (61, [12, 12, 19, 12], ""),
        (56, [12, 7, 19, 12], ""),
        (54, [11, 6, 19, 12], ""),
        (45, [8, 6, 19, 6], ""),
        (44, [10, 19, 11], "Origin"),
        (36, [12, 12], "Updated, Origin"),
        (15, [12], "Updated, Origin, ID"),
        (5, [5], "Updated, Origin, ID"),
    ],
)
def test_what_gives_way_in_a_narrow_table(width, cells, dropped):
    made = output(tty=True, width=width)
    made.table(WIDE, [WIDE_ROW])
    out, err = written(made)
    row = out.splitlines()[1]
    assert [len(cell) for cell in re.split("  ", row)] == cells
    assert ("2024-05-01 12:00:00" in row) is ("Updated" not in dropped)
    names = sorted(re.split(", ", dropped)) if dropped else []
    said = re.match("not shown, for lack of room: (.*); -o json has everything\n", err)
    assert sorted(re.split(", ", said[1]) if said else []) == names


def test_many_columns_without_room_are_counted():
    made = output(tty=True, width=20, color=True)
    made.table([Column(f"c{n}", drop=n) for n in range(30)], [["12345678"] * 30])
    assert written(made)[1] == (
        "\x1b[2mnot shown, for lack of room: c2, c3, c4, c5, c6, c7, c8, c9 and 20 more; "
        "-o json has everything\x1b[0m\n"
    )


def test_tables_measure_wide_characters():
    made = output()
    made.table([Column("Stadt"), Column("n")], [["東京", "1"], ["Rom", "2"]])
    assert written(made)[0] == "Stadt  n\n東京   1\nRom    2\n"


def test_colours_only_where_they_are_wanted():
    plain, colored = output(), output(tty=True, color=True)
    for made in (plain, colored):
        made.table([Column("x")], [[Cell("failed", "red")], ["[bold]not markup[/]"]])
    assert "\x1b" not in written(plain)[0]
    assert "\x1b[31mfailed" in written(colored)[0]
    assert "[bold]not markup[/]" in written(plain)[0]


def test_progress_is_plain_lines_in_a_pipe_on_request():
    made = output(verbose=1)
    made.progress("prices", "reading")
    made.progress("prices", "hashing")
    assert written(made) == ("", "prices: reading\nprices: hashing\n")


def test_a_job_that_runs_by_itself_says_no_progress():
    made = output()
    made.progress("prices", "reading")
    assert written(made) == ("", "")


def test_progress_gives_way_on_a_terminal():
    made = output(tty=True, width=20)
    made.progress("prices", "reading a file with a long name")
    made.line("result")
    made.finish()
    out, err = written(made)
    assert out == "result\n"
    assert err == "\r\x1b[2Kprices: reading a f\r\x1b[2K"


@pytest.mark.parametrize(
    "options",
    [{"quiet": True}, {"quiet": True, "verbose": 1}, {"output_format": OutputFormat.JSON}],
)
def test_no_progress_when_it_would_be_in_the_way(options):
    made = output(**options)
    made.progress("prices", "reading")
    made.warn("odd")
    made.note("done")
    assert written(made) == ("", "")


def test_progress_beside_json_on_request():
    made = output(output_format=OutputFormat.JSON, verbose=1)
    made.progress("prices", "reading")
    assert written(made)[1] == "prices: reading\n"


def test_json_is_one_document_also_when_it_fails():
    error = OdfError("no\nway", hint="try", details={"path": object})
    failed = output(output_format=OutputFormat.JSON)
    failed.fail("pull", error)
    out, err = (json.loads(stream) for stream in written(failed))
    assert out["schema"] == "odf.cli/pull/v1"
    assert err["schema"] == "odf.cli/error/v1"
    assert out["error"] == err["error"]
    assert err["error"] | {"details": {}} == {
        "kind": "failure",
        "message": "no\nway",
        "hint": "try",
        "exit_code": 1,
        "details": {},
    }
    partly = output(output_format=OutputFormat.JSON)
    partly.document("pull", {"datasets": []})
    partly.fail("pull", error)
    assert json.loads(written(partly)[0]) == {"schema": "odf.cli/pull/v1", "datasets": []}


def test_quiet_keeps_results_and_errors():
    made = output(quiet=True)
    made.line("result")
    made.report(OdfError("broken", hint="mend it"), subject="prices")
    assert written(made) == ("result\n", "error: prices: broken\nhint: mend it\n")


class _Closed(io.StringIO):
    def write(self, _text: str) -> int:
        raise BrokenPipeError


def test_a_reader_that_goes_away_ends_the_run():
    made = Output(Terminal(_Closed(), io.StringIO()))
    with pytest.raises(StdoutClosedError):
        made.line("x")


def test_a_closed_standard_error_is_no_reason_to_fail():
    Output(Terminal(io.StringIO(), _Closed())).report(OdfError("x"))
    Output(Terminal(io.StringIO(), None)).report(OdfError("x"))
