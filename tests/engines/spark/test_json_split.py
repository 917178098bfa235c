"""Documents in several pieces: the same records as in one, whatever is in them."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from odf.engines.host.engine import SourceFile
from odf.engines.spark.readers import json_records, json_split
from odf.engines.spark.readers.json import JsonSource, open_json
from odf.engines.spark.readers.json_format import parse_json_format
from odf.engines.spark.readers.json_records import (
    DocumentError,
    Record,
    document_records,
    element_records,
)
from odf.engines.spark.readers.json_split import split_document
from odf.engines.spark.readers.json_task import records_of
from odf.engines.spark.readers.known import KnownColumns
from odf.metadata.model import ReadStepGeoJson, ReadStepJson

COLUMN = ("a STRING",)
TEXTS = st.text(st.sampled_from('"\\\\{}[],:é😀\n x'), max_size=8)
SCALARS = st.none() | st.booleans() | st.integers(-99, 99) | TEXTS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
ELEMENTS = st.lists(VALUES, max_size=12)
FORMS: list[dict[str, Any]] = [
    {},
    {"indent": 1},
    {"separators": (",", ":"), "ensure_ascii": False},
    {"ensure_ascii": False, "indent": "\t"},
]


def opened(folder: Path, data: bytes, step: Any, **options: Any) -> JsonSource:
    path = folder / "data.json"
    path.write_bytes(data)
    files = [SourceFile(str(path), "data.json")]
    spark: Any = None  # columns are declared, so there is nothing to run
    return open_json(spark, files, parse_json_format(step), folder, KnownColumns(), **options)


def read(source: JsonSource) -> list[Record]:
    return [r for piece in source.ranges for r in records_of(piece, source.form)]


def values(records: list[Record]) -> list[Any]:
    return [record.value if record.problem is None else record.text for record in records]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    rows=ELEMENTS,
    beside=VALUES,
    form=st.sampled_from(FORMS),
    range_size=st.integers(1, 40),
    chunk=st.integers(1, 30),
    mark=st.booleans(),
)
@example(
    rows=["\\", '\\"', '\\\\",{"'] * 3, beside=None, form={}, range_size=1, chunk=1, mark=False
)
def test_pieces_give_what_the_whole_gives(
    tmp_path: Path,
    rows: list[Any],
    beside: Any,
    form: dict[str, Any],
    range_size: int,
    chunk: int,
    *,
    mark: bool,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_split, "_CHUNK", chunk)
        for step, document in (
            (ReadStepJson(schema=COLUMN), rows),
            (
                ReadStepJson(schema=COLUMN, sub_path="é.b"),
                {"x": beside, "é": {"y": [beside], "b": rows, "z": [beside]}, "w": beside},
            ),
        ):
            text = json.dumps(document, **form)
            data = (b"\xef\xbb\xbf" if mark else b"") + text.encode("utf-8", "surrogatepass")
            source = opened(tmp_path, data, step, range_size=range_size)
            whole = opened(tmp_path, data, step, cut_documents=False)
            assert values(read(source)) == values(read(whole))
            pieces = [piece for piece in source.ranges if piece.elements]
            # Every place that is worth a cut is found.
            contents = [len(json.dumps(row, **form).encode()) for row in rows]
            if len(rows) > 1 and max(contents[:-1]) >= range_size:
                assert pieces
            assert all(piece.end - piece.start >= range_size for piece in pieces[:-1])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    rows=st.lists(VALUES, min_size=1, max_size=6),
    place=st.integers(0, 200),
    inserted=st.sampled_from([b"", b",", b'"', b"[", b"]", b"{", b"}", b"\\", b"\xff", b" x"]),
    range_size=st.integers(1, 20),
)
def test_a_document_that_is_broken_is_broken_in_pieces_too(
    tmp_path: Path, rows: list[Any], place: int, inserted: bytes, range_size: int
) -> None:
    """Wherever something is missing or too much: the same records, or no piece passes for good."""
    text = json.dumps({"a": rows, "b": 1}).encode()
    data = text[: place % len(text)] + inserted + text[place % len(text) + (not inserted) :]
    step = ReadStepJson(schema=COLUMN, sub_path="a")
    found, wanted = (
        attempt(opened(tmp_path, data, step, **options))
        for options in ({"range_size": range_size}, {"cut_documents": False})
    )
    assert found == wanted


def attempt(source: JsonSource) -> list[Any] | None:
    try:
        return values(read(source))
    except DocumentError:
        return None


def test_features_are_cut_and_the_collection_is_checked(tmp_path: Path) -> None:
    features = [{"type": "Feature", "properties": {"n": n}, "geometry": None} for n in range(50)]
    for kind, is_cut in (("FeatureCollection", True), ("Features", False)):
        for document in (
            {"type": kind, "features": features},
            {"features": features, "type": kind},
        ):
            data = json.dumps(document).encode()
            source = opened(tmp_path, data, ReadStepGeoJson(schema=COLUMN), range_size=200)
            assert all(piece.elements == is_cut for piece in source.ranges)
            assert (len(source.ranges) > 10) == is_cut


@pytest.mark.parametrize(
    "data",
    [
        b'{"rows": [1, 2, 3, 4], "rows": [5, 6, 7, 8]}',
        b'{"rows": [1, 2, 3, 4]} 5',
        b'{"rows": [1, 2, 3, 4]',
        b'{"rows": [1, 2, 3, 4',
        b'{"rows": [1, 2, 3, 4], "x": }',
        b'{"x": [1, 2, 3, 4]}',
        b'{"rows": {"x": [1, 2, 3, 4]}}',
        b'{"rows": "[1, 2, 3, 4]"}',
        b'{"rows": [' + b"[" * 100_000,
        b"\xff" * 100,
    ],
)
def test_what_is_not_as_it_should_be_is_left_to_one_task(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(data)
    assert split_document(path, 0, ("rows",), None, 3) is None


def test_brackets_that_only_open_take_no_time(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b"[" + b"[" * 60_000 + b"]" * 60_000 + b"]")
    assert split_document(path, 0, (), None, 10) is None


def test_much_may_stand_around_the_array(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with path.open("w") as file:
        file.write('{"before": [')
        file.write(",".join(['"' + "x" * 997 + '"'] * 3000))
        file.write('], "rows": [1' + ", 2" * 100 + '], "after": ["' + "y" * 3_000_000 + '"]}')
    split = split_document(path, 0, ("rows",), None, 100)
    assert split is not None
    assert path.stat().st_size > 6_000_000
    assert len(split.pieces()) == 3
    with path.open("rb") as file:
        file.seek(split.start)
        assert json.loads(b"[" + file.read(split.end - split.start) + b"]") == [1] + [2] * 100


@pytest.mark.parametrize("number", ["2.5", "-0.25", "1e5", "1E+5", "12.5e-10"])
@pytest.mark.parametrize("window", range(1, 30))
def test_numbers_go_on_behind_the_window(
    number: str, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_records, "_WINDOW", window)
    text = f'{{"a": {number}, "r": [{number}, {number} ], "b": {number}}}'
    found = [record.value for record in document_records(io.StringIO(text), ("r",), None)]
    assert found == [number, number]
    elements = element_records(io.StringIO(f"{number},{number}"))
    assert [(e.value, e.size) for e in elements] == [(number, len(number))] * 2
    for cut in ("2.", "2e", "2.x", "2ex", "2.5.5"):
        with pytest.raises(DocumentError):
            list(document_records(io.StringIO(f'{{"r": [1], "a": {cut}}}'), ("r",), None))


@pytest.mark.parametrize("window", range(1, 9))
def test_the_size_of_an_element_at_the_end(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_records, "_WINDOW", window)
    for last, size in (('"é"', 3), ("12", 2), ("[1]", 3)):
        records = list(element_records(io.StringIO("{}," + last)))
        assert [record.size for record in records] == [2, size]
