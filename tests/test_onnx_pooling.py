"""ONNX's pooling: against ONNX Runtime, and against windows that NumPy reads one by one, in float64."""

import itertools
import re
from functools import partial
from math import ceil, floor, prod

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import sampled
from jax.test_util import check_grads
from onnx_building import assert_same_values, helper, model, runtime

from dml_jax.onnx import Backend, OnnxError, run_node, to_jax
from dml_jax.onnx.pooling import max_pool

# Windows one by one.


def starts_of(size, window, stride, dilation, pads, ceil_mode):
    """Where the windows begin, by the formulas of the specification."""
    reach = (window - 1) * dilation + 1
    count = (ceil if ceil_mode else floor)((size + sum(pads) - reach) / stride) + 1
    starts = [i * stride - pads[0] for i in range(count)]
    return [s for s in starts if s < size] if ceil_mode else starts


def read_windows(x, *, kernel_shape, strides=None, dilations=None, pads=None, ceil_mode=0, **_):
    """For each output its elements, where they lie, and how many positions are not behind the end padding."""
    rank = len(kernel_shape)
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    pads = pads or [0] * 2 * rank
    sides = list(zip(pads[:rank], pads[rank:], strict=True))
    columns = list(zip(x.shape[2:], kernel_shape, strides, dilations, sides, strict=True))
    starts = [starts_of(*column, ceil_mode) for column in columns]
    for place in itertools.product(*map(range, x.shape[:2]), *(range(len(s)) for s in starts)):
        columns = zip(starts, place[2:], kernel_shape, dilations, strict=True)
        along = [[s[i] + k * d for k in range(w)] for s, i, w, d in columns]
        inside = [[p for p in ps if 0 <= p < n] for ps, n in zip(along, x.shape[2:], strict=True)]
        padded = [range(-low, n + high) for n, (low, high) in zip(x.shape[2:], sides, strict=True)]
        covered = prod(sum(p in some for p in ps) for ps, some in zip(along, padded, strict=True))
        at = list(itertools.product(*inside))
        yield place, [x[(*place[:2], *p)] for p in at], at, covered


def pooled(name, x, **attributes):
    """The outputs of a node, in float64."""
    found = list(read_windows(x, **attributes))
    shape = [n + 1 for n in found[-1][0]]
    y, indices = np.empty(shape), np.zeros(shape, np.int64)
    for place, values, at, covered in found:
        values = np.asarray(values, np.float64)
        if name == "MaxPool":
            best = int(np.argmax(values)) if len(values) else 0
            y[place] = values[best]
            order = "F" if attributes.get("storage_order") else "C"
            number = np.ravel_multi_index(at[best], x.shape[2:], order=order)
            indices[place] = (place[0] * x.shape[1] + place[1]) * prod(x.shape[2:]) + number
        elif name == "AveragePool":
            y[place] = values.sum() / (covered if attributes.get("count_include_pad") else max(1, len(values)))
        else:
            p = attributes.get("p", 2)
            y[place] = (np.abs(values) ** p).sum() ** (1 / p)
    return y, indices


# Configurations.


