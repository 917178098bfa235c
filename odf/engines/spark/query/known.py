"""Queries that this engine has accepted before, over inputs with the same columns.

An engine that stays runs the same queries again and again. What is found out about a query depends
on its text and on the columns that it meets, and on nothing else; so it is found out once.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from odf.engines.host.engine import TransformJob
from odf.engines.spark.query.inputs import PreparedInput
from odf.engines.spark.stateful.bounded import Bounded
from odf.engines.spark.stateful.checkpoint import columns_of, vocabulary_json
from odf.engines.spark.stateful.kinds import Classified

MOST_QUERIES: Final = 256
"""How many queries are remembered: a few kilobytes each."""

_Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class KnownQuery:
    """What is known about a query that was accepted.

    Attributes:
        classified: Its kind, without any part of a plan: plans belong to one session.
        schema: Schema of its result.
    """

    classified: Classified
    schema: pa.Schema


class KnownQueries:
    """Remembers queries, those that were asked for last. May be used by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[_Key, KnownQuery] = OrderedDict()

    def find(self, job: TransformJob, inputs: Sequence[PreparedInput]) -> KnownQuery | None:
        """Return what is known about the query of a step.

        Args:
            job: The step.
            inputs: Its inputs, for their columns.
        """
        with self._lock:
            key = _key(job, inputs)
            found = self._found.get(key)
            if found is not None:
                self._found.move_to_end(key)
            return found

    def remember(
        self,
        job: TransformJob,
        inputs: Sequence[PreparedInput],
        classified: Classified,
        schema: pa.Schema,
    ) -> None:
        """Remember that the query of a step was accepted.

        Args:
            job: The step.
            inputs: Its inputs, for their columns.
            classified: Its kind.
            schema: Schema of its result.
        """
        detail = classified.detail
        if isinstance(detail, Bounded):
            detail = detail.without_plan()
        plain = replace(classified, stateful=None, detail=detail)
        with self._lock:
            self._found[_key(job, inputs)] = KnownQuery(plain, schema)
            while len(self._found) > MOST_QUERIES:
                self._found.popitem(last=False)


def _key(job: TransformJob, inputs: Sequence[PreparedInput]) -> _Key:
    transform = job.transform
    views = [
        (view.alias, *vocabulary_json(view.vocab), columns_of(given.schema))
        for view, given in zip(job.inputs, inputs, strict=True)
    ]
    steps = [(step.alias, step.query) for step in transform.queries or ()]
    tables = [(table.name, tuple(table.primary_key)) for table in transform.temporal_tables or ()]
    return tuple(steps), tuple(tables), tuple(views), tuple(vocabulary_json(job.vocab))
