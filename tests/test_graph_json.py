"""Graphs in JSON form."""

import base64
import json
import re

import pytest
from catalogue_cases import DESCS
from graph_cases import GRAPH, NODES, SEVERAL, WEIGHED, alone

from dml_jax import ConstraintError, desc_from_json, desc_to_json
from dml_jax.desc_json import read_desc
from dml_jax.errors import Faults

pytestmark = pytest.mark.device


def form(**changes):
    """The graph in JSON form, some of its fields replaced; None removes one."""
    desc = json.loads(json.dumps(desc_to_json(GRAPH)))["desc"] | changes
    return {"type": "DML_GRAPH_DESC", "desc": {key: value for key, value in desc.items() if value is not None}}


def test_json_round_trip():
    for graph in (GRAPH, SEVERAL, WEIGHED, *map(alone, DESCS.values())):
        assert desc_from_json(json.loads(json.dumps(desc_to_json(graph)))) == graph
    assert form()["desc"]["InputEdges"] == [{"GraphInput": "x", "ToNode": "pick", "ToNodeInput": "InputTensor"}]
    assert form()["desc"]["OutputEdges"] == [
        {"FromNode": "enlarge", "FromNodeOutput": "OutputTensor", "GraphOutput": "y"}
    ]


def test_spellings():
    """The graph's own tensors, and names of edges, may be left out; a constant may be a list of numbers."""
    named = [{**edge, "Name": "an edge"} for edge in form()["desc"]["InputEdges"]]
    data = {"type": "DML_GRAPH_NODE_TYPE_CONSTANT", "desc": {"Data": [3, 2, 1, 0], "DataType": "UINT32"}}
    nodes = {**form()["desc"]["Nodes"], "order": data}
    assert desc_from_json(form(Inputs=None, Outputs=None, InputEdges=named, Nodes=nodes)) == GRAPH
    assert form()["desc"]["Nodes"]["order"]["desc"] == {"Data": base64.b64encode(NODES["order"].data).decode()}


def with_node(name, node):
    return form(Nodes={**form()["desc"]["Nodes"], name: node})


def constant(**desc):
    return with_node("order", {"type": "DML_GRAPH_NODE_TYPE_CONSTANT", "desc": desc})


def with_edge(kind, **edge):
    return form(**{kind: [*form()["desc"][kind], edge]})


