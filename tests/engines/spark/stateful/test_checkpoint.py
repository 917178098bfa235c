"""The file that a state travels in: the same bytes for the same state, and nothing is believed."""

import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odf.engines.spark.stateful import checkpoint
from odf.engines.spark.stateful.checkpoint import (
    State,
    StateKey,
    StateMismatchError,
    parquet_bytes,
    read_state,
    save_state,
)
from odf.errors import BadInputError

ROWS = pa.table({"a": [1, 2], "b": ["x", None]})
KEY = StateKey(
    release="odf-spark/1.0.0",
    kind="bounded",
    query="00",
    inputs=((("a", "int64"), ("b", "string")),),
    result=(("event_time", "timestamp[ms, tz=UTC]"),),
)
FRAME = {"reached": 7, "inputs": []}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "checkpoint"
    save_state(path, KEY, {"n": 1}, FRAME, {"input-0": ROWS, "emitted": ROWS.slice(1)})
    return path


def test_what_was_saved_is_read(saved: Path, tmp_path: Path) -> None:
    key, state = read_state(saved, tmp_path / "scratch")
    assert key == KEY
    assert (state.meta, state.frame) == ({"n": 1}, FRAME)
    assert {name: pq.read_table(path) for name, path in state.tables.items()} == {
        "input-0": ROWS,
        "emitted": ROWS.slice(1),
    }
    # Anybody can read it without this package.
    with tarfile.open(saved) as archive:
        assert archive.getnames() == ["state.json", "emitted.parquet", "input-0.parquet"]
        described = archive.extractfile("state.json")
        assert described is not None
        assert json.load(described)["key"]["kind"] == "bounded"


def test_the_same_state_gives_the_same_bytes(saved: Path, tmp_path: Path) -> None:
    again, file = tmp_path / "again", tmp_path / "rows.parquet"
    file.write_bytes(parquet_bytes(ROWS))
    save_state(again, KEY, {"n": 1}, FRAME, {"emitted": ROWS.slice(1), "input-0": file})
    assert again.read_bytes() == saved.read_bytes()


def test_an_existing_file_is_not_replaced(saved: Path) -> None:
    before = saved.read_bytes()
    with pytest.raises(FileExistsError):
        save_state(saved, KEY, {}, FRAME, {})
    assert saved.read_bytes() == before


def test_no_checkpoint_is_no_state(tmp_path: Path) -> None:
    assert State.load(None, KEY, tmp_path / "scratch") is None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            {"release": "odf-spark/2.0.0"},
            "its release is odf-spark/1.0.0, this one's is odf-spark/2",
        ),
        ({"kind": "changing"}, "its kind is bounded"),
        ({"query": "01"}, "its query is another one"),
        ({"inputs": KEY.inputs * 2}, "it has 1 inputs, this one has 2"),
        ({"inputs": ((("a", "int64"),),)}, "its input 1 has 'b' as string, this one's None"),
        ({"inputs": ((("a", "int32"), ("b", "string")),)}, "its input 1 has 'a' as int64"),
        ({"result": ()}, "its result has 'event_time'"),
    ],
)
def test_a_state_of_another_query_is_refused(
    change: dict[str, Any], why: str, saved: Path, tmp_path: Path
) -> None:
    with pytest.raises(StateMismatchError, match="belongs to another query") as caught:
        State.load(saved, replace(KEY, **change), tmp_path / "scratch")
    assert why in caught.value.message
    assert caught.value.hint is not None


def test_columns_that_were_added_fit(saved: Path, tmp_path: Path) -> None:
    wider = replace(
        KEY, inputs=((("c", "double"), *KEY.inputs[0]),), result=(*KEY.result, ("z", "int8"))
    )
    state = State.load(saved, wider, tmp_path / "scratch")
    assert state is not None
    schema = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.float64())])
    assert state.table("input-0", schema) is not None
    assert state.table("input-1", schema) is None
    with pytest.raises(BadInputError, match="column 'b' of the type string, wanted None"):
        state.table("input-0", pa.schema([("a", pa.int64())]))


# What a stranger may have put there.

Members = list[tuple[tarfile.TarInfo, bytes]]


def described(**changes: Any) -> bytes:
    found = {
        "format": checkpoint.FORMAT,
        "key": KEY.to_json(),
        "watermarks": FRAME,
        "class": {},
        "tables": [],
        **changes,
    }
    return json.dumps(found).encode()


