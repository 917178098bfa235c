"""Slices read in this process and apart from it: the same results, and who bears a hostile file."""

import decimal
import json
import os
import random
import resource
import socket
import subprocess
import sys
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odf.data.apart import ENVIRONMENT, READY, ReaderApart, _Child
from odf.data.apart_messages import info_to_json, vocab_to_json
from odf.data.parquet import MalformedSliceError, physical_hash
from odf.data.readers import OWN_READER
from odf.data.retractions import WrongRetraction
from odf.errors import BadInputError, EngineUnavailableError, NotFoundError, OdfError
from odf.limits import READING_MEMORY
from odf.metadata.model import DEFAULT_VOCAB, DatasetVocabulary, OperationType
from odf.runtimes.sandbox import Sandbox, SandboxLimits
from tests.conftest import until
from tests.data import slicing
from tests.data.hostile_files import write_list_bomb

APART = ["apart", pytest.param("sandboxed", marks=pytest.mark.sandbox)]


def make(kind, folder):
    if kind == "own":
        return OWN_READER
    if kind == "apart":
        return ReaderApart(folder / "reader")
    sandbox = Sandbox(ENVIRONMENT, limits=SandboxLimits(READING_MEMORY))
    if (reason := sandbox.why_not()) is not None:
        pytest.skip(f"bubblewrap does not work here: {reason}")

    def confine(program, place):
        return sandbox.argv(place.parent, program, bind=["--bind", str(place), str(place)])

    return ReaderApart(folder / "reader", confine)


@pytest.fixture(scope="module", params=["own", *APART])
def reader(request, tmp_path_factory):
    made = make(request.param, tmp_path_factory.mktemp("reading"))
    yield made
    made.close()


@pytest.fixture
def apart(tmp_path):
    made = make("apart", tmp_path)
    yield made
    made.close()
    assert not (tmp_path / "reader").exists()


def typed_columns():
    """Columns of all kinds of types, after the system columns."""
    offset, op, system_time, event_time = slicing.system_columns([0, 2, 3], 4, [5, None, -9])
    return {
        "offset": offset,
        "op": op,
        "system_time": system_time,
        "event_time": event_time,
        "text": ["a", None, "ü"],
        "number": pa.array([decimal.Decimal("1.50"), None, None], pa.decimal128(20, 2)),
        "list": pa.array([[1, None], None, []], pa.list_(pa.int16())),
        "struct": [{"a": 1, "b": {"c": "x"}}, None, {"a": None, "b": None}],
        "uuid": pa.array([uuid.UUID(int=7).bytes] * 3, pa.uuid()),
        "time": pa.array([1, 2, None], pa.time64("us")),
        "day": pa.array([1, None, 3], pa.date32()),
        "float": pa.array([0.0, -0.0, float("nan")], pa.float32()),
        "bytes": pa.array([b"\0", None, b""], pa.binary()),
    }


def test_what_a_slice_is(reader, tmp_path):
    pq.write_table(pa.table(typed_columns()), tmp_path / "slice")
    found = reader.inspect(tmp_path / "slice", DEFAULT_VOCAB)
    assert found == OWN_READER.inspect(tmp_path / "slice", DEFAULT_VOCAB)
    assert (found.offset_start, found.offset_end, found.problems) == (4, 6, ())
    assert found.ops[OperationType.CORRECT_TO] == 1


def test_what_is_wrong_with_a_slice(reader, tmp_path):
    rows = [(0, "A", 1), (2, "B", 2)]
    path = slicing.write(tmp_path / "slice", rows)
    vocab = DatasetVocabulary(offset_column="city", event_time_column="nowhere")
    for names in (DEFAULT_VOCAB, vocab):
        assert reader.inspect(path, names) == OWN_READER.inspect(path, names)
    assert reader.inspect(path, DEFAULT_VOCAB).unpaired
    assert reader.inspect(path, vocab).problems
    for columns in (slicing.batch([]).schema.empty_table(), pa.table({})):
        pq.write_table(columns, tmp_path / "empty")
        empty = reader.inspect(tmp_path / "empty", DEFAULT_VOCAB)
        assert empty == OWN_READER.inspect(tmp_path / "empty", DEFAULT_VOCAB)
        assert empty.num_records == 0
        assert empty.problems


def test_the_last_rows(reader, tmp_path):
    old = slicing.write(tmp_path / "old", [(0, "A", 1), (0, "B", 2)])
    wider = pa.schema([*slicing.CITIES, ("area", pa.float64())])
    new = slicing.write(tmp_path / "new", [(0, "C", 3, 0.5)], start=2, data=wider)
    assert reader.tail([old, new], 2).to_pylist() == OWN_READER.tail([old, new], 2).to_pylist()
    assert reader.tail([old, new], 2)["city"].to_pylist() == ["B", "C"]
    assert reader.tail([old, new], 1).num_rows == 1
    assert reader.tail([], 3).num_rows == 0


