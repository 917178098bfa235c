"""Putting datasets into an order in which inputs come before what is derived from them."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from odf.errors import BadInputError

Node = TypeVar("Node", bound=Hashable)


def inputs_first(
    nodes: Sequence[Node],
    inputs_of: Callable[[Node], Iterable[Node]],
    name_of: Callable[[Node], str],
    *,
    allow_circles: bool = False,
) -> list[Node]:
    """Sort datasets so that every input comes before its derivatives.

    Datasets that do not depend on each other keep the order in which they were given.

    Args:
        nodes: The datasets.
        inputs_of: Gives the inputs of one; those not among `nodes` are ignored.
        name_of: Gives a name for messages.
        allow_circles: Cut a circle somewhere instead of refusing it. Chains that came from
            elsewhere may say anything, and must not keep the other datasets from being worked on.

    Raises:
        BadInputError: If datasets depend on each other in a circle; names the circle.
    """
    known = set(nodes)
    ordered: dict[Node, None] = {}
    for start in nodes:
        # The way from `start` down to the input that is being looked at; each with the inputs
        # that are still to be visited. No recursion: strangers decide how long it gets.
        way: dict[Node, Iterator[Node]] = {}
        if start not in ordered:
            way[start] = iter([source for source in inputs_of(start) if source in known])
        while way:
            node, waiting = next(reversed(way.items()))
            source = next((one for one in waiting if one not in ordered), None)
            if source is None:
                del way[node]
                ordered[node] = None
            elif source not in way:
                way[source] = iter([one for one in inputs_of(source) if one in known])
            elif not allow_circles:
                raise _circle(list(way), source, name_of)
    return list(ordered)


def _circle(way: list[Node], source: Node, name_of: Callable[[Node], str]) -> BadInputError:
    circle = [*way[way.index(source) :], source]
    return BadInputError(
        "datasets are inputs of each other in a circle: "
        + " -> ".join(name_of(node) for node in circle),
        reason="cyclic_inputs",
        hint="take one of them out of the other's inputs",
    )
