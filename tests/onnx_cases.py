"""ONNX's own test cases of the operators that are done, made by its package."""

import warnings

import pytest
from onnx_building import numpy_helper, onnx

from dml_jax.onnx import UnsupportedError, to_jax

__all__ = ["ALL_CASES", "CASES", "as_array", "operators"]


def operators(model):
    """The types of a model's nodes, those in branches too."""
    return _operators(model.graph)


def _operators(graph):
    inner = [_operators(a.g) for node in graph.node for a in node.attribute if a.type == a.GRAPH]
    return {node.op_type for node in graph.node}.union(*inner)


def as_array(value):
    """An input or output of a case."""
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other operators' cases
        return pytest.importorskip("onnx.backend.test.case.node").collect_testcases(None)


def _is_done(model):
    """Whether all that goes in are arrays of numbers, and all operators are done."""
    kinds = [info.type for info in model.graph.input]
    if any(not kind.HasField("tensor_type") or kind.tensor_type.elem_type == onnx.TensorProto.STRING for kind in kinds):
        return False
    try:
        to_jax(model)
    except UnsupportedError:
        return False
    return True


ALL_CASES = {case.name: case for case in _cases()}
CASES = {name: case for name, case in ALL_CASES.items() if _is_done(case.model)}
