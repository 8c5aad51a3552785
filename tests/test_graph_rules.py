"""The rules of graphs: each is broken once and more, and feature levels."""

import re
from dataclasses import replace

import numpy as np
import pytest
from catalogue_cases import STRUCTS
from graph_cases import CHANNELS, EDGES, GRAPH, NODES, PICTURE, alone, copied, owned, parts, without
from operator_cases import f32, u32

from dml_jax import Constant, ConstraintError, FeatureLevel, GraphDesc
from dml_jax.graphs.rules import RULES, Wiring, faults

pytestmark = pytest.mark.device

OWNED_INDICES = {**NODES, "pick": replace(NODES["pick"], indices=owned(u32(1, 1, 1, 4)))}
# A change per rule, and where it is broken by what fact.
BREAKS = {
    "available": (
        parts(),
        "6_1",
        "GRAPH: node 'order'",
        "constant nodes exist from feature level 6_2 on",
    ),
    "has_output": (
        parts(edges=without(EDGES, "y")),
        "6_4",
        "GRAPH",
        "no edge leads to one",
    ),
    "own_names": (
        parts(edges={**EDGES, "x": ("pick", "output")}),
        "6_4",
        "GRAPH: input 'x'",
        "it is that of an output too",
    ),
    "known_ends": (
        parts(edges={**EDGES, "z": ("enlarg", "output")}),
        "6_4",
        "GRAPH: edge 'enlarg'.output -> 'z'",
        "there is no node 'enlarg'; did you mean 'enlarge'?",
    ),
    "inputs_connected": (
        parts(edges=without(EDGES, ("pick", "input"))),
        "6_4",
        "GRAPH: node 'pick'",
        "no edge leads to InputTensor",
    ),
    "outputs_connected": (
        parts(nodes={**NODES, "more": copied(PICTURE)}, edges={**EDGES, ("more", "input"): ("enlarge", "output")}),
        "6_4",
        "GRAPH: node 'more'",
        "no edge begins at OutputTensor: make it an output of the graph",
    ),
    "own_ports_connected": (
        parts(inputs={"z": PICTURE}),
        "6_4",
        "GRAPH: input 'z'",
        "no node reads it",
    ),
    "computed_outputs": (
        parts(edges={**EDGES, "z": "x"}),
        "6_4",
        "GRAPH: output 'z'",
        "it is an input of the graph: put an ELEMENT_WISE_IDENTITY between them",
    ),
    "acyclic": (
        parts(edges={**EDGES, ("pick", "input"): ("enlarge", "output")}),
        "6_4",
        "GRAPH",
        "this is one: 'pick' -> 'enlarge' -> 'pick'",
    ),
    "ownership": (
        parts(nodes=OWNED_INDICES),
        "6_4",
        "GRAPH: edge 'order'.Data -> 'pick'.IndicesTensor",
        "it is none",
    ),
    "same_bytes": (
        parts(outputs={"y": f32(1, 1, 2, 3)}),
        "6_4",
        "GRAPH: edge 'enlarge'.OutputTensor -> 'y'",
        "they have 16 (FLOAT32[1,1,2,2]) and 24 (FLOAT32[1,1,2,3])",
    ),
    "constant_data": (
        parts(nodes={**NODES, "order": Constant(np.uint32([3]))}),
        "6_4",
        "GRAPH: edge 'order'.Data -> 'pick'.IndicesTensor",
        "it has 4 bytes and UINT32[1,1,1,4] takes 16",
    ),
    "writable_outputs": (
        parts(outputs={"y": owned(PICTURE)}),
        "6_4",
        "GRAPH: output 'y'",
        "it is OWNED_BY_DML",
    ),
}


def test_every_rule_is_broken_once():
    assert [*BREAKS] == [rule.name for rule in RULES]
    for rule in RULES:
        changed, level, place, fact = BREAKS[rule.name]
        errors = [str(error) for error in faults(Wiring(**changed, level=FeatureLevel.of(level)))]
        assert [e for e in errors if rule.text in e] == [f"{place}: {rule.text}, but {fact}"]
        if level == "6_4":
            with pytest.raises(ConstraintError):
                GraphDesc(**changed)


