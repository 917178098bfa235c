"""A real engine without Spark: pyarrow only, one word for a query. Also runs as a program.

Queries: `pass` (all user columns of all inputs, as a union), `drop-op`, `keep OP` (rows of one
operation, as a filter would), `star`, `no-event-time`, `text-event-time`, `op-7`, `empty`,
`invalid`, `fail`, `kill`, `wait FIFO` (till it is closed), `symlink`, `no-hidden`, `number` (keeps
a state). Raw queries: `count`, `look JSON`.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from odf.engines.host.engine import (
    HIDDEN_BRANCH,
    HIDDEN_OFFSET,
    IngestedRows,
    IngestJob,
    InputView,
    Migration,
    QueryValidation,
    Reporter,
    Rows,
    TransformJob,
    ValidatedInput,
)
from odf.engines.host.main import HostOptions, serve
from odf.errors import BadInputError, InvalidQueryError
from odf.metadata.model import DatasetVocabulary, TransformSql


def _query(transform: TransformSql) -> str:
    assert transform.queries
    return transform.queries[-1].query


def _of(transform: TransformSql, first: DatasetVocabulary | None, vocab: DatasetVocabulary) -> str:
    """What a state is of."""
    return f"{_query(transform)} {first} {vocab.offset_column}"


def _number(job: TransformJob, table: pa.Table) -> pa.Table:
    """Number the rows, from run to run, by the column `name`; the state is the last number."""
    key = _of(job.transform, job.inputs[0].vocab, job.vocab)
    last = 0
    if job.prev_checkpoint is not None:
        found, text = job.prev_checkpoint.read_text().split("\n")
        assert found == key, "a state of another query"
        last = int(text)
    names = [f"{name} {number}" for number, name in enumerate(table["name"].to_pylist(), last + 1)]
    if job.new_checkpoint is not None:
        job.new_checkpoint.write_text(f"{key}\n{last + table.num_rows}")
    column = pa.array(names, pa.string())
    return table.set_column(table.schema.names.index("name"), "name", column)


class TinyEngine:
    name = "tiny"
    release = "tiny/1.0.0"
    versions: Mapping[str, str] = {"pyarrow": pa.__version__}
    operations = 2

    def __init__(self, *, cold: str | None = None) -> None:
        self._cold = cold
        self.closed = False
        self.rests = 0

    def warm_up(self) -> None:
        if self._cold is not None:
            raise OSError(self._cold)

    def validate(
        self,
        transform: TransformSql,
        inputs: Sequence[ValidatedInput],
        vocab: DatasetVocabulary,
        *,
        preprocess: bool,
    ) -> QueryValidation:
        if _query(transform) == "invalid":
            raise InvalidQueryError("no such word: invalid", hint="say pass")
        if _query(transform) == "fail":
            raise ValueError("the tiny engine has a defect")
        warnings = tuple(
            f"{view.alias} retracts; {vocab.operation_type_column} is dropped"
            for view in inputs
            if view.has_retractions
        )
        return QueryValidation("preprocess" if preprocess else "map", inputs[0].schema, warnings)

    def transform(self, job: TransformJob) -> Rows:
        inputs, scratch = job.inputs, job.scratch
        assert job.vocab.offset_column == "offset"
        query, *words = _query(job.transform).split()
        (scratch / "some-file").write_text("scratch can be written")
        if query == "invalid":
            raise InvalidQueryError("no such word: invalid", hint="say pass")
        if query == "fail":
            raise ValueError("the tiny engine has a defect")
        _misbehave(query, words)
        if query == "symlink":
            (scratch.parent / "data").symlink_to("/etc/passwd")
        table = pa.concat_tables(
            [_read(view, branch) for branch, view in enumerate(inputs)],
            promote_options="default",
        )
        if query == "keep":
            table = table.filter(pc.equal(table["op"], int(words[0])))
        if query in {"empty", "symlink"}:
            table = table.slice(0, 0)
        if query == "op-7":
            table = table.set_column(
                table.schema.names.index("op"), "op", pa.repeat(pa.scalar(7), table.num_rows)
            )
        if query == "text-event-time":
            column = table["event_time"].cast(pa.string())
            index = table.schema.names.index("event_time")
            table = table.set_column(index, "event_time", column)
        dropped = {"offset", "system_time"}
        dropped |= {
            "star": {"system_time"},
            "drop-op": {"op"},
            "no-event-time": {"event_time"},
            "no-hidden": {HIDDEN_BRANCH, HIDDEN_OFFSET},
        }.get(query, set())
        if query == "star":
            dropped = {"system_time"}
        table = table.drop_columns([n for n in table.schema.names if n in dropped])
        table = _number(job, table) if query == "number" else table
        return Rows(table.schema, iter(table.to_batches(max_chunksize=2)))

    def migrate(
        self,
        transform: TransformSql,
        inputs: Sequence[ValidatedInput],
        vocab: DatasetVocabulary,
        checkpoint: Path,
    ) -> Migration:
        if _query(transform) == "invalid":
            raise InvalidQueryError("no such word: invalid", hint="say pass")
        text = checkpoint.read_text().partition("\n")[0]
        if text == "broken":
            raise BadInputError("the checkpoint is damaged", reason="checkpoint")
        if text == _of(transform, inputs[0].vocab, vocab):
            return Migration(None, {})
        return Migration(f"it is of {text}", {"input-0": 7})

    def raw_query(self, transform: TransformSql, input_paths: Sequence[str], scratch: Path) -> Rows:
        assert scratch.is_dir()
        query, _, argument = _query(transform).partition(" ")
        if query == "invalid":
            raise InvalidQueryError("no such word: invalid")
        if query == "count":
            rows = sum(pq.read_metadata(path).num_rows for path in input_paths)
            table = pa.table({"rows": [rows] if rows else pa.array([], pa.int64())})
        else:
            table = pa.table({"answer": [json.dumps(_look(json.loads(argument)))]})
        return Rows(table.schema, iter(table.to_batches()))

    def ingest(self, job: IngestJob, report: Reporter) -> IngestedRows:
        report.progress("reading", None)
        tables = []
        for file in job.files:
            if file.name == "bad.csv":
                raise BadInputError(
                    "2 rows of bad.csv cannot be read",
                    reason="bad_rows",
                    problems=("bad.csv:3: 'x' is no number", "bad.csv:4: 'y' is no number"),
                    hint="repair the file",
                )
            if file.name == "defect.csv":
                raise RuntimeError("the reader has a defect")
            if file.name == "kill.csv":
                os.kill(os.getpid(), signal.SIGKILL)
            tables.append(pa.csv.read_csv(file.path))
        table = pa.concat_tables(tables)
        report.progress("merging", table.num_rows)
        if not job.scratch.is_dir():
            raise AssertionError("the scratch folder is missing")
        report.warning(f"read under\x1b[31m {job.dataset_alias}")
        known = sum(pq.read_metadata(path).num_rows for path in job.history_paths)
        fresh = table.slice(min(known, table.num_rows))
        if job.folding is not None:
            stretch = job.history_paths[job.folding.first :][: job.folding.count]
            folded = pa.concat_tables([pq.read_table(path) for path in stretch])
            pq.write_table(folded, job.folding.output_path)
        op = pa.repeat(pa.scalar(0, pa.int32()), fresh.num_rows)
        fresh = fresh.add_column(0, "op", op)
        return IngestedRows(
            Rows(fresh.schema, iter(fresh.to_batches())),
            rows_read=table.num_rows,
            rows_unchanged=min(known, table.num_rows),
        )

    def rest(self) -> None:
        self.rests += 1

    def close(self) -> None:
        self.closed = True


def _misbehave(query: str, words: Sequence[str]) -> None:
    if query == "kill":
        sys.stderr.write("about to die\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    if query == "wait":
        Path(words[0]).read_bytes()


def _read(view: InputView, branch: int) -> pa.Table:
    if view.offset_start is None:
        table = pq.read_schema(view.schema_path).empty_table()
    else:
        tables = [pq.read_table(path) for path in view.paths]
        table = pa.concat_tables(tables)
        wanted = pc.and_(
            pc.greater_equal(table["offset"], view.offset_start),
            pc.less_equal(table["offset"], view.offset_end),
        )
        table = table.filter(wanted)
    branches = pa.repeat(pa.scalar(branch, pa.int32()), table.num_rows)
    return table.append_column(HIDDEN_OFFSET, table["offset"]).append_column(
        HIDDEN_BRANCH, branches
    )


def _look(wishes: dict[str, list[str]]) -> dict[str, object]:
    """Tell what this process can see and do, for tests of sandboxes."""
    return {
        "environment": sorted(os.environ),
        "read": {
            path: _outcome(lambda path=path: Path(path).read_bytes()) for path in wishes["read"]
        },
        "write": {
            path: _outcome(lambda path=path: Path(path).write_text("x")) for path in wishes["write"]
        },
        "connect": {
            place: _outcome(lambda place=place: _connect(place)) for place in wishes["connect"]
        },
        "capabilities": _status_line("CapEff"),
        "uid": os.getuid(),
        "limits": dict(_limits()),
        "memory": _control_group("memory.limit_in_bytes", "memory.max"),
        "processes": next(iter(_control_group("pids.max").values()), "0"),
    }


def _control_group(*names: str) -> dict[str, str]:
    """Read what the control group of this process allows, in either version of control groups."""
    paths = [path for name in names for path in Path("/sys/fs/cgroup").rglob(name)]
    return {str(path): path.read_text().strip() for path in paths[:20]}


def _outcome(action: object) -> str:
    try:
        action()  # type: ignore[operator]
    except OSError as error:
        return type(error).__name__
    return "done"


def _connect(place: str) -> None:
    host, _, port = place.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=2):
        pass


def _status_line(name: str) -> str:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith(name))


def _limits() -> Iterator[tuple[str, int]]:
    import resource

    for name in ("DATA", "NPROC", "NOFILE", "CORE"):
        yield name, resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[0]


def _make(options: HostOptions) -> TinyEngine:
    if options.arguments.break_at_start:
        raise OSError("the tiny engine cannot be made")
    return TinyEngine(cold=options.arguments.cold)


if __name__ == "__main__":

    def add_options(parser: object) -> None:
        parser.add_argument("--cold")  # type: ignore[attr-defined]
        parser.add_argument("--break-at-start", action="store_true")  # type: ignore[attr-defined]

    sys.exit(serve(_make, sys.argv[1:], add_options=add_options))
