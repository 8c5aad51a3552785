"""ONNX's own test cases of the supported operators, generated on first use because that takes seconds."""

import warnings
from functools import cache

import pytest
from onnx_building import numpy_helper, onnx

from dml_jax.onnx import UnsupportedError, to_jax


def operators(model):
    """The types of a model's nodes, those in branches too."""
    return _operators(model.graph)


def _operators(graph):
    inner = [_operators(a.g) for node in graph.node for a in node.attribute if a.type == a.GRAPH]
    return {node.op_type for node in graph.node}.union(*inner)


def as_array(value):
    """An input or output of a case."""
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


@cache
def all_cases():
    """Every case of ONNX's, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other operators' cases
        found = pytest.importorskip("onnx.backend.test.case.node").collect_testcases(None)
    return {case.name: case for case in found}


@cache
def cases():
    """Those whose operators are done."""
    return {name: case for name, case in all_cases().items() if _is_done(case.model)}


def _is_done(model):
    """Whether all that goes in are numbers, and all operators are done."""
    if any(info.type.tensor_type.elem_type == onnx.TensorProto.STRING for info in model.graph.input):
        return False
    try:
        to_jax(model)
    except UnsupportedError:
        return False
    return True
