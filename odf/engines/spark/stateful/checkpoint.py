"""The state of a query between two runs: one file that anybody can read.

A tar archive without compression: `state.json` says what the state is of, Parquet tables hold
it. The same state gives the same bytes. Nothing of what is read is believed before it is checked:
a checkpoint may come from elsewhere.
"""

import hashlib
import json
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from odf.errors import BadInputError
from odf.limits import (
    MAX_STATE_DESCRIPTION_SIZE,
    MAX_STATE_TABLE_SIZE,
    MAX_STATE_TABLES,
)
from odf.metadata.model import DatasetVocabulary

FORMAT: Final = "odf-state/1"
"""What `state.json` says it is."""

_DESCRIPTION: Final = "state.json"
_TABLE: Final = re.compile(r"[a-z][a-z0-9-]{0,63}\.parquet")
_COPY: Final = 1024 * 1024
Columns = tuple[tuple[str, str], ...]
"""Names and Arrow types of columns."""


class StateMismatchError(BadInputError):
    """A state belongs to another query, release or schema, and cannot go on with this one."""

    kind = "state_mismatch"


@dataclass(frozen=True, slots=True)
class StateKey:
    """What a state is of. It fits no other query.

    Attributes:
        release: Release of the engine.
        kind: Kind of the query.
        query: Digest of the query's text and of the names that it depends on.
        inputs: Columns of each input.
        result: Columns of the result.
    """

    release: str
    kind: str
    query: str
    inputs: tuple[Columns, ...]
    result: Columns

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in a checkpoint."""
        return {
            "release": self.release,
            "kind": self.kind,
            "query": self.query,
            "inputs": [dict(columns) for columns in self.inputs],
            "result": dict(self.result),
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Read it from a checkpoint.

        Raises:
            ValueError: It is something else.
        """
        texts = [found.get(name) for name in ("release", "kind", "query")]
        tables = [*_list(found.get("inputs")), found.get("result")]
        if not all(isinstance(text, str) for text in texts) or not tables:
            raise ValueError("the key is not complete")
        columns = [_columns(table) for table in tables]
        return cls(str(texts[0]), str(texts[1]), str(texts[2]), tuple(columns[:-1]), columns[-1])

    def difference(self, state: Self) -> str | None:
        """Say why a state does not fit this query; None if it does.

        Columns that inputs and result have gained are no difference: older rows have nulls there.

        Args:
            state: The key of the state.
        """
        if self.query != state.query:
            return "its query is another one"
        for name in ("release", "kind"):
            ours, theirs = getattr(self, name), getattr(state, name)
            if ours != theirs:
                return f"its {name} is {theirs}, this one's is {ours}"
        if len(self.inputs) != len(state.inputs):
            return f"it has {len(state.inputs)} inputs, this one has {len(self.inputs)}"
        pairs = [*zip(self.inputs, state.inputs, strict=True), (self.result, state.result)]
        for number, (ours, theirs) in enumerate(pairs, 1):
            where = f"input {number}" if number < len(pairs) else "result"
            known = dict(ours)
            for name, dtype in theirs:
                if known.get(name) != dtype:
                    return f"its {where} has {name!r} as {dtype}, this one's {known.get(name)}"
        return None


