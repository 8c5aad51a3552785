"""ONNX Runtime's fused matrix products, convolutions and normalizations: beside it, or beside loops in float64."""

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import sampled
from onnx_one_node import MICROSOFT, assert_as_runtime, assert_refused, computed, shape

SEEDS = sampled(range(30), [2])


def normals(rng, *sizes, dtype=np.float32):
    return rng.standard_normal(sizes).astype(dtype)


# Products of matrices.


def stored(matrices, is_transposed, is_batch_transposed):
    """Matrices in the order in which attributes say that they are stored."""
    matrices = matrices.swapaxes(-1, -2) if is_transposed else matrices
    return np.moveaxis(matrices, -2, 0) if is_batch_transposed else matrices


def drawn_product(seed, dtype=np.float32):
    """Operands and attributes; a batch is broadcast where the order lets it, and some operands are vectors."""
    rng = np.random.default_rng(seed)
    n, k, m = shape(rng, 3, 3)
    flags = {name: int(rng.integers(2)) for name in ("transA", "transB")}
    flags |= {name: int(seed % 3 == 0 and rng.integers(2)) for name in ("transBatchA", "transBatchB")}
    batch = shape(rng, 1 if seed % 3 == 0 else 0, 2)
    other = batch if seed % 3 == 0 else tuple(int(size) if rng.integers(2) else 1 for size in batch)
    a, b = normals(rng, *batch, n, k, dtype=dtype), normals(rng, *other, k, m, dtype=dtype)
    if seed % 6 == 4:
        a = a[(*(0,) * len(batch), 0)]
    operands = [
        x if x.ndim == 1 else stored(x, flags[f"trans{name}"], flags[f"transBatch{name}"])
        for x, name in ((a, "A"), (b, "B"))
    ]
    return (a, b), operands, flags | {"alpha": float(rng.uniform(-2, 2))}


@pytest.mark.parametrize("seed", SEEDS)
def test_products_are_those_of_onnx_runtime(seed):
    _, operands, attributes = drawn_product(seed)
    assert_as_runtime("FusedMatMul", operands, domain=MICROSOFT, **attributes)


@pytest.mark.parametrize("dtype", sampled([np.float16, ml_dtypes.bfloat16], [np.float16]))
def test_products_are_rounded_once(dtype):
    (a, b), operands, attributes = drawn_product(3, dtype)
    (y,) = computed("FusedMatMul", operands, domain=MICROSOFT, **attributes)
    wanted = np.matmul(*(x.astype(np.float64) for x in (a, b))) * float(np.float32(attributes["alpha"]))
    assert y.dtype == dtype
    np.testing.assert_allclose(y.astype(np.float64), wanted, rtol=0.51 * float(jnp.finfo(dtype).eps), atol=1e-6)


def softmax(x, axis):
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_softmax_of_products(seed):
    """Along the last dimension by default."""
    (a, b), operands, attributes = drawn_product(seed)
    alpha = float(np.float32(attributes["alpha"]))
    wanted = np.matmul(a.astype(np.float64), b.astype(np.float64)) * alpha
    axis = {"activation_axis": seed % wanted.ndim - wanted.ndim * (seed % 2)} if seed % 4 else {}
    (y,) = computed("FusedMatMulActivation", operands, domain=MICROSOFT, activation="Softmax", **attributes, **axis)
    np.testing.assert_allclose(y, softmax(wanted, axis.get("activation_axis", -1)), rtol=1e-5, atol=1e-6)


# Convolutions.


