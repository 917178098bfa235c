"""Inputs before what is derived from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odf.coordinator.ordering import inputs_first
from odf.errors import BadInputError


@given(st.dictionaries(st.integers(0, 20), st.sets(st.integers(0, 20)), max_size=15))
def test_every_input_comes_first_and_the_rest_keeps_its_place(graph: dict[int, set[int]]) -> None:
    acyclic = {
        node: {source for source in inputs if source < node} for node, inputs in graph.items()
    }
    nodes = list(acyclic)
    ordered = inputs_first(nodes, acyclic.__getitem__, str)
    assert sorted(ordered) == sorted(nodes)
    place = {node: index for index, node in enumerate(ordered)}
    assert all(
        place[source] < place[node] for node in nodes for source in acyclic[node] if source in place
    )
    independent = {node: set[int]() for node in nodes}
    assert inputs_first(nodes, independent.__getitem__, str) == nodes


def test_a_circle_is_named() -> None:
    graph = {"a": ["b"], "b": ["c"], "c": ["a"], "d": []}
    with pytest.raises(BadInputError, match="circle") as refused:
        inputs_first(list(graph), graph.__getitem__, str)
    assert refused.value.message.count("->") == 3
    assert "d" not in refused.value.message.split(":")[1]