def test_the_last_rows_of_many_slices(reader, tmp_path):
    paths = [
        slicing.write(tmp_path / str(number), [(0, "A", number)], start=number)
        for number in range(150)
    ]
    assert reader.tail(paths, 140)["population"].to_pylist() == list(range(10, 150))


def test_names_that_are_no_text(reader, tmp_path):
    """Names of files are bytes; so are those of the folders that a workspace is in."""
    folder = tmp_path / os.fsdecode(b"f\xff")
    folder.mkdir()
    path = slicing.write(folder / os.fsdecode(b"s\xfe"), [(0, "A", 1), (1, "B", 2)])
    assert reader.inspect(path, DEFAULT_VOCAB).num_records == 2
    assert reader.tail([path], 1)["city"].to_pylist() == ["B"]
    assert reader.pick(path, ["offset", "city"], {0})["city"].to_pylist() == ["A"]
    found = reader.wrong_retractions([(path, True)], ["city"], DEFAULT_VOCAB, folder)
    assert [one.offset for one in found] == [1]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root opens what its owner alone may read")
def test_files_that_only_their_owner_may_read(reader, tmp_path):
    path = slicing.write(tmp_path / "slice", [(0, "A", 1), (0, "B", 2)])
    path.chmod(0o600)
    os.chown(path, 12345, 12345)
    assert reader.inspect(path, DEFAULT_VOCAB) == OWN_READER.inspect(path, DEFAULT_VOCAB)
    assert reader.tail([path], 1)["city"].to_pylist() == ["B"]


def test_rows_that_are_picked(reader, tmp_path):
    pq.write_table(pa.table({"x": [0] * 9, "offset": range(9), "y": range(9)}), tmp_path / "f")
    found = reader.pick(tmp_path / "f", ["offset", "y"], {3, 7, 99})
    assert found.to_pydict() == {"offset": [3, 7], "y": [3, 7]}
    with pytest.raises(BadInputError, match="has no column 'z'"):
        reader.pick(tmp_path / "f", ["offset", "z"], {3})


def test_wrong_retractions(reader, tmp_path):
    first = slicing.write(tmp_path / "first", [(0, "A", 1), (0, "B", 2), (1, "C", 1)])
    second = slicing.write(tmp_path / "second", [(1, "A", 1), (2, "B", 3), (3, "B", 4)], start=3)
    slices = [(first, False), (second, True)]
    found = list(reader.wrong_retractions(iter(slices), ["city"], DEFAULT_VOCAB, tmp_path))
    assert found == [WrongRetraction(4, OperationType.CORRECT_FROM, 1)]
    with pytest.raises(BadInputError, match="no single column 'country'"):
        list(reader.wrong_retractions(slices, ["country"], DEFAULT_VOCAB, tmp_path))
    assert reader.inspect(first, DEFAULT_VOCAB).num_records == 3


def test_very_many_wrong_retractions(reader, tmp_path):
    path = slicing.write(tmp_path / "slice", [(1, str(n), n) for n in range(9_000)])
    found = reader.wrong_retractions([(path, True)], ["city"], DEFAULT_VOCAB, tmp_path)
    assert sorted(one.offset for one in found) == list(range(9_000))


def test_histories_that_are_not_read_to_their_end(reader, tmp_path):
    path = slicing.write(tmp_path / "slice", [(1, "A", 1)])
    (tmp_path / "bad").write_bytes(b"PAR1 and no more")

    def history(second):
        return reader.wrong_retractions(
            [(path, True), (second, True)], ["city"], DEFAULT_VOCAB, tmp_path
        )

    with pytest.raises(MalformedSliceError, match="slice file bad cannot be read"):
        list(history(tmp_path / "bad"))
    with pytest.raises(NotFoundError, match="no slice file gone"):
        list(history(tmp_path / "gone"))
    assert next(history(path)) == WrongRetraction(0, OperationType.RETRACT, None)
    assert reader.inspect(path, DEFAULT_VOCAB).num_records == 1


def test_what_cannot_be_read(reader, tmp_path):
    with pytest.raises(NotFoundError, match="no slice file gone"):
        reader.inspect(tmp_path / "gone", DEFAULT_VOCAB)
    (tmp_path / "bad").write_bytes(b"PAR1 and no more")
    with pytest.raises(MalformedSliceError, match="slice file bad cannot be read"):
        reader.inspect(tmp_path / "bad", DEFAULT_VOCAB)
    with pytest.raises(MalformedSliceError, match="slice file bad cannot be read"):
        reader.tail([tmp_path / "bad"], 3)