def configurations(number):
    """Attributes and sizes, of 1 to 3 dimensions."""
    rng = np.random.default_rng(number)
    for i in range(number):
        rank = 1 + i % 3
        window = rng.integers(1, 5, rank)
        dilations = rng.integers(1, 3, rank)
        sizes = (window - 1) * dilations + rng.integers(1, 5, rank)
        pads = np.concatenate([rng.integers(0, window), rng.integers(0, window)])
        attributes = {"kernel_shape": window, "strides": rng.integers(1, 4, rank), "pads": pads}
        attributes = {name: value.tolist() for name, value in attributes.items()}
        yield sizes.tolist(), attributes | {"ceil_mode": i // 3 % 2, "dilations": dilations.tolist()}


def pictures(sizes, seed=0):
    return np.random.default_rng(seed).standard_normal((2, 3, *sizes)).astype(np.float32)


CONFIGURATIONS = list(configurations(60))
FEW = CONFIGURATIONS[4:5]
OWN = [
    *(("MaxPool", {"storage_order": order}) for order in (0, 1)),
    *(("AveragePool", {"count_include_pad": include}) for include in (0, 1)),
    *(("LpPool", {"p": p}) for p in (1, 2, 3)),
]


def compared_nodes(configurations):
    """A model of all of them, its inputs, and what each output is."""
    nodes, inputs, outputs = [], {}, {}
    for i, (sizes, attributes) in enumerate(configurations):
        inputs[f"x{i}"] = pictures(sizes, i)
        for name, own in OWN:
            made = [f"y{len(outputs)}"] + ([f"y{len(outputs) + 1}"] if name == "MaxPool" else [])
            nodes.append(helper.make_node(name, [f"x{i}"], made, **attributes, **own))
            outputs |= {one: (name, attributes | own, inputs[f"x{i}"], n) for n, one in enumerate(made)}
    return model(nodes, inputs, outputs, opset=22), inputs, outputs


@pytest.mark.parametrize(
    "chosen", [FEW, pytest.param(CONFIGURATIONS, marks=pytest.mark.exhaustive)], ids=["few", "all"]
)
def test_windows_are_those_of_onnx_runtime_and_of_the_specification(chosen):
    proto, inputs, outputs = compared_nodes(chosen)
    actual, expected = Backend.run_model(proto, list(inputs.values())), runtime(proto, inputs)
    for (name, attributes, x, n), y, wanted in zip(outputs.values(), actual, expected, strict=True):
        message = f"{name} {attributes} of {x.shape}"
        exact = pooled(name, x, **attributes)[n]
        assert y.dtype == wanted.dtype, message
        np.testing.assert_allclose(y, exact, rtol=1e-5, atol=1e-6, err_msg=message)
        np.testing.assert_allclose(wanted, exact, rtol=1e-5, atol=1e-6, err_msg=f"ONNX Runtime: {message}")


# Padding that follows from the sizes.


def automatic_pads(mode, sizes, kernel_shape, strides, dilations):
    """By the formulas of the specification."""
    low, high = [], []
    for n, k, s, d in zip(sizes, kernel_shape, strides, dilations, strict=True):
        made = ceil(n / s) if mode != "VALID" else ceil((n - (k - 1) * d) / s)
        total = 0 if mode == "VALID" else max(0, (made - 1) * s + (k - 1) * d + 1 - n)
        low.append(total - total // 2 if mode == "SAME_LOWER" else total // 2)
        high.append(total - low[-1])
    return low + high


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_padding_that_follows_from_sizes(mode):
    """ONNX Runtime gives the same where nothing is dilated."""
    nodes, inputs, exact = [], {}, {}
    for i, (sizes, attributes) in enumerate(CONFIGURATIONS[1:7]):
        given = {name: attributes[name] for name in ("kernel_shape", "strides")}
        given["dilations"] = attributes["dilations"] if i % 2 else [1] * len(sizes)
        pads, x = automatic_pads(mode, sizes, **given), pictures(sizes)
        inputs[f"x{i}"] = x
        for name, own in OWN[1:5:2]:
            y = f"y{len(nodes)}"
            nodes.append(helper.make_node(name, [f"x{i}"], [y], auto_pad=mode, **given, **own))
            exact[y] = pooled(name, x, pads=pads, **given, **own)[0], max(given["dilations"]) == 1
    proto = model(nodes, inputs, exact, opset=22)
    actual = Backend.run_model(proto, list(inputs.values()))
    for y, wanted, (real, is_same) in zip(actual, runtime(proto, inputs), exact.values(), strict=True):
        np.testing.assert_allclose(y, real, rtol=1e-5, atol=1e-6)
        if is_same:
            np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-6)
    assert sum(is_same for _, is_same in exact.values()) >= 4


# Numbers.

TYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
SQUARE = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1], "dilations": [1, 2]}


