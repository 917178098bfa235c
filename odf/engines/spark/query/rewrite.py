"""Hidden columns through a stateless query: where each row of the result came from.

So the order of the result and the pairs of corrections are known whatever the query does with the
visible columns.
"""

from collections.abc import Mapping

from odf.engines.host.engine import HIDDEN_OFFSET
from odf.engines.spark.catalyst import Catalyst, Plan
from odf.engines.spark.stateful.carry import Carrier
from odf.engines.spark.stateful.nodes import Nodes


def with_origins(catalyst: Catalyst, plan: Plan, inputs: Mapping[str, str]) -> Plan:
    """Return a plan with `HIDDEN_BRANCH` and `HIDDEN_OFFSET` after its own columns.

    Branches count the inputs as the query names them, from left to right.

    Args:
        catalyst: Spark's analyser.
        plan: An analysed plan that is stateless and has no rows of its own.
        inputs: Names of the views that are inputs, casefolded, each with the name of the column
            that says where a row stands; that may be hidden from the query.
    """
    columns = {view: [name] for view, name in inputs.items()}
    carried = Carrier(Nodes.of(catalyst), columns, [HIDDEN_OFFSET]).carry(plan)
    visible = [attribute for _, attribute in plan.output]
    return catalyst.project([*visible, *carried.hidden], carried.plan)
