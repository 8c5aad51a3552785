"""DeformConv: against a loop in float64, and torchvision's deform_conv2d and its gradients."""

import jax
import ml_dtypes
import numpy as np
import pytest
from checks import sampled
from onnx_building import helper
from onnx_one_node import assert_refused, computed

from dml_jax.onnx import run_node


def interpolated(picture, at):
    """The element of a picture at a position, linear between elements; beyond them are zeros."""
    first, total = np.floor(at).astype(int), 0.0
    for corner in np.ndindex(*(2,) * len(at)):
        index = first + corner
        if all(0 <= i < n for i, n in zip(index, picture.shape, strict=True)):
            total += picture[tuple(index)] * np.prod(1 - abs(at - index))
    return total


def oracle(x, w, offset, b=None, mask=None, *, strides, pads, dilations, group=1, offset_group=1):
    """By a loop over the elements of the output, of channels and of windows, in float64."""
    x, w, offset = (array.astype(np.float64) for array in (x, w, offset))
    batch, (filters, each, *kernel), counts, rank = len(x), w.shape, offset.shape[2:], x.ndim - 2
    offset = offset.reshape(batch, offset_group, *kernel, rank, *counts)
    mask = np.ones((batch, offset_group, *kernel, *counts)) if mask is None else mask.astype(np.float64)
    mask = mask.reshape(batch, offset_group, *kernel, *counts)
    y = np.zeros((batch, filters, *counts))
    for n, o, c, *place in np.ndindex(batch, filters, each, *counts):
        channel = o // (filters // group) * each + c
        moved = channel // (x.shape[1] // offset_group)
        for tap in np.ndindex(*kernel):
            at = [
                p * s - start + t * d for p, s, start, t, d in zip(place, strides, pads, tap, dilations, strict=False)
            ]
            at = np.array(at) + offset[(n, moved, *tap, slice(None), *place)]
            factor = w[(o, c, *tap)] * mask[(n, moved, *tap, *place)]
            y[(n, o, *place)] += factor * interpolated(x[n, channel], at)
    return y if b is None else y + b.astype(np.float64).reshape(-1, *(1,) * rank)