@dataclass(frozen=True, slots=True)
class State:
    """A state that was read.

    Attributes:
        meta: What the kind of query noted besides tables.
        frame: What every kind notes: watermarks.
        tables: Parquet files in the folder that was given, by name.
    """

    meta: Mapping[str, Any]
    frame: Mapping[str, Any]
    tables: Mapping[str, Path]

    @classmethod
    def load(cls, path: Path | None, key: StateKey, scratch: Path) -> "State | None":
        """Read a state that has to fit a query.

        Args:
            path: The checkpoint, or None if there is none.
            key: What the state has to be of.
            scratch: A folder for its tables; made if it is missing.

        Raises:
            StateMismatchError: It is of something else.
            BadInputError: It is damaged, or was made to do harm.
        """
        if path is None:
            return None
        description, state = read_state(path, scratch)
        why = key.difference(description)
        if why is not None:
            raise StateMismatchError(
                f"the checkpoint belongs to another query: {why}",
                reason="state",
                hint="Change the transform with `odf add`, which migrates the state; or reset the "
                "dataset to compute it anew.",
            )
        return state

    def table(self, name: str, schema: pa.Schema) -> Path | None:
        """Return the file of a table, after a check of its columns.

        Args:
            name: Name of the table.
            schema: The columns that it has to have; it may lack some, which then are null.

        Returns:
            The file, or None if the state has no such table.

        Raises:
            BadInputError: It is no Parquet file, or has other columns.
        """
        path = self.tables.get(name)
        if path is None:
            return None
        with refusing_damage(f"the table {name}"):
            found = pq.read_schema(path)
        wanted = {field.name: field.type for field in schema}
        for field in found:
            if wanted.get(field.name) != field.type:
                raise _damaged(
                    f"the table {name} has the column {field.name!r} of the type {field.type}, "
                    f"wanted {wanted.get(field.name)}"
                )
        return path


def is_state(path: Path) -> bool:
    """Tell whether a file is a state of this engine, be it damaged; others look different."""
    try:
        with tarfile.open(path, "r:") as archive:
            first = archive.next()
    except (tarfile.TarError, OSError, ValueError):
        return False
    return first is not None and first.name == _DESCRIPTION