def within(dtype):
    """Half a step of narrow types, which are rounded once; some steps of the others."""
    step = float(jnp.finfo(dtype).eps)
    return {"rtol": 0.51 * step} if np.dtype(dtype).itemsize < 4 else {"rtol": 8 * step, "atol": 8 * step}


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", TYPES)
def test_floats_are_added_wide_and_rounded_once(dtype):
    x = pictures((5, 6)).astype(dtype)
    for name, own in OWN[2:]:
        with jax.enable_x64(True):
            (y,) = run_node(helper.make_node(name, ["x"], ["y"], **SQUARE, **own), [x])
        exact = pooled(name, x, **SQUARE, **own)[0]
        assert y.dtype == dtype
        np.testing.assert_allclose(y, exact, **within(dtype))
    for name, of in (("GlobalAveragePool", np.mean), ("GlobalLpPool", lambda x, *a, **k: (x**2).sum(*a, **k) ** 0.5)):
        with jax.enable_x64(True):
            (y,) = run_node(helper.make_node(name, ["x"], ["y"]), [x])
        assert y.dtype == dtype
        exact = of(x.astype(np.float64), (2, 3), keepdims=True)
        np.testing.assert_allclose(y, exact, **within(dtype))


@pytest.mark.parametrize("dtype", sampled([np.int8, np.uint8, *TYPES], [ml_dtypes.bfloat16]))
def test_the_greatest_is_one_of_the_elements(dtype):
    """Bits and indices of every type, those of padding never; ties give the first."""
    limits = jnp.iinfo(dtype) if jnp.issubdtype(dtype, jnp.integer) else jnp.finfo(dtype)
    rng = np.random.default_rng(0)
    x = rng.choice(np.asarray([limits.min, limits.max, 0, 1, 2], dtype), (2, 2, 5, 7))
    node = helper.make_node("MaxPool", ["x"], ["y", "i"], **SQUARE)
    with jax.enable_x64(True):
        y, i = run_node(node, [x])
    exact, indices = pooled("MaxPool", x, **SQUARE)
    assert_same_values(y, exact.astype(dtype))
    assert_same_values(i, indices)
    assert_same_values(y, x.ravel()[indices])
    if jnp.issubdtype(dtype, jnp.floating):
        with jax.enable_x64(True):
            (largest,) = run_node(helper.make_node("GlobalMaxPool", ["x"], ["y"]), [x])
        assert_same_values(largest, x.max((2, 3), keepdims=True))


def test_a_nan_is_the_greatest_of_many():
    """XLA:CPU loses it where it reduces with vectors."""
    x = np.zeros((2, 40, 32, 32), np.float32)
    x[1, :, 3, 5] = np.nan
    (largest,) = run_node(helper.make_node("GlobalMaxPool", ["x"], ["y"]), [x])
    assert_same_values(largest, x.max((2, 3), keepdims=True))


@pytest.mark.exhaustive
def test_a_nan_is_the_greatest_and_padding_alone_has_none():
    x = np.float32([[[1, np.nan, -np.inf, 3]]])
    (y,) = run_node(helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2]), [x])
    assert_same_values(y, np.float32([[[np.nan, np.nan, 3]]]))
    alone = {"kernel_shape": [1], "pads": [1, 1]}
    (y,) = run_node(helper.make_node("MaxPool", ["x"], ["y"], **alone), [x])
    assert_same_values(y[..., [0, -1]], np.float32([[[-np.inf, -np.inf]]]))
    for name in ("AveragePool", "LpPool"):
        (y,) = run_node(helper.make_node(name, ["x"], ["y"], **alone), [x])
        assert_same_values(y[..., [0, -1]], np.float32([[[0, 0]]]))


@pytest.mark.exhaustive
def test_long_windows():
    """As long as a picture, with and without padding."""
    x = pictures((131,))
    for attributes in ({"kernel_shape": [131]}, {"kernel_shape": [100], "strides": [7], "pads": [50, 49]}):
        for name in ("MaxPool", "AveragePool"):
            (y,) = run_node(helper.make_node(name, ["x"], ["y"], **attributes), [x])
            np.testing.assert_allclose(y, pooled(name, x, **attributes)[0], rtol=1e-5, atol=1e-6)


# Transformations.


def of_node(name, x, **attributes):
    return to_jax(model([helper.make_node(name, ["x"], ["y"], **attributes)], {"x": x}, ["y"], opset=22))