def drawn_convolution(seed, transposed):
    """x, w and b with channels in the second dimension, and attributes without padding."""
    rng = np.random.default_rng(seed)
    rank, group = 1 + seed % 3, int(rng.integers(1, 4))
    inner, outer = group * int(rng.integers(1, 3)), int(rng.integers(1, 3))
    kernel, strides, dilations = (rng.integers(1, 4, rank).tolist() for _ in range(3))
    filters = (inner, outer) if transposed else (group * outer, inner // group)
    x = normals(rng, 2, inner, *rng.integers(7, 10, rank).tolist())
    bias = normals(rng, group * outer) if seed % 2 else None
    attributes = {"group": group, "strides": strides, "dilations": dilations}
    return rng, x, normals(rng, *filters, *kernel), bias, attributes


@pytest.mark.parametrize("seed", SEEDS)
def test_transposed_convolutions_are_those_of_onnx_runtime(seed):
    rng, x, w, bias, attributes = drawn_convolution(seed, transposed=True)
    pads = rng.integers(0, 3, 2 * (x.ndim - 2))
    if seed % 3 == 2:
        attributes["output_padding"] = [int(rng.integers(step)) for step in attributes["strides"]]
    if seed % 4 == 3:
        attributes["kernel_shape"] = list(w.shape[2:])
    inputs = [x, w, pads] if bias is None else [x, w, pads, bias]
    assert_as_runtime("ConvTransposeWithDynamicPads", inputs, units=32, static={2}, domain=MICROSOFT, **attributes)


def convolved(x, w, bias, pads, strides, dilations, group):
    """By a loop over the elements of the output."""
    rank = x.ndim - 2
    edges = [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)]
    x, w = np.pad(x.astype(np.float64), edges), w.astype(np.float64)
    columns = zip(x.shape[2:], w.shape[2:], strides, dilations, strict=True)
    y = np.zeros((len(x), len(w), *((n - d * (k - 1) - 1) // s + 1 for n, k, s, d in columns)))
    x, w = x.reshape(len(x), group, -1, *x.shape[2:]), w.reshape(group, -1, *w.shape[1:])
    for at in np.ndindex(*y.shape[2:]):
        for tap in np.ndindex(*w.shape[3:]):
            place = (s * i + d * k for s, i, d, k in zip(strides, at, dilations, tap, strict=True))
            y[(..., *at)] += np.einsum("ngc,goc->ngo", x[(..., *place)], w[(..., *tap)]).reshape(y.shape[:2])
    return y if bias is None else y + bias.reshape(-1, *(1,) * rank)


@pytest.mark.parametrize("seed", SEEDS)
def test_convolutions_of_channels_that_are_last(seed):
    """Those of the filters are last too, as ONNX Runtime's tools write them."""
    rng, x, w, bias, attributes = drawn_convolution(seed, transposed=False)
    pads = rng.integers(0, 3, 2 * (x.ndim - 2)).tolist() if seed % 4 else [0] * 2 * (x.ndim - 2)
    given = {"pads": pads} if seed % 4 else {}
    if seed % 3 == 2:
        given["kernel_shape"] = list(w.shape[2:])
    inputs = [np.moveaxis(x, 1, -1), np.moveaxis(w, 1, -1)] + ([] if bias is None else [bias])
    (y,) = computed("NhwcConv", inputs, domain=MICROSOFT, **attributes, **given)
    wanted = convolved(x, w, bias, pads, **attributes)
    np.testing.assert_allclose(np.moveaxis(y, -1, 1), wanted, rtol=1e-5, atol=1e-5)


# Group normalization.


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("dtype", sampled([np.float32, np.float16], [np.float16]))
def test_group_normalization(dtype, seed):
    """Gamma and beta may have another type than x."""
    rng = np.random.default_rng(seed)
    n, h, w, groups, each = shape(rng, 5, 5)
    x = normals(rng, n, groups * each, h, w, dtype=dtype)
    gamma, beta = (normals(rng, groups * each, dtype=(dtype, np.float32)[seed % 2]) for _ in range(2))
    attributes = {"groups": groups, "activation": seed // 2 % 2}
    attributes |= {"epsilon": 0.25} if seed % 3 else {}
    attributes |= {"channels_last": 0} if seed % 5 == 1 else {}
    given = x if seed % 5 == 1 else np.moveaxis(x, 1, -1)
    (y,) = computed("GroupNorm", [given, gamma, beta], domain=MICROSOFT, **attributes)
    rows = x.astype(np.float64).reshape(n, groups, -1)
    epsilon = float(np.float32(attributes.get("epsilon", 1e-5)))
    normal = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + epsilon)
    wanted = normal.reshape(x.shape) * gamma.reshape(-1, 1, 1).astype(np.float64) + beta.reshape(-1, 1, 1)
    wanted = wanted / (1 + np.exp(-wanted)) if attributes["activation"] else wanted
    assert y.dtype == dtype
    rtol, atol = (0.51 * 2**-10, 4e-6) if dtype == np.float16 else (2e-5, 2e-5)
    np.testing.assert_allclose(y if seed % 5 == 1 else np.moveaxis(y, -1, 1), wanted, rtol=rtol, atol=atol)


@pytest.mark.parametrize("seed", sampled(range(12), [1, 2]))
@pytest.mark.parametrize("dtype", sampled([np.float32, np.float16], [np.float16]))
def test_group_normalization_of_a_sum(dtype, seed):
    """SkipGroupNorm, beside GroupNorm of a sum in float32; ONNX Runtime has no kernel for CPUs."""
    rng = np.random.default_rng(seed)
    n, h, w, groups, each = shape(rng, 5, 5)
    channels, is_last = groups * each, seed % 4 != 1
    x = normals(rng, n, h, w, channels, dtype=dtype)
    sizes = (x.shape, (n, 1, 1, channels), (n, channels))[seed % 3]
    skip, bias = normals(rng, *sizes, dtype=dtype), normals(rng, channels, dtype=dtype) if seed % 2 else None
    gamma, beta = normals(rng, channels), normals(rng, channels)
    total = sum(array.astype(np.float64) for array in (x, skip.reshape((n, 1, 1, -1) if seed % 3 else x.shape)))
    total = total if bias is None else total + bias
    of_groups = {"groups": groups, "activation": seed % 2}
    (wanted,) = computed("GroupNorm", [total.astype(np.float32), gamma, beta], domain=MICROSOFT, **of_groups)
    inputs = [x, gamma, beta, skip] + ([] if bias is None else [bias])
    if not is_last:
        inputs = [np.moveaxis(a, -1, 1) if a.ndim == 4 else a for a in inputs]
    made = computed("SkipGroupNorm", inputs, 2, domain=MICROSOFT, channels_last=int(is_last), **of_groups)
    for y, exact in zip(made, (wanted, total), strict=True):
        assert y.dtype == dtype
        off = 0.51 * 2**-10 if dtype == np.float16 else 1e-6
        np.testing.assert_allclose(y if is_last else np.moveaxis(y, 1, -1), exact, rtol=off, atol=1e-6)


def zeros(*sizes):
    return np.zeros(sizes, np.float32)


PICTURE, FILTERS, CHANNELS = zeros(1, 2, 5, 5), zeros(2, 3, 3, 3), zeros(4)
NUMBERS = [zeros(1, 2, 2, 4), CHANNELS, CHANNELS]
OF_GROUPS = {"groups": 2, "activation": 0}


@pytest.mark.parametrize(
    ("kind", "inputs", "attributes", "message"),
    [
        (
            "FusedMatMul",
            [zeros(3, 4, 5), zeros(5, 6)],
            {"transBatchA": 1},
            "a and b must have one rank of at least 3, but their shapes are (3, 4, 5) and (5, 6)",
        ),
        ("FusedMatMul", [zeros(3, 4), zeros(5, 6)], {}, "node #0: "),
        ("FusedMatMul", [zeros(3, 4), zeros(4, 6)], {"gamma": 1.0}, "but there is 'gamma'"),
        (
            "ConvTransposeWithDynamicPads",
            [PICTURE, FILTERS, np.int64([1, 0, 2])],
            {},
            "pads must be 4 numbers of at least 0, but it is [1, 0, 2]",
        ),
        ("ConvTransposeWithDynamicPads", [PICTURE, FILTERS, np.int64([1, 0, 2, -1])], {}, "pads must be 4 numbers"),
        ("ConvTransposeWithDynamicPads", [PICTURE, FILTERS], {}, "pads must be given, but they are left out"),
        (
            "ConvTransposeWithDynamicPads",
            [PICTURE, FILTERS, np.int64([0] * 4)],
            {"output_shape": [9, 9]},
            "but there is 'output_shape'",
        ),
    ],
)
def test_onnx_runtime_refuses_them_too(kind, inputs, attributes, message):
    assert_refused(message, kind, inputs, by_runtime=True, domain=MICROSOFT, **attributes)


@pytest.mark.parametrize(
    ("kind", "inputs", "attributes", "message"),
    [
        (
            "FusedMatMulActivation",
            [zeros(2, 2)] * 2,
            {"activation": "Softmax", "activation_alpha": 2.0},
            "activation_alpha must be left out, because a Softmax has no numbers, but it is 2.0",
        ),
        ("FusedMatMulActivation", [zeros(2, 2)] * 2, {}, "it must have the attribute 'activation'"),
        ("NhwcConv", [zeros(1, 5), zeros(1, 5)], {}, "x and w must have one rank of at least 3"),
        ("GroupNorm", NUMBERS, {"groups": 3, "activation": 0}, "groups must divide the 4 channels"),
        ("GroupNorm", NUMBERS, OF_GROUPS | {"channels_last": 0}, "groups must divide the 2 channels"),
        ("GroupNorm", NUMBERS, {"groups": 2, "activation": 2}, "activation be 0 or 1, but they are"),
        ("GroupNorm", [zeros(2, 4), CHANNELS, CHANNELS], OF_GROUPS, "x must have 4 dimensions"),
        (
            "SkipGroupNorm",
            [*NUMBERS, zeros(1, 2)],
            OF_GROUPS,
            "skip.shape must be (1, 2, 2, 4) or (1, 1, 1, 4) or (1, 4)",
        ),
        ("SkipGroupNorm", [*NUMBERS, zeros(1, 4), zeros(2)], OF_GROUPS, "bias: its sizes must be [4]"),
        ("SkipGroupNorm", [zeros(2, 4), CHANNELS, CHANNELS, CHANNELS], OF_GROUPS, "X: its sizes must be [?, ?, ?, ?]"),
    ],
)
def test_what_does_not_fit(kind, inputs, attributes, message):
    assert_refused(message, kind, inputs, domain=MICROSOFT, **attributes)
