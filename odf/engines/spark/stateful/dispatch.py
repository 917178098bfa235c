"""From a stateful query to the runner of its kind."""

from collections.abc import Callable
from typing import Final

from odf.engines.host.engine import Rows
from odf.engines.spark.stateful.asof import run_as_of
from odf.engines.spark.stateful.base import StatefulRun
from odf.engines.spark.stateful.bounded import run_bounded
from odf.engines.spark.stateful.changing import run_changing
from odf.engines.spark.stateful.kinds import QueryKind
from odf.engines.spark.stateful.recompute import run_whole_history

_RUNNERS: Final[dict[QueryKind, Callable[[StatefulRun], Rows]]] = {
    QueryKind.BOUNDED: run_bounded,
    QueryKind.CHANGING: run_changing,
    QueryKind.AS_OF: run_as_of,
    QueryKind.WHOLE_HISTORY: run_whole_history,
}


def run_stateful(run: StatefulRun) -> Rows:
    """Run a stateful query; its new state is written when this returns.

    Args:
        run: The run.
    """
    return _RUNNERS[run.classified.kind](run)