def read_state(path: Path, scratch: Path) -> tuple[StateKey, State]:
    """Read a state and what it is of.

    Args:
        path: The checkpoint.
        scratch: A folder for its tables; made if it is missing.

    Raises:
        BadInputError: It is damaged, or was made to do harm.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    tables: dict[str, Path] = {}
    description: bytes | None = None
    with refusing_damage("the archive"), tarfile.open(path, "r:") as archive:
        for member in archive:
            _check_member(member, {_DESCRIPTION} if description is not None else set(), tables)
            content = archive.extractfile(member)
            if content is None:
                raise _damaged(f"the member {member.name!r} is no file")
            if member.name == _DESCRIPTION:
                description = content.read(MAX_STATE_DESCRIPTION_SIZE + 1)
                continue
            target = scratch / member.name
            with target.open("xb") as out:
                copied = 0
                while chunk := content.read(_COPY):
                    copied += out.write(chunk)
            if copied != member.size:
                raise _damaged(f"the member {member.name!r} is cut off")
            tables[member.name.removesuffix(".parquet")] = target
    if description is None:
        raise _damaged(f"it has no {_DESCRIPTION}")
    return _parsed(description, tables)


def save_state(
    path: Path,
    key: StateKey,
    meta: Mapping[str, Any],
    frame: Mapping[str, Any],
    tables: Mapping[str, pa.Table | Path],
) -> None:
    """Write a state.

    Args:
        path: The file to make.
        key: What it is of.
        meta: What the kind of query notes; JSON.
        frame: What every kind notes; JSON.
        tables: Tables, or Parquet files, by name.
    """
    description = {
        "format": FORMAT,
        "key": key.to_json(),
        "watermarks": dict(frame),
        "class": dict(meta),
        "tables": sorted(tables),
    }
    text = json.dumps(description, ensure_ascii=False, indent=1, sort_keys=False).encode()
    with tarfile.open(path, "x:", format=tarfile.USTAR_FORMAT) as archive:
        archive.addfile(_member(_DESCRIPTION, len(text)), BytesIO(text))
        for name in sorted(tables):
            if not _TABLE.fullmatch(f"{name}.parquet"):
                raise ValueError(f"{name!r} cannot be the name of a table")
            given = tables[name]
            if isinstance(given, Path):
                with given.open("rb") as content:
                    size = given.stat().st_size
                    archive.addfile(_member(f"{name}.parquet", size), content)
            else:
                content_bytes = parquet_bytes(given)
                archive.addfile(
                    _member(f"{name}.parquet", len(content_bytes)), BytesIO(content_bytes)
                )


def parquet_bytes(table: pa.Table) -> bytes:
    """Return a table as a Parquet file."""
    sink = BytesIO()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue()


def digest(*parts: object) -> str:
    """Return a digest of values that JSON can hold."""
    text = json.dumps(parts, ensure_ascii=False, sort_keys=True)
    return hashlib.sha3_256(text.encode()).hexdigest()


def columns_of(schema: pa.Schema) -> Columns:
    """Return names and types of columns as a key has them."""
    return tuple((field.name, str(field.type)) for field in schema)


def vocabulary_json(vocab: DatasetVocabulary) -> list[str]:
    """Return the names of system columns as a digest takes them."""
    return [
        vocab.offset_column,
        vocab.operation_type_column,
        vocab.system_time_column,
        vocab.event_time_column,
    ]


def _check_member(member: tarfile.TarInfo, seen: set[str], tables: Mapping[str, Path]) -> None:
    name = member.name
    if member.type != tarfile.REGTYPE or member.pax_headers or member.sparse is not None:
        raise _damaged(f"the member {name!r} is no plain file")
    if name == _DESCRIPTION:
        if name in seen or member.size > MAX_STATE_DESCRIPTION_SIZE:
            raise _damaged(f"{name} is there twice, or too large ({member.size} bytes)")
        return
    if not _TABLE.fullmatch(name):
        raise _damaged(f"the member {name!r} is no table")
    if name.removesuffix(".parquet") in tables:
        raise _damaged(f"the table {name!r} is there twice")
    if len(tables) >= MAX_STATE_TABLES:
        raise _damaged(f"it has more than {MAX_STATE_TABLES} tables")
    if member.size > MAX_STATE_TABLE_SIZE:
        raise _damaged(f"the table {name!r} is too large ({member.size} bytes)")


def _parsed(text: bytes, tables: Mapping[str, Path]) -> tuple[StateKey, State]:
    with refusing_damage(_DESCRIPTION):
        found = json.loads(text)
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise _damaged(f"it is not of the format {FORMAT}")
        names = _list(found.get("tables"))
        if names != sorted(tables):
            raise _damaged(f"it has the tables {sorted(tables)}, wanted {names}")
        key = StateKey.from_json(_dict(found.get("key")))
        return key, State(_dict(found.get("class")), _dict(found.get("watermarks")), tables)


@contextmanager
def refusing_damage(what: str) -> Iterator[None]:
    """Turn what readers say about a broken file into an error about the checkpoint.

    Args:
        what: Which part of it is read.

    Raises:
        BadInputError: It is broken.
    """
    try:
        yield
    except (
        tarfile.TarError,
        ValueError,
        RecursionError,
        OverflowError,
        EOFError,
        pa.ArrowException,
        OSError,
    ) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise _damaged(f"{what}: {error}") from error


def _damaged(why: str) -> BadInputError:
    return BadInputError(
        f"the checkpoint is damaged: {why}",
        reason="checkpoint",
        hint="Get it again from where it came from, or reset the dataset to compute it anew.",
    )


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = size
    member.mode = 0o644
    return member


def _columns(found: object) -> Columns:
    table = _dict(found)
    if not all(isinstance(dtype, str) for dtype in table.values()):
        raise ValueError("columns have types")
    return tuple(table.items())


def _dict(found: object) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise ValueError(f"wanted an object, got {type(found).__name__}")  # noqa: TRY004  # data
    return found


def _list(found: object) -> Sequence[Any]:
    if not isinstance(found, list):
        raise ValueError(f"wanted a list, got {type(found).__name__}")  # noqa: TRY004  # data
    return found
