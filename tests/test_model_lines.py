"""Line numbers of the faults in a model file."""

import json

import pytest
from commands import check

from dml_jax.dxdispatch.faults import ModelError
from dml_jax.dxdispatch.json_line_numbers import lines_of
from dml_jax.dxdispatch.model_file import read_model

TEXT = """\
// A comment { that " opens nothing
{
  "resources": {
    "x": { "initialValuesDataType": "FLOAT32", "initialValues": [1, 2, 3, 4] }, /* of
    two lines */ "y": { "initialValuesDataType": "FLOAT32",
      "initialValues": { "valueCount": 4, "value": 0 } },
    "a \\"{[,]}\\" b": {
      "initialValuesDataType": "FLOAT31", "initialValues": [1] },
  },
  "dispatchables": {
    "id": {
      "type": "DML_OPERATOR_ELEMENT_WISE_IDENTITY",
      "desc": {
        "InputTensor": { "DataType": "FLOAT32", "Sizes": [4] },
        "OutputTensor": {
          "DataType": "FLOAT32",
          "Sizes": [4]
        },
        "ScaleBias": null
      }
    },
    "wrong": {
      "type": "DML_OPERATOR_ELEMENT_WISE_IDENTITY",
      "desc": {
        "InputTensor": { "DataType": "FLOAT32", "Sizes": [4] },
        "OutputTensor": {
          "DataType": "FLOAT32",
          "Size": [4]
        },
        "Scales": null
      }
    },
    "unfit": {
      "type": "DML_OPERATOR_ELEMENT_WISE_IDENTITY",
      "desc": {
        "InputTensor": { "DataType": "FLOAT32", "Sizes": [4] },
        "OutputTensor": { "DataType": "FLOAT32", "Sizes": [5] }
      }
    }
  },
  "commands": [
    { "type": "dispatch", "dispatchable": "id", "bindings": { "InputTensor": "x", "OutputTensor": "y" } },
    {
      "type": "print",
      "resource": "z"
    },
    { "type": "print", "resources": "y" }
  ]
}
text behind it: { "commands": [
"""
FAULTS = {
    "resource 'a \"{[,]}\" b'": [7],
    "dispatchable 'wrong'": [26, 28, 30],
    "dispatchable 'unfit'": [33],
    "command 1 (print)": [43],
    "command 2 (print)": [47],
}


@pytest.fixture
def model(tmp_path):
    (tmp_path / "m.json").write_text(TEXT)
    return tmp_path / "m.json"


def test_every_fault_has_the_line_of_what_it_is_about(model):
    with pytest.raises(ModelError) as caught:
        read_model(model)
    found = {}
    for fault in caught.value.faults:
        found.setdefault(fault.where, []).append(fault.line)
    assert {where: sorted(lines) for where, lines in found.items()} == FAULTS
    assert f"{model}:33: dispatchable 'unfit': ELEMENT_WISE_IDENTITY: " in str(caught.value)


def test_the_command_prints_lines_as_compilers_do(model):
    printed = check(model).stderr
    assert f"error: {model}:43: command 1 (print): no resource is named 'z'" in printed
    listed = json.loads(check(model, "--json").stdout)
    assert {fault["line"] for fault in listed["files"][0]["faults"]} == {7, 26, 28, 30, 33, 43, 47}


def test_a_fault_of_the_file_has_no_line(tmp_path):
    (tmp_path / "m.json").write_text("{}")
    with pytest.raises(ModelError, match=r"m\.json: 'commands' is missing") as caught:
        read_model(tmp_path / "m.json")
    assert caught.value.faults[0].line is None


def test_lines_are_those_of_a_file_that_is_indented():
    tree = {"a": {"b": [{"c": 1}, [2, {"d": "]"}]], "e{": "x\\"}, "f": [3, 4]}
    text = json.dumps(tree, indent=1)
    for path, line in lines_of(text).items():
        node = tree
        for part in path:
            node = node[part]
        shown = text.splitlines()[line - 1].strip()
        assert shown.startswith(f'"{path[-1]}": ' if isinstance(path[-1], str) else ("{", "["))
    assert ("a", "b", 1, 1, "d") in lines_of(text)