FROM_PICK = {"FromNode": "pick", "FromNodeOutput": "OutputTensor"}


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ({**form(), "descr": {}}, "unknown field 'descr'; did you mean 'desc'"),
        ({**form(), "desc": 3}, 'GRAPH: "desc" must be a JSON object'),
        ({"type": "DML_GRAPH_DESC"}, "GRAPH: a graph must have an output, but no edge leads to one"),
        (form(nodes={}), "GRAPH: unknown field 'nodes'; did you mean 'Nodes'"),
        (form(Nodes=[]), "GRAPH: Nodes must be a JSON object"),
        (form(Nodes=None), "GRAPH: InputEdges[0]: there is no node 'pick'; known are "),
        (with_node("more", None), "GRAPH: node 'more': a descriptor must be a JSON object"),
        (with_node("more", {"type": "GATHR"}), "GRAPH: node 'more': unknown operator 'GATHR'; did you mean 'GATHER'"),
        (with_node("more", {"type": "GATHER"}), "GRAPH: node 'more': GATHER: InputTensor is missing"),
        (with_node("more", "other"), "node 'more': no operator is named 'other'; there are none beside the graph"),
        (with_node(3, NODES["order"]), "GRAPH: Nodes: a name must be a string, but it is 3"),
        (constant(), "GRAPH: node 'order': Data must be a list of numbers beside their DataType, or bytes in base64"),
        (constant(Data="!"), "GRAPH: node 'order': Data must be bytes in base64: "),
        (constant(Data="AAAA", DataType="INT8"), "node 'order': Data must be a list of numbers beside their DataType"),
        (constant(Data=[1], DataType="INT2"), "node 'order': DataType must be one of FLOAT32, "),
        (constant(Data=[1, "x"], DataType="INT8"), "GRAPH: node 'order': Data[1]: it must be a number, or"),
        (constant(Data=[1, 300], DataType="INT8"), "GRAPH: node 'order': Data[1]: "),
        (constant(Data=[1.5], DataType="INT8"), "GRAPH: node 'order': Data[0]: "),
        (constant(Data="AAAA", Size=3), "GRAPH: node 'order': unknown field 'Size'"),
        (form(InputEdges={}), "GRAPH: InputEdges must be an array, but it is {}"),
        (with_edge("InputEdges"), "GRAPH: InputEdges[1]: GraphInput must be a name, but it is missing"),
        (with_edge("InputEdges", GraphInput=3), "GRAPH: InputEdges[1]: GraphInput must be a name, but it is 3"),
        (
            with_edge("InputEdges", GraphInput="x", ToNode="pick", ToNodeInput="Input"),
            "GRAPH: InputEdges[1]: GATHER 'pick' has no input 'Input'; known are InputTensor, IndicesTensor",
        ),
        (
            with_edge("InputEdges", GraphInput="x", ToNode="pick", ToNodeInput="InputTensor"),
            "GRAPH: InputEdges[1]: a second edge leads to 'pick'.InputTensor",
        ),
        (
            with_edge("IntermediateEdges", **FROM_PICK, ToNode="order", ToNodeInput="Data"),
            "GRAPH: IntermediateEdges[2]: CONSTANT 'order' has no input 'Data'; it has none",
        ),
        (
            with_edge("OutputEdges", FromNode="pick", FromNodeOutput="InputTensor", GraphOutput="z"),
            "GRAPH: OutputEdges[1]: GATHER 'pick' has no output 'InputTensor'; known are OutputTensor",
        ),
        (with_edge("OutputEdges", **FROM_PICK, GraphOutput="z", To="a"), "OutputEdges[1]: unknown field 'To'"),
        (form(Inputs={"x": {"Sizes": [1]}}), "GRAPH: Inputs: x: DataType is missing"),
        (form(Outputs={3: {}}), "GRAPH: Outputs: a name must be a string, but it is 3"),
        (form(Outputs={"z": {"DataType": "INT8", "Sizes": [4]}}), "output 'z': every input and output of the graph"),
    ],
)
def test_bad_forms_are_refused_by_name(bad, match):
    with pytest.raises(ConstraintError, match=re.escape(match)):
        desc_from_json(bad)


def find_faults(bad, *level):
    found = Faults()
    assert read_desc(bad, found, *level) is None
    return [str(error).split("; ")[0] for error in found.errors]


def test_all_faults_are_found():
    """All of the form, or else all rules that are broken."""
    bad = constant(Data=[1, "x", None], DataType="INT8")
    bad["desc"]["InputEdges"].append({"ToNode": "pick"})
    bad["desc"]["Inputs"]["x"] = {"Sizes": [1]}
    assert find_faults(bad) == [
        'GRAPH: node \'order\': Data[1]: it must be a number, or "nan", "inf" or "-inf", but it is "x"',
        'GRAPH: node \'order\': Data[2]: it must be a number, or "nan", "inf" or "-inf", but it is null',
        "GRAPH: InputEdges[1]: GraphInput must be a name, but it is missing",
        "GRAPH: InputEdges[1]: ToNodeInput must be a name, but it is missing",
        "GRAPH: Inputs: x: DataType is missing",
    ]
    assert find_faults(form(OutputEdges=[]), "1_0") == [
        "GRAPH: the feature level must have what the graph is made of, but graphs exist from feature level 2_1 on",
        "GRAPH: node 'order': the feature level must have what the graph is made of, but constant nodes exist from "
        "feature level 6_2 on",
        "GRAPH: a graph must have an output, but no edge leads to one",
        "GRAPH: node 'enlarge': every output of a node must be connected, but no edge begins at OutputTensor: make it "
        "an output of the graph",
        "GRAPH: output 'y': every input and output of the graph must be connected, but no edge leads to it",
        *(
            f"GRAPH: node 'pick': {str(e).split('; ')[0]}"
            for e in NODES["pick"].faults(NODES["pick"].operands(), "1_0")
        ),
    ]
