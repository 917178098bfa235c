"""What is known about the query of a derivative dataset, kept beside it in `info/query`.

The engine says what kind of query it is when the dataset is added; if an input has no data by
then, before the first step. A query that has to be recomputed over the whole history needs the
word of its user, who pays for every run. The record is not in the chain and never copied
elsewhere; a query that has changed since makes it void.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from odf.errors import InvalidQueryError, NotFoundError
from odf.metadata.json import to_json
from odf.metadata.model import SetTransform
from odf.metadata.multiformats import Multihash
from odf.workspace.settings_files import read_manifest, write_manifest
from odf.workspace.workspace import DatasetHandle

WHOLE_HISTORY: Final = "whole history"
"""The kind of queries that are recomputed over all rows of their inputs in every run."""

_KIND: Final = "Query"
_FIELDS: Final = ("transform", "class", "description", "allowRecompute")


_BOUNDS: Final = (
    "give it a bound: a window or an event-time range, or ASOF JOIN for the last known value"
)


@dataclass(frozen=True, slots=True)
class QueryRecord:
    """What is known about a query.

    Attributes:
        query_class: The kind, as engines name it; None if no engine has seen the columns of all
            inputs yet.
        description: The kind in words, with what is kept between runs.
        allow_recompute: Whether the user accepts that it is recomputed over the whole history.
    """

    query_class: str | None = None
    description: str = ""
    allow_recompute: bool = False

    @property
    def words(self) -> str | None:
        """How it is shown."""
        return self.description or self.query_class


def keep_query(handle: DatasetHandle, transform: SetTransform, record: QueryRecord) -> None:
    """Write down what is known about the query of a dataset."""
    content: dict[str, object] = {"transform": _hash(transform)}
    if record.query_class is not None:
        content["class"] = record.query_class
    if record.description:
        content["description"] = record.description
    if record.allow_recompute:
        content["allowRecompute"] = True
    write_manifest(_path(handle), _KIND, content)


def known_query(handle: DatasetHandle, transform: SetTransform) -> QueryRecord:
    """Return what is known about the query that a dataset has now."""
    try:
        content = read_manifest(_path(handle), _KIND, _FIELDS)
    except NotFoundError:
        return QueryRecord()
    if content.get("transform") != _hash(transform):
        return QueryRecord()
    query_class = content.get("class")
    return QueryRecord(
        str(query_class) if query_class else None,
        str(content.get("description", "")),
        content.get("allowRecompute") is True,
    )


def check_recompute(name: object, record: QueryRecord, advice: Sequence[str] = ()) -> None:
    """Refuse a query whose every run costs as much as the first, unless that is wanted.

    Args:
        name: The dataset.
        record: What is known about its query.
        advice: What its engine says about it.

    Raises:
        InvalidQueryError: With what to write instead.
    """
    if record.query_class != WHOLE_HISTORY or record.allow_recompute:
        return
    what = f": {record.description}" if record.description else ""
    ways = "; ".join((_BOUNDS, *advice))
    raise InvalidQueryError(
        f"dataset {name}: the query has to be computed over the whole history in every run{what}",
        hint=f"{ways}; or accept what it costs: odf add --allow-recompute",
    )


def _hash(transform: SetTransform) -> str:
    text = json.dumps(to_json(transform), sort_keys=True)
    return str(Multihash.sha3_256(text.encode()))


def _path(handle: DatasetHandle) -> Path:
    return handle.path / "info" / "query"
