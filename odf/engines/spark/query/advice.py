"""What to write instead of a query that no state of a bounded size can serve.

Most of these are two queries in one, such as a windowed aggregate over a join. Each of the two
alone would be fine, so they are taken apart, classified, and shown.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, count, islice
from typing import TYPE_CHECKING, Final

from odf.engines.host.queries import check_result
from odf.engines.spark.merge.frames import quoted
from odf.engines.spark.query.plans import is_stateless_text, stateful_construct
from odf.engines.spark.query.results import result_schema
from odf.engines.spark.query.validate import analyse_steps
from odf.engines.spark.stateful.classify import classify
from odf.engines.spark.stateful.kinds import Classified, QueryInput, QueryKind, Question
from odf.errors import InvalidQueryError
from odf.metadata.model import SqlQueryStep, TransformSql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FIRST: Final = "first"
_MOST_HALVES: Final = 6
"""Ways of taking a query apart that are looked at; each is analysed."""

_LAST_CHARACTER: Final = "\uffff"
_OTHER_WAYS: Final = {
    "a window function": "for the newest row of each key group by it, with max_by(column, "
    "event_time); for the row before ASOF JOIN the input with itself, MATCH_CONDITION "
    "(a.event_time > b.event_time)",
    "LIMIT": "leave ORDER BY and LIMIT to those who read the dataset",
    "EXISTS": "write LEFT SEMI JOIN, or LEFT ANTI JOIN for NOT EXISTS, with a range of event times",
    "IN with a subquery": "write LEFT SEMI JOIN, or LEFT ANTI JOIN for NOT IN, with a range of "
    "event times",
    "a lateral join": "write ASOF JOIN for the newest row up to a time",
}
"""What may have been meant, by the construct that needs the whole history."""


_ALONE: Final = frozenset({"Aggregate", "AsOfJoin", "Distinct", "Join"})
"""Nodes that can be run bit by bit where they stand alone."""


@dataclass(frozen=True, slots=True)
class _Halves:
    """One way of taking a query apart.

    Attributes:
        first: The query of the first dataset.
        name: What the second one calls that dataset.
        second: The query of the second dataset.
        words: Both for the person, to be filled in with their kinds.
    """

    first: tuple[SqlQueryStep, ...]
    name: str
    second: tuple[SqlQueryStep, ...]
    words: str


def advice(question: Question) -> str | None:
    """Say what to write instead of a query, in a form that this engine runs bit by bit.

    Args:
        question: The query, over views of its inputs.

    Returns:
        One sentence, or None if nothing is known to help.
    """
    if question.transform.temporal_tables:
        return None
    return _in_two(question) or _other_way(question)


@contextmanager
def advised(question: Question) -> Iterator[None]:
    """Have a refusal say what to write instead, where that is two queries.

    Args:
        question: The query that is refused or not.

    Raises:
        InvalidQueryError: It is refused.
    """
    try:
        yield
    except InvalidQueryError as error:
        instead = None if question.transform.temporal_tables else _in_two(question)
        if instead is None:
            raise
        raise InvalidQueryError(error.message, hint=instead, details=error.details) from error


def _in_two(question: Question) -> str | None:
    """Say how a query is taken apart into two that can be run bit by bit, if it can."""
    for halves in islice(_ways(question), _MOST_HALVES):
        kinds = _kinds(question, halves)
        if kinds is not None:
            return halves.words.format(*kinds)
    return None


def _ways(question: Question) -> Iterator[_Halves]:
    steps = tuple(question.transform.queries or ())
    for number, step in enumerate(steps[:-1], 1):
        if step.alias:
            yield _Halves(
                (*steps[: number - 1], replace(step, alias=None)),
                step.alias,
                steps[number:],
                f"make two datasets of it: one of the queries up to `{_plain(step.alias)}` ({{0}}),"
                f" and one of the rest, which reads it as `{_plain(step.alias)}` ({{1}})",
            )
    if len(steps) == 1 and steps[0].query and max(steps[0].query) <= _LAST_CHARACTER:
        yield from _subqueries(question, steps[0].query)


def _subqueries(question: Question, sql: str) -> Iterator[_Halves]:
    """Take the subqueries of FROM and WITH out of a query, the outermost first."""
    parsed = question.catalyst.parse(sql, "query")
    ctes = {
        name: plan
        for node in parsed.walk()
        if node.kind == "UnresolvedWith"
        for name, plan in node.cte_relations
    }
    taken = {*question.views, *map(str.casefold, ctes)}
    free = next(name for name in _names() if name not in taken)
    for node in parsed.walk():
        span = node.span
        if node.kind != "SubqueryAlias" or span is None or is_stateless_text(node):
            continue
        start, end = span
        text = sql[start:end]
        opening, closing = text.find("("), text.rfind(")")
        if not 0 <= opening < closing:
            continue
        inner = text[opening + 1 : closing].strip()
        if opening == 0:
            name, rest = free, f"{sql[:start]}{free}{text[closing + 1 :]}{sql[end:]}"
        elif len(ctes) == 1 and question.views.isdisjoint(map(str.casefold, ctes)):
            name, rest = next(iter(ctes)), sql[end:].strip()
        else:
            # What hides an input would be taken for it.
            continue
        words = (
            _plain(f"make two datasets of it: `{name}` with {_on_one_line(inner)}")
            + " ({0}); "
            + _plain(f"and one over it with {_on_one_line(rest)}")
            + " ({1})"
        )
        yield _Halves((SqlQueryStep(inner),), name, (SqlQueryStep(rest),), words)


def _names() -> Iterator[str]:
    return chain([_FIRST], (f"{_FIRST}{number}" for number in count(2)))


def _kinds(question: Question, halves: _Halves) -> tuple[str, str] | None:
    """Return both kinds in words; None if one of the two cannot be run bit by bit either."""
    first = _classified(question, halves.first, question.inputs)
    if first is None:
        return None
    kind, frame = first
    session = question.analysed.frame.sparkSession
    columns = frame.schema
    session.createDataFrame([], columns).createOrReplaceTempView(quoted(halves.name))
    made = QueryInput(halves.name, question.vocab, has_retractions=kind.kind is QueryKind.CHANGING)
    second = _classified(question, halves.second, (made, *question.inputs))
    if second is None:
        return None
    return _words(kind), _words(second[0])


def _classified(
    question: Question, steps: Sequence[SqlQueryStep], inputs: tuple[QueryInput, ...]
) -> "tuple[Classified, DataFrame] | None":
    transform: TransformSql = replace(question.transform, queries=tuple(steps))
    session = question.analysed.frame.sparkSession
    try:
        analysed = analyse_steps(
            session, transform, [given.alias for given in inputs], incremental=True
        )
        check_result(result_schema(analysed.frame), question.vocab)
        found = classify(Question(question.catalyst, analysed, inputs, question.vocab, transform))
    except InvalidQueryError:
        return None
    return None if found.kind is QueryKind.WHOLE_HISTORY else (found, analysed.frame)


def _words(found: Classified) -> str:
    return found.words or str(found.kind)


def _other_way(question: Question) -> str | None:
    nodes = list(question.analysed.plan.walk(question.views))
    found = [construct for construct in map(stateful_construct, nodes) if construct]
    known = next((_OTHER_WAYS[construct] for construct in found if construct in _OTHER_WAYS), None)
    stateful = [node.kind for node in nodes if stateful_construct(node)]
    if known or len(stateful) == 1 or not set(stateful) <= _ALONE:
        return known
    return (
        f"make two datasets of it: one with the inner part ({found[-1]}), which needs an event "
        f"time of its own, and one with the outer part ({found[0]}) over its rows"
    )


def _on_one_line(sql: str) -> str:
    """Return a query without line breaks, where these mean nothing."""
    return sql if any(mark in sql for mark in ("'", '"', "--")) else " ".join(sql.split())


def _plain(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