OTHER_BREAKS = {
    "an empty name": ("own_names", parts(nodes={**NODES, "": Constant(b"")}), "one is empty"),
    "no such input": (
        "known_ends",
        parts(edges={**EDGES, ("pick", "inpt"): "x"}),
        "GATHER 'pick' has no input 'inpt'; did you mean 'input'?",
    ),
    "an output where an input belongs": (
        "known_ends",
        parts(edges={**EDGES, ("pick", "output"): "x"}),
        "GATHER 'pick' has no input 'output'; known are input, indices",
    ),
    "an edge to a constant": (
        "known_ends",
        parts(edges={**EDGES, ("order", "input"): "x"}),
        "CONSTANT 'order' has no input 'input'; it has none",
    ),
    "a constant that nobody reads": (
        "outputs_connected",
        parts(nodes={**NODES, "more": Constant(b"1234")}),
        "no edge begins at Data: make it an output of the graph",
    ),
    "an output without an edge": ("own_ports_connected", parts(outputs={"z": PICTURE}), "no edge leads to it"),
    "a constant as an output": (
        "computed_outputs",
        parts(edges={**EDGES, "z": ("order", "output")}),
        "it is a constant of the graph: put an ELEMENT_WISE_IDENTITY between them",
    ),
    "a node that reads itself": (
        "acyclic",
        parts(edges={**EDGES, ("pick", "input"): ("pick", "output")}),
        "this is one: 'pick' -> 'pick'",
    ),
    "an owned input": (
        "ownership",
        parts(inputs={"x": owned(CHANNELS)}),
        "it is OWNED_BY_DML and its readers are not",
    ),
    "an input that is not owned": (
        "ownership",
        parts(nodes={**NODES, "pick": replace(NODES["pick"], input=owned(CHANNELS))}, inputs={"x": CHANNELS}),
        "it is not OWNED_BY_DML and its readers are",
    ),
    "readers that differ": (
        "ownership",
        parts(
            nodes={**NODES, "more": copied(owned(CHANNELS), CHANNELS)},
            edges={**EDGES, ("more", "input"): "x", "z": ("more", "output")},
        ),
        "'more'.InputTensor is OWNED_BY_DML and 'pick'.InputTensor is not",
    ),
    "an input's readers of other sizes": (
        "same_bytes",
        parts(
            nodes={**NODES, "more": copied(f32(5))}, edges={**EDGES, ("more", "input"): "x", "z": ("more", "output")}
        ),
        "they have 16 (FLOAT32[1,4,1,1]) and 20 (FLOAT32[5])",
    ),
    "an output that shares elements": (
        "writable_outputs",
        parts(outputs={"y": f32(2, 3, strides=(1, 1))}),
        "sizes (2, 3) with strides (1, 1) address one element twice",
    ),
    "the first reader does not exist": (
        "known_ends",
        parts(edges={("no", "input"): "x", **EDGES}),
        "there is no node 'no'; known are order, pick, enlarge",
    ),
}


@pytest.mark.parametrize(("name", "changed", "fact"), OTHER_BREAKS.values(), ids=OTHER_BREAKS)
def test_other_ways_to_break_a_rule(name, changed, fact):
    (rule,) = (rule for rule in RULES if rule.name == name)
    errors = [str(error) for error in faults(Wiring(**changed, level=FeatureLevel.of("6_4")))]
    assert [e for e in errors if e.endswith(f"{rule.text}, but {fact}")], errors
    with pytest.raises(ConstraintError, match=re.escape(rule.text)):
        GraphDesc(**changed)


def test_feature_levels():
    """Graphs are there from 2_1 on, constants from 6_2 on, and an operator as soon as its own table says."""
    for level in FeatureLevel:
        errors = [str(error) for error in GRAPH.faults(level)]
        assert any("graphs exist from feature level 2_1 on" in e for e in errors) == (level < FeatureLevel.of("2_1"))
        assert any("constant nodes exist from" in e for e in errors) == (level < FeatureLevel.of("6_2"))
    with pytest.raises(ConstraintError, match="feature_level must be one of 1_0, "):
        GRAPH.validate("7_0")


@pytest.mark.parametrize("struct", STRUCTS.values(), ids=STRUCTS)
def test_the_feature_level_of_an_operator(struct):
    graph = alone(struct.desc)
    for level in FeatureLevel:
        of_node = [e for e in map(str, graph.faults(level)) if e.startswith("GRAPH: node 'op': ")]
        assert of_node or level >= FeatureLevel.of(struct.levels[-1].since)
        assert [e.removeprefix("GRAPH: node 'op': ") for e in of_node] == [
            *map(str, struct.desc.faults(struct.desc.operands(), level))
        ]
