"""Session windows: which rows belong to sessions that are still open.

How long a session lasts is only known when it has ended, so there is no length of time for which
its rows are kept: they are kept until the watermark has passed its end. What comes after that is
later than the end and belongs to another session.
"""

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from odf.engines.spark.catalyst import Plan
from odf.engines.spark.stateful.kinds import Question, Stateful
from odf.engines.spark.stateful.lineage import views_below
from odf.engines.spark.stateful.nodes import Nodes
from odf.engines.spark.stateful.ordered import offset_carrier

_SESSION: Final = "s"
_BRANCH: Final = "b"
_OFFSET: Final = "o"
_ROWS: Final = "r"
_ALL: Final = (1 << 31) - 1


def merged_first(nodes: Nodes, sessions: Plan) -> Plan:
    """Return sessions so that conditions above them are tested on whole sessions.

    Spark takes the session window for a key like others and tests conditions on it before sessions
    are merged, on rows: of a long session it then sees a part. It tests none below a limit.

    Args:
        nodes: Spark's analyser.
        sessions: A node with the result of the aggregate.
    """
    return nodes.analysed(nodes.frame(sessions).limit(_ALL))


def open_rows(
    nodes: Nodes, question: Question, found: Stateful, session: Any, reached: int
) -> Mapping[int, pa.Array]:
    """Return the offsets of the rows of sessions that are open, by position of the input.

    Args:
        nodes: Spark's analyser.
        question: The query, analysed over the current rows.
        found: Its aggregate and the surroundings.
        session: The attribute of the session window among the aggregate's keys.
        reached: The watermark in milliseconds.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415

    child = found.below[0]
    offsets = {given.view: given.vocab.offset_column for given in question.inputs}
    carried = offset_carrier(nodes, offsets).carry(child)
    number = int(session.exprId().id())
    keys = [key for key in found.node.grouping if key.attribute_id != number]
    names = [f"k{position}" for position in range(len(keys))]
    made = [nodes.named(key.java, name) for key, name in zip(keys, names, strict=True)]
    made += [
        nodes.named(column, name)
        for column, name in (
            (session, _SESSION),
            (carried.branch, _BRANCH),
            (carried.columns[0], _OFFSET),
        )
    ]
    rows = nodes.frame(nodes.project(made, carried.plan))
    sessions = rows.groupBy(*names, _SESSION).agg(
        f.collect_list(f.struct(_BRANCH, _OFFSET)).alias(_ROWS)
    )
    still_open = sessions.limit(_ALL).where(
        f"unix_millis(CAST({_SESSION}.end AS TIMESTAMP)) > {reached}L"
    )
    table = still_open.select(f.inline(_ROWS)).toArrow()
    views = views_below(child, question.views)
    kept: dict[int, list[pa.Array]] = {}
    for branch, view in enumerate(views):
        mine = table.filter(pc.equal(table[_BRANCH], branch))
        kept.setdefault(question.number_of(view), []).append(mine[_OFFSET].combine_chunks())
    return {
        number: pa.chunked_array(arrays, pa.int64()).combine_chunks()
        for number, arrays in kept.items()
    }