def drawn(seed, dtype=np.float32, rank=2, *, is_symmetric=False):
    """Operands, None for those that are left out, and attributes; some offsets are far beyond the picture."""
    rng = np.random.default_rng(seed)
    group, offset_group = ((1, 1), (2, 1), (1, 2), (2, 2), (1, 4), (2, 4))[seed % 6]
    kernel = rng.integers(1, 4, rank)
    steps = {name: rng.integers(1, 3, rank) for name in ("strides", "dilations")}
    start = rng.integers(0, 3, rank)
    steps["pads"] = np.append(start, start if is_symmetric else rng.integers(0, 3, rank))
    sizes = kernel * steps["dilations"] + rng.integers(0, 3, rank)
    spans = sizes + steps["pads"][:rank] + steps["pads"][rank:] - steps["dilations"] * (kernel - 1) - 1
    counts = spans // steps["strides"] + 1
    taps, batch = int(kernel.prod()), int(rng.integers(1, 3))

    def normals(*shape, scale=1.0):
        return (rng.standard_normal(shape) * scale).astype(dtype)

    x, w = normals(batch, 4, *sizes), normals(2 * group, 4 // group, *kernel)
    offset = normals(batch, offset_group * taps * rank, *counts, scale=(0.7, 3)[seed % 2])
    b = normals(2 * group) if seed % 3 else None
    mask = normals(batch, offset_group * taps, *counts) if seed % 4 else None
    attributes = {name: values.tolist() for name, values in steps.items()}
    return [x, w, offset, b, mask], attributes | {"group": group, "offset_group": offset_group}


@pytest.mark.thinned(12)
@pytest.mark.parametrize("seed", range(24))
def test_two_dimensions(seed):
    operands, attributes = drawn(seed)
    (y,) = computed("DeformConv", operands, **attributes)
    np.testing.assert_allclose(y, oracle(*operands, **attributes), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", sampled(range(4), [3]))
@pytest.mark.parametrize("rank", [1, 3])
def test_one_and_three_dimensions(rank, seed):
    operands, attributes = drawn(seed, rank=rank)
    (y,) = computed("DeformConv", operands, **attributes)
    np.testing.assert_allclose(y, oracle(*operands, **attributes), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("opset", sampled([19, 22], [22]))
@pytest.mark.parametrize("dtype", sampled([np.float16, ml_dtypes.bfloat16, np.float64], [ml_dtypes.bfloat16]))
def test_other_floats_are_rounded_once(dtype, opset):
    operands, attributes = drawn(5, dtype)
    if dtype == ml_dtypes.bfloat16 and opset < 22:
        assert_refused("must be one of", "DeformConv", operands, opset=opset, **attributes)
        return
    (y,) = computed("DeformConv", operands, opset=opset, **attributes)
    assert y.dtype == dtype
    rtol, atol = (1e-12, 1e-12) if dtype == np.float64 else (0.51 * float(ml_dtypes.finfo(dtype).eps), 1e-4)
    np.testing.assert_allclose(y.astype(np.float64), oracle(*operands, **attributes), rtol=rtol, atol=atol)


# Gradients.


NAMES = ("x", "w", "offset", "b", "mask")


def as_function(operands, attributes):
    """The node as a jitted function of the operands that are given, by name; and these."""
    given = {name: operand for name, operand in zip(NAMES, operands, strict=True) if operand is not None}
    node = helper.make_node("DeformConv", [name if name in given else "" for name in NAMES], ["y"], **attributes)
    return jax.jit(lambda named: run_node(node, [named[name] for name in NAMES if name in named])[0]), given


@pytest.mark.parametrize("seed", sampled(range(6), [5]))
def test_gradients_are_the_differences_of_the_loop(seed):
    """By each operand, along a random direction; offsets are not whole, where slopes jump."""
    operands, attributes = drawn(seed, np.float64)
    rng = np.random.default_rng(9)
    function, given = as_function(operands, attributes)
    with jax.enable_x64(True):
        y, back = jax.vjp(function, given)
        factors = rng.standard_normal(y.shape)
        (slopes,) = back(factors)
    for name, slope in jax.tree.map(np.asarray, slopes).items():
        step = 1e-6 * rng.standard_normal(slope.shape)
        ends = ([given[n] + sign * step if n == name else given.get(n) for n in NAMES] for sign in (1, -1))
        after, before = ((oracle(*end, **attributes) * factors).sum() for end in ends)
        np.testing.assert_allclose((slope * step).sum(), (after - before) / 2, rtol=1e-5, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("seed", sampled(range(12), [3]))
def test_torchvision_agrees(seed):
    """Values and all gradients."""
    torch, ops = pytest.importorskip("torch"), pytest.importorskip("torchvision.ops")
    operands, attributes = drawn(seed, is_symmetric=True)
    tensors = [None if a is None else torch.tensor(a, requires_grad=True) for a in operands]
    x, w, offset, b, mask = tensors
    steps = (attributes[name] for name in ("strides", "pads", "dilations"))
    strides, pads, dilations = (values[:2] for values in steps)
    theirs = ops.deform_conv2d(x, offset, w, b, strides, pads, dilations, mask)
    factors = np.random.default_rng(1).standard_normal(theirs.shape).astype(np.float32)
    theirs.backward(torch.tensor(factors))
    function, given = as_function(operands, attributes)
    y, back = jax.vjp(function, given)
    np.testing.assert_allclose(y, theirs.detach().numpy(), rtol=1e-4, atol=1e-4)
    (slopes,) = back(factors)
    for name, tensor in zip(NAMES, tensors, strict=True):
        if tensor is not None:
            np.testing.assert_allclose(slopes[name], tensor.grad.numpy(), rtol=1e-3, atol=1e-3, err_msg=name)


X, W = np.zeros((1, 4, 5, 5), np.float32), np.zeros((2, 4, 3, 3), np.float32)
OFFSET, MASK = np.zeros((1, 18, 3, 3), np.float32), np.zeros((1, 9, 3, 3), np.float32)


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        ([X, W, OFFSET], {"offset_group": 3}, "offset_group must divide the 4 channels, but it is 3"),
        ([X, W, OFFSET[:, :9]], {}, "offset: its sizes must be [1, 18, 3, 3], but they are [1, 9, 3, 3]"),
        ([X, W, OFFSET, None, MASK[..., :2]], {}, "mask: its sizes must be [1, 9, 3, 3], but they are [1, 9, 3, 2]"),
        ([X, W, OFFSET, np.zeros(3, np.float32)], {}, "b must have a number for each of 2 channels"),
        ([X, W, OFFSET], {"group": 3}, "channels must fit group"),
        ([X[:, :, :0], W, OFFSET], {"pads": [3, 0, 3, 0]}, "a channel of x must have from 1 to 2**30 - 1 elements"),
    ],
)
def test_what_does_not_fit(inputs, attributes, message):
    assert_refused(message, "DeformConv", inputs, **attributes)
