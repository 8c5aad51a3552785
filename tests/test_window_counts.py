"""Sizes of convolutions and pooling near 0: those of the formula, or refused where they are less than 1."""

import itertools
from functools import partial

import jax
import numpy as np
import pytest
from checks import sampled
from onnx_building import helper, model

import dml_jax
from dml_jax import ConstraintError
from dml_jax.onnx import OnnxError, to_jax

PARTS = 30
# size, window, stride, dilation, padding before and after
CASES = [*itertools.product((0, 1, 2, 3), (1, 2, 3), (1, 2, 3), (1, 2), (0, 1, 3), (0, 2, 3))]
NAMES = ("strides", "dilations", "start_padding", "end_padding")


def array(size):
    return jax.ShapeDtypeStruct((1, 1, size), np.float32)


def node_of(kind, sizes, **attributes):
    inputs = {name: np.zeros((1, 1, size), np.float32) for name, size in zip("xw", sizes, strict=False)}
    return to_jax(model([helper.make_node(kind, list(inputs), ["y"], **attributes)], inputs, ["y"]))


def assert_size(wanted, function, *sizes):
    """The first size along which windows slide; where the wanted one is less than 1, an error will do."""
    try:
        made = jax.tree.leaves(jax.eval_shape(function, *map(array, sizes)))[0].shape[2]
    except (ConstraintError, OnnxError):
        assert wanted < 1
    else:
        assert made == wanted


def counted(case, *, ceil=False):
    """How many windows there are; with `ceil` also those that begin before the padding after the last element."""
    size, window, stride, dilation, before, after = case
    places = size + before + after - dilation * (window - 1) - 1
    return min(-(-places // stride), (before + size - 1) // stride) + 1 if ceil else places // stride + 1


@pytest.mark.parametrize("part", sampled(range(PARTS), [0]))
@pytest.mark.parametrize("name", ["convolution", "average_pooling", "lp_pooling", "max_pooling", "unfold"])
def test_functions(name, part):
    for case in CASES[part::PARTS]:
        size, window, *numbers = case
        given = {key: (n,) for key, n in zip(NAMES, numbers, strict=True)}
        if name == "convolution":
            assert_size(counted(case), partial(dml_jax.convolution, **given), size, window)
        else:
            assert_size(counted(case), partial(getattr(dml_jax, name), window_sizes=(window,), **given), size)


@pytest.mark.parametrize("part", sampled(range(PARTS), [0]))
@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("kind", ["Conv", "AveragePool", "LpPool", "MaxPool"])
def test_nodes(kind, ceil, part):
    for case in CASES[part::PARTS]:
        size, window, stride, dilation, before, after = case
        given = {"strides": [stride], "dilations": [dilation], "pads": [before, after], "kernel_shape": [window]}
        if kind == "Conv":
            assert_size(counted(case), node_of(kind, [size, window], **given), size, window)
        elif size:  # pooling takes no dimensions without elements
            assert_size(counted(case, ceil=ceil), node_of(kind, [size], ceil_mode=int(ceil), **given), size)


@pytest.mark.parametrize("part", sampled(range(PARTS), [0]))
@pytest.mark.parametrize("more", [0, 1])
def test_transposes(part, more):
    """ONNX's has none, too; the function is refused unless there are sums."""
    for case in CASES[part::PARTS]:
        size, window, stride, dilation, before, after = case
        if size:
            sums = stride * (size - 1) + dilation * (window - 1) + 1 - before - after
            given = {"strides": [stride], "dilations": [dilation], "pads": [before, after], "output_padding": [more]}
            assert_size(sums + more, node_of("ConvTranspose", [size, window], **given), size, window)
            given = {key: (n,) for key, n in zip(NAMES, case[2:], strict=True)} | {"output_padding": (more,)}
            backward = partial(dml_jax.convolution, direction="backward", **given)
            assert_size(sums + more if sums > 0 else 0, backward, size, window)


def test_a_told_size_may_be_any_that_forward_makes_the_input_of():
    """Of size 1, where the least by the formula is 0."""
    given = {"direction": "backward", "strides": 2, "start_padding": 3, "end_padding": 2}
    assert_size(1, partial(dml_jax.convolution, output_sizes=1, **given), 3, 1)
    with pytest.raises(ConstraintError, match="must give an output along every spatial dimension"):
        jax.eval_shape(partial(dml_jax.convolution, **given), array(3), array(1))