def member(name: str, content: bytes = b"", **changes: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for attribute, value in changes.items():
        setattr(info, attribute, value)
    return info, content


def write(path: Path, members: Members, form: int = tarfile.USTAR_FORMAT) -> Path:
    with tarfile.open(path, "w:", format=form) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return path


FINE = member("state.json", described())


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ([], "it has no state.json"),
        ([FINE, FINE], "state.json is there twice"),
        ([FINE, member("../escape.parquet")], "'../escape.parquet' is no table"),
        ([FINE, member("/etc/passwd")], "'/etc/passwd' is no table"),
        ([FINE, member("a/b.parquet")], "'a/b.parquet' is no table"),
        ([FINE, member("A.parquet")], "'A.parquet' is no table"),
        ([FINE, member("x.parquet\n")], "is no table"),
        ([FINE, member("input.parquet", type=tarfile.SYMTYPE, linkname="/etc/passwd")], "plain"),
        ([FINE, member("input.parquet", type=tarfile.LNKTYPE, linkname="state.json")], "plain"),
        ([FINE, member("input.parquet", type=tarfile.DIRTYPE)], "plain"),
        ([FINE, member("input.parquet", type=tarfile.FIFOTYPE)], "plain"),
        ([FINE, member("input.parquet", type=tarfile.CHRTYPE)], "plain"),
        ([FINE, member("a.parquet"), member("a.parquet")], "is there twice"),
        ([FINE, member("a.parquet")], "it has the tables ['a'], wanted []"),
        ([member("state.json", described(tables=["a"]))], "it has the tables [], wanted ['a']"),
        ([member("state.json", b"{")], "state.json: "),
        ([member("state.json", b"[]")], "not of the format"),
        ([member("state.json", b"\xff")], "state.json: "),
        ([member("state.json", b"[" * 100_000)], "state.json: "),
        ([member("state.json", described(format="odf-state/2"))], "not of the format odf-state/1"),
        ([member("state.json", described(key=None))], "wanted an object"),
        ([member("state.json", described(key={"release": 1}))], "wanted a list"),
        ([member("state.json", described(key={**KEY.to_json(), "kind": 1}))], "not complete"),
        ([member("state.json", described(key={**KEY.to_json(), "inputs": [3]}))], "an object"),
        ([member("state.json", described(key={**KEY.to_json(), "result": {"a": 1}}))], "types"),
        ([member("state.json", described(tables="a"))], "wanted a list"),
        ([member("state.json", described(watermarks=[]))], "wanted an object"),
    ],
)
def test_archives_that_nobody_made_like_that(members: Members, why: str, tmp_path: Path) -> None:
    path = write(tmp_path / "checkpoint", members)
    before = sorted(p.name for p in tmp_path.iterdir())
    with pytest.raises(BadInputError, match="the checkpoint is damaged") as caught:
        State.load(path, KEY, tmp_path / "scratch")
    assert why in caught.value.message
    assert caught.value.reason == "checkpoint"
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*before, "scratch"])


def test_more_tables_and_larger_ones_than_any_query_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "MAX_STATE_TABLES", 2)
    monkeypatch.setattr(checkpoint, "MAX_STATE_TABLE_SIZE", 100)
    monkeypatch.setattr(checkpoint, "MAX_STATE_DESCRIPTION_SIZE", 1000)
    many = [FINE, *(member(f"t{number}.parquet") for number in range(3))]
    large = [FINE, member("t.parquet", bytes(101))]
    talkative = [member("state.json", described(note="x" * 1000))]
    for number, (members, why) in enumerate(
        ((many, "more than 2 tables"), (large, "too large (101 bytes)"), (talkative, "too large"))
    ):
        path = write(tmp_path / str(number), members)
        with pytest.raises(BadInputError) as caught:
            read_state(path, tmp_path / f"scratch-{number}")
        assert why in caught.value.message


def test_a_header_that_announces_more_than_there_is(saved: Path, tmp_path: Path) -> None:
    whole = saved.read_bytes()
    info = tarfile.TarInfo("input-0.parquet")
    info.size = 1 << 40
    huge = info.tobuf(tarfile.GNU_FORMAT)
    path = tmp_path / "huge"
    path.write_bytes(whole[: 512 + 1024] + huge + b"x" * 100)
    with pytest.raises(BadInputError, match="damaged"):
        read_state(path, tmp_path / "huge-scratch")


@pytest.mark.parametrize("share", [0, 0.1, 0.25, 0.4, 0.5, 0.75])
def test_a_truncated_file(share: float, saved: Path, tmp_path: Path) -> None:
    whole = saved.read_bytes()
    saved.write_bytes(whole[: int(len(whole.rstrip(b"\0")) * share)])
    with pytest.raises(BadInputError, match="damaged"):
        State.load(saved, KEY, tmp_path / "scratch")


def test_extended_headers_and_other_formats_are_refused(tmp_path: Path) -> None:
    info, content = member("state.json", described(), pax_headers={"comment": "x"})
    path = write(tmp_path / "pax", [(info, content)], tarfile.PAX_FORMAT)
    with pytest.raises(BadInputError, match="no plain file"):
        read_state(path, tmp_path / "scratch")
    with tarfile.open(tmp_path / "packed", "w:gz") as archive:
        archive.addfile(FINE[0], io.BytesIO(FINE[1]))
    with pytest.raises(BadInputError, match="damaged"):
        read_state(tmp_path / "packed", tmp_path / "scratch-2")


def test_a_table_that_is_no_table(tmp_path: Path) -> None:
    members = [
        member("a.parquet", b"PAR1 and so on"),
        member("state.json", described(tables=["a"])),
    ]
    state = State.load(write(tmp_path / "checkpoint", members), KEY, tmp_path / "scratch")
    assert state is not None
    with pytest.raises(BadInputError, match="the table a: "):
        state.table("a", ROWS.schema)