def test_damaged_files_end_alike(reader, tmp_path):
    """The same verdict over any damage, and never a reader that is lost."""
    path = slicing.write(tmp_path / "slice", [(0, "A", 1), (2, "B", 2), (3, "B", None)])
    whole, dice = path.read_bytes(), random.Random(8)
    outcomes = set()
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(dice.randint(1, 3)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        path.write_bytes(data)
        said = [verdict(one, path) for one in (reader, OWN_READER)]
        assert said[0] == said[1]
        outcomes.add(type(said[0]))
    assert outcomes == {str, tuple}


def verdict(reader, path):
    try:
        found = reader.inspect(path, DEFAULT_VOCAB)
    except OdfError as error:
        return f"{type(error).__name__}: {error.message}"
    return found.num_records, found.physical_hash, found.logical_hash, found.problems


@pytest.mark.parametrize("kind", APART)
def test_a_bomb_takes_no_memory_here(kind, tmp_path):
    bomb = write_list_bomb(tmp_path / "bomb")
    good = slicing.write(tmp_path / "good", [(0, "A", 1)])
    reader = make(kind, tmp_path)
    try:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(MalformedSliceError, match="slice file bomb cannot be read"):
            reader.inspect(bomb, DEFAULT_VOCAB)
        assert reader.inspect(good, DEFAULT_VOCAB).num_records == 1
        taken_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert taken_kib < 100 * 1024
    finally:
        reader.close()


@pytest.mark.sandbox
def test_the_sandbox_has_no_network_and_none_of_our_files(tmp_path):
    reader = make("sandboxed", tmp_path)
    try:
        reader.inspect(slicing.write(tmp_path / "good", [(0, "A", 1)]), DEFAULT_VOCAB)
        pid = inner_process(reader._child._process.pid)
        for namespace in ("net", "mnt", "pid", "user"):
            here, there = (Path(f"/proc/{one}/ns/{namespace}") for one in ("self", pid))
            assert here.readlink() != there.readlink()
        inside = Path(f"/proc/{pid}/root")
        here = tmp_path.relative_to("/")
        assert [path.name for path in (inside / here).iterdir()] == ["reader"]
        assert [path.name for path in (inside / here / "reader").iterdir()] == ["scratch"]
        assert not (inside / "etc" / "shadow").exists()
    finally:
        reader.close()


def inner_process(pid):
    """The innermost of the processes that were started one by the other."""
    while True:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if not children:
            return pid
        [pid] = children


def test_a_reader_that_is_killed_over_a_file(tmp_path):
    """Time on the processor is the one thing that the child does not bound itself."""
    limited = (
        "import os, resource, sys; resource.setrlimit(resource.RLIMIT_CPU, (2, 2)); "
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    reader = ReaderApart(
        tmp_path / "reader", lambda program, _: [sys.executable, "-c", limited, *program]
    )
    good = slicing.write(tmp_path / "good", [(0, "A", 1)])
    endless = tmp_path / "endless"
    columns = pa.table({"n": pa.repeat(pa.scalar(7, pa.int64()), 1_000_000)})
    with pq.ParquetWriter(endless, columns.schema) as writer:
        for _ in range(500):
            writer.write_table(columns)
    try:
        with pytest.raises(
            MalformedSliceError, match=r"endless .* ends the process that does .killed by SIG"
        ):
            reader.inspect(endless, DEFAULT_VOCAB)
        assert reader.inspect(good, DEFAULT_VOCAB).num_records == 1
    finally:
        reader.close()


def test_a_slice_that_takes_too_long(tmp_path):
    silent = [
        sys.executable,
        "-c",
        "import os; os.write(0, b'ready\\n'); import signal; signal.pause()",
    ]
    reader = ReaderApart(tmp_path / "reader", lambda *_: silent, seconds=0.5)
    path = slicing.write(tmp_path / "good", [(0, "A", 1)])
    with pytest.raises(MalformedSliceError, match=r"cannot be read: it takes longer than 0\.5"):
        reader.inspect(path, DEFAULT_VOCAB)
    reader.close()


def said(document, rows=b""):
    return len(document).to_bytes(8, "big") + document + rows


@pytest.mark.parametrize(
    "answer",
    [
        b"\xff" * 8,
        said(b"no json"),
        said(b"[]"),
        said(b"{}"),
        said(b'{"answer": null, "rows": -1}'),
        said(b'{"answer": null, "rows": 99999999999}'),
        said(b'{"answer": {"rows": 1}, "rows": 0}'),
        said(b'{"error": {"kind": "worse", "message": "", "hint": null}}'),
        said(b'{"error": 3}'),
        said(b'{"answer": null, "rows": 4}', b"rows"),
        said(b"[" * 100_000),
        b"",
    ],
)
def test_a_child_that_was_taken_over(answer, tmp_path):
    """Whatever it says, it is the file that cannot be read."""
    speaks = f"import os; os.read(0, 9999); os.write(0, {READY + answer!r})"
    reader = ReaderApart(tmp_path / "reader", lambda *_: [sys.executable, "-c", speaks])
    path = slicing.write(tmp_path / "slice", [(0, "A", 1)])
    with pytest.raises(MalformedSliceError, match="slice file slice cannot be read"):
        reader.inspect(path, DEFAULT_VOCAB)
    with pytest.raises(MalformedSliceError, match="slice file slice cannot be read"):
        reader.tail([path], 1)
    reader.close()


def test_what_a_child_said_before_it_ended_is_heard(tmp_path):
    said_all = f"import os; os.write(0, {READY + said(b'[]')!r})"
    child = _Child([sys.executable, "-c", said_all], {})
    child._process.wait()
    path = slicing.write(tmp_path / "slice", [(0, "A", 1)])
    with path.open("rb") as file:
        child.about([path], [file], 60)
        child.ask({"ask": "tail"})
        with pytest.raises(TypeError):
            child.answer()
    assert child.has_started
    child.close()


FLOOD = """\
import json, os, sys
def say(answer):
    line = json.dumps({"answer": answer, "rows": 0}).encode()
    os.write(0, len(line).to_bytes(8, "big") + line)
os.write(0, b"ready\\n")
while True:
    asked = os.read(0, 9999)
    if b'"end"' in asked:
        while True:
            say({"wrong": [], "more": True})
    say(None)
"""


def test_a_child_that_never_comes_to_an_end(tmp_path):
    reader = ReaderApart(tmp_path / "reader", lambda *_: [sys.executable, "-c", FLOOD], seconds=2.0)
    path = slicing.write(tmp_path / "slice", [(0, "A", 1)])
    with pytest.raises(MalformedSliceError, match="cannot be read: it takes longer than"):
        list(reader.wrong_retractions([(path, True)], ["city"], DEFAULT_VOCAB, tmp_path))
    reader.close()


def test_a_child_that_cannot_be_started(apart, tmp_path):
    nowhere = str(tmp_path / "nowhere")
    reader = ReaderApart(tmp_path / "other", lambda *_: [nowhere])
    path = slicing.write(tmp_path / "slice", [(0, "A", 1)])
    with pytest.raises(EngineUnavailableError, match=f"cannot be started: {nowhere}: No such file"):
        reader.inspect(path, DEFAULT_VOCAB)
    reader.close()
    assert apart.inspect(path, DEFAULT_VOCAB).num_records == 1


BUSY = """\
import signal, sys
from pathlib import Path
from odf.data import apart_child
apart_child.inspect_slice = lambda *_: signal.pause()
apart_child.main(Path(sys.argv[1]))
"""


def test_a_child_that_is_busy_ends_with_whoever_asked(tmp_path):
    """Also without a sandbox, which would end it."""
    path = slicing.write(tmp_path / "slice", [(0, "A", 1)])
    ours, theirs = socket.socketpair()
    with theirs:
        child = subprocess.Popen([sys.executable, "-c", BUSY, str(tmp_path)], stdin=theirs)
    with ours, path.open("rb") as file:
        assert ours.recv(len(READY)) == READY
        question = {"ask": "inspect", "files": ["s"], "vocab": vocab_to_json(DEFAULT_VOCAB)}
        socket.send_fds(ours, [json.dumps(question).encode() + b"\n"], [file.fileno()])
        until((tmp_path / "s").is_symlink)
    assert child.wait(60) == 0


def test_the_hash_of_the_bytes_is_taken_here(apart, tmp_path):
    path = slicing.write(tmp_path / "slice", [(0, "A", 1)])
    found = apart.inspect(path, DEFAULT_VOCAB)
    assert "hash" not in "".join(set(info_to_json(found)) - {"logical_hash"})
    assert (found.physical_hash, found.size) == physical_hash(path)


def test_a_child_that_does_not_start(tmp_path):
    told = []
    reader = ReaderApart(
        tmp_path / "reader",
        lambda *_: [sys.executable, "-c", "raise SystemExit(3)"],
        does_not_start=lambda: told.append(True),
    )
    path = slicing.write(tmp_path / "slice", [(0, "A", 1)])
    with pytest.raises(EngineUnavailableError, match=r"does not start .exit status 3"):
        reader.inspect(path, DEFAULT_VOCAB)
    assert told == [True]
    reader.close()


def test_nothing_is_left_of_a_reader(apart, tmp_path):
    path = slicing.write(tmp_path / "slice", [(0, "A", 1)])
    apart.inspect(path, DEFAULT_VOCAB)
    pid = apart._child._process.pid
    apart.close()
    until(lambda: not Path(f"/proc/{pid}").exists())
    # Whoever reads on gets another one.
    assert apart.inspect(path, DEFAULT_VOCAB).num_records == 1
