"""Descriptors that the tests of compile_operator share, and buffers for them."""

import numpy as np
from catalogue_cases import DESCS
from operator_cases import f32, u32

import dml_jax
from dml_jax import TensorDesc

TO_SPACE = DESCS["DEPTH_TO_SPACE1"]
GATHER = DESCS["GATHER"]


def buffers(desc, seed=0):
    """A flat buffer per input; the indices are a permutation, so that few are in range and no target occurs twice."""
    rng = np.random.default_rng(seed)
    content = []
    for port, tensor in desc.input_ports().items():
        count = tensor.element_span
        numbers = rng.permutation(count) if desc.is_index(port) else rng.integers(1, 100, count)
        content.append(numbers.astype(tensor.dtype))
    return content


def i64(*sizes):
    return TensorDesc("INT64", sizes)


def large(operator):
    """A descriptor whose output is made in its own shape, then viewed as flat."""
    sizes = {
        "GATHER": lambda: dml_jax.GatherDesc(f32(300, 128), u32(1, 400), f32(400, 128), 0, 1),
        "GATHER_ELEMENTS": lambda: dml_jax.GatherElementsDesc(f32(200, 128), u32(200, 256), f32(200, 256), 1),
        "DEPTH_TO_SPACE": lambda: dml_jax.DepthToSpaceDesc(f32(2, 64, 16, 24), f32(2, 16, 32, 48), 2),
        "SCATTER_ND": lambda: dml_jax.ScatterNDDesc(f32(300, 128), u32(40, 1), f32(40, 128), f32(300, 128), 2, 2),
    }
    return sizes[operator]()


LARGE = ("GATHER", "GATHER_ELEMENTS", "DEPTH_TO_SPACE", "SCATTER_ND")


def replace_flags(tensor):
    return TensorDesc(tensor.data_type, tensor.sizes, tensor.strides, "OWNED_BY_DML")