@pytest.mark.exhaustive
@pytest.mark.parametrize("which", [0, 2, 3, 4, 5, 6])
def test_derivatives_are_those_of_differences(which):
    name, own = OWN[which]
    rng = np.random.default_rng(0)
    x = rng.permutation(2 * 5 * 6).reshape(1, 2, 5, 6).astype(np.float32) / 8 + 0.06
    check_grads(of_node(name, x, **SQUARE, **own), (x,), 1, modes=["fwd", "rev"], eps=1e-2, atol=2e-2, rtol=2e-2)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["MaxPool", "LpPool", "GlobalLpPool"])
def test_derivatives_of_zeros_are_finite(name):
    """Of equal elements the first one has the derivative."""
    x = np.zeros((1, 1, 4), np.float32)
    attributes = {} if name == "GlobalLpPool" else {"kernel_shape": [2], "strides": [2]}
    gradient = jax.grad(lambda x: of_node(name, x, **attributes)(x).sum())(x)
    np.testing.assert_array_equal(gradient, [[[1, 0, 1, 0]]] if name == "MaxPool" else np.zeros_like(x))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["MaxPool", "AveragePool"])
def test_jit_and_vmap(name):
    x = pictures((5, 6))
    many, function = np.stack([x, -x]), of_node(name, x, **SQUARE, ceil_mode=1)
    np.testing.assert_array_equal(jax.vmap(function)(many), np.stack([function(x), function(-x)]))
    np.testing.assert_array_equal(jax.jit(function)(x), function(x))


# What is refused.


@pytest.mark.parametrize(
    ("name", "attributes", "message"),
    [
        ("MaxPool", {"kernel_shape": [2]}, "kernel_shape must be 2 numbers of at least 1, but it is [2]"),
        ("MaxPool", {"kernel_shape": [2, 0]}, "kernel_shape must be 2 numbers of at least 1, but it is [2, 0]"),
        ("MaxPool", {"kernel_shape": [6, 1]}, "must fit into its padded dimension"),
        ("LpPool", {"kernel_shape": [1, 1], "p": 0}, "p must be at least 1, and finite, but it is 0"),
        ("AveragePool", {"kernel_shape": [1, 1], "pads": [0, -1, 0, 0]}, "pads must be at least 0"),
        ("AveragePool", {"kernel_shape": [1, 1], "pads": [0, 1]}, "pads must be 4 numbers, two per dimension"),
        ("AveragePool", {"kernel_shape": [1, 1], "auto_pad": "SAME"}, "auto_pad must be NOTSET, SAME_UPPER"),
    ],
)
def test_attributes_that_do_not_fit(name, attributes, message):
    with pytest.raises(OnnxError) as caught:
        run_node(helper.make_node(name, ["x"], ["y"], **attributes), [pictures((5, 5))])
    assert message in str(caught.value)


def test_shapes_that_do_not_fit():
    for name in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        for shape in ((2, 3), (2, 3, 0)):
            with pytest.raises(OnnxError, match="x must have the dimensions N, C and one more at least"):
                run_node(helper.make_node(name, ["x"], ["y"]), [np.zeros(shape, np.float32)])
    with pytest.raises(OnnxError, match="kernel_shape must be 1 numbers, but it is missing"):
        run_node(helper.make_node("LpPool", ["x"], ["y"]), [np.zeros((1, 1, 3), np.float32)], opset=1)


def test_maxima_of_windows_that_are_apart_are_computed_at_these_alone():
    pool = partial(max_pool, kernel_shape=[3, 3], strides=[2, 2])
    text = jax.jit(lambda x: pool(x=x)).lower(np.zeros((1, 1, 33, 33), np.float32)).as_text()
    assert set(re.findall(r"tensor<1x1x(\d+x\d+)xi1>", text)) == {"33x16", "16x16"}


@pytest.mark.parametrize(("side", "stride", "is_apart"), [(129, 2, True), (129, 1, False), (33, 2, False)])
def test_strided_windows_stay_apart_from_the_reshape_behind_them(side, stride, is_apart):
    """Where their rows are long: 33 elements have 16 windows."""
    pool = partial(max_pool, kernel_shape=[3, 3], strides=[stride, stride])
    x = jax.ShapeDtypeStruct((1, 64, side, side), np.float32)
    lowered = jax.jit(lambda x: pool(x=x).reshape(64, -1)).trace(x).lower(lowering_platforms=("cpu",))
    assert ("optimization_barrier" in lowered.as_text()) == is_apart
