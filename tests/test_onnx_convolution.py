"""ONNX's convolutions: against ONNX Runtime, and the transpose also against sums that NumPy makes, in float64."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import sampled
from onnx_building import helper, model, runtime

from dml_jax.onnx import Backend, OnnxError, run_node

AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def numbers(rng, rank, least, most):
    return rng.integers(least, most + 1, rank).tolist()


def drawn(seed, transposed):
    """Operands and attributes of a node that ONNX Runtime takes."""
    rng = np.random.default_rng(seed)
    rank, group = 1 + seed % 3, int(rng.integers(1, 4))
    kernel, strides, dilations = (numbers(rng, rank, 1, n) for n in (4, 3, 3))
    attributes = {"kernel_shape": kernel, "strides": strides, "group": group}
    mode = AUTO_PADS[max(0, seed % 7 - 3)]
    if mode == "NOTSET":  # elsewhere ONNX Runtime takes no dilations
        attributes |= {"pads": numbers(rng, 2 * rank, 0, 1), "dilations": dilations}
    else:
        attributes["auto_pad"] = mode
        kernel[:] = map(max, kernel, strides)  # of smaller ones ONNX Runtime makes less than the specification says
    sizes = numbers(rng, rank, 10, 12) if not transposed else numbers(rng, rank, 3, 6)
    channels = group * int(rng.integers(1, 4)), int(rng.integers(1, 4))
    filters = (channels[0], channels[1]) if transposed else (group * channels[1], channels[0] // group)
    if transposed:
        attributes["output_padding"] = [int(rng.integers(0, s)) for s in strides]
        if mode == "NOTSET" and rng.random() < 0.4:
            columns = zip(sizes, kernel, strides, dilations, numbers(rng, rank, 0, 2), strict=True)
            # Of more than the sums ONNX Runtime makes nothing.
            attributes["output_shape"] = [s * (n - 1) + max(1, d * (k - 1) + 1 - m) for n, k, s, d, m in columns]
    shapes = (int(rng.integers(1, 4)), channels[0], *sizes), (*filters, *kernel), (group * channels[1],)
    operands = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    return operands[: 2 + seed % 2], attributes


def compared(op_type, seeds):
    """Every node of one model against ONNX Runtime's."""
    nodes, inputs, outputs = [], {}, []
    for seed in seeds:
        operands, attributes = drawn(seed, op_type == "ConvTranspose")
        names = [f"{name}{seed}" for name in "xwb"[: len(operands)]]
        nodes.append(helper.make_node(op_type, names, [f"y{seed}"], **attributes))
        inputs |= dict(zip(names, operands, strict=True))
        outputs.append(f"y{seed}")
    proto = model(nodes, inputs, outputs, opset=20)
    results = Backend.run_model(proto, list(inputs.values()))
    for node, y, wanted in zip(nodes, results, runtime(proto, inputs), strict=True):
        np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=2e-5, err_msg=str(node))


@pytest.mark.parametrize("part", sampled(range(12), [0]))
@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose"])
def test_nodes_are_those_of_onnx_runtime(op_type, part):
    compared(op_type, range(20 * part, 20 * part + (20 if part else 8)))


# The transpose in the places that ONNX Runtime does not take or that need a number of their own.


def exact_transpose(x, w, *, strides, dilations, start, sizes, group):
    """Each element of x times each of the filter, added up where both together lie."""
    x, w = (a.astype(np.float64) for a in (x, w))
    y = np.zeros((x.shape[0], group * w.shape[1], *sizes))
    for at in np.ndindex(*x.shape[2:]):
        for tap in np.ndindex(*w.shape[2:]):
            place = [s * i + d * k - p for s, i, d, k, p in zip(strides, at, dilations, tap, start, strict=True)]
            if all(0 <= p < n for p, n in zip(place, sizes, strict=True)):
                pixels = x[(..., *at)].reshape(x.shape[0], group, -1)
                weights = w[(..., *tap)].reshape(group, -1, w.shape[1])
                y[(..., *place)] += np.einsum("ngc,gco->ngo", pixels, weights).reshape(x.shape[0], -1)
    return y


TRANSPOSED = {
    # attributes: the first of the cropped sums, the sizes
    "output_padding, dilated": ({"strides": [2], "dilations": [4], "output_padding": [3]}, [0], [5 * 2 - 2 + 9 + 3]),
    "output_shape, odd": ({"strides": [2], "output_shape": [8]}, [2], [8]),
    "output_shape, odd, SAME_UPPER": ({"strides": [2], "output_shape": [8], "auto_pad": "SAME_UPPER"}, [1], [8]),
    "output_shape, large": ({"strides": [2], "output_shape": [15]}, [0], [15]),
    "SAME_LOWER, dilated": ({"dilations": [2], "auto_pad": "SAME_LOWER"}, [2], [5]),
    "SAME_UPPER, apart": ({"strides": [5], "auto_pad": "SAME_UPPER"}, [0], [25]),
    "pads of one side": ({"strides": [3], "pads": [0, 2]}, [0], [13]),
    "padding alone": ({"strides": [4], "pads": [19, 0], "output_padding": [3]}, [19], [3]),
    "none": ({"strides": [4], "pads": [19, 1], "output_padding": [1]}, [19], [0]),
}


@pytest.mark.parametrize("name", TRANSPOSED)
def test_the_sizes_of_a_transpose(name):
    attributes, start, sizes = TRANSPOSED[name]
    rng = np.random.default_rng(0)
    x, w, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 4, 5), (4, 3, 3), (6,)))
    (y,) = run_node(helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], group=2, **attributes), [x, w, b])
    steps = {name: attributes.get(name, [1]) for name in ("strides", "dilations")}
    expected = exact_transpose(x, w, **steps, start=start, sizes=sizes, group=2) + b[:, None]
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", sampled([np.float16, ml_dtypes.bfloat16, np.float64], [ml_dtypes.bfloat16]))
def test_types(dtype):
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(dtype) for shape in ((1, 4, 5, 5), (4, 4, 3, 3)))
    for op_type, turned in (("Conv", w), ("ConvTranspose", w[:, :, ::-1, ::-1].swapaxes(0, 1))):
        node = helper.make_node(op_type, ["x", "w"], ["y"], pads=[1, 1, 1, 1])
        with jax.enable_x64(True):
            (y,) = run_node(node, [x, np.ascontiguousarray(turned)], opset=22)
        assert y.dtype == dtype
        exact = exact_transpose(
            x, w[:, :, ::-1, ::-1].swapaxes(0, 1), strides=[1, 1], dilations=[1, 1], start=[1, 1], sizes=[5, 5], group=1
        )
        step = float(jnp.finfo(dtype).eps)
        rtol, atol = (0.51 * step, 1e-5) if step > 1e-7 else (1e-12, 1e-12)
        np.testing.assert_allclose(np.asarray(y, np.float64), exact, rtol, atol)


X = np.ones((1, 2, 4), np.float32)
ERRORS = {
    "rank": ("Conv", [X[0], X[0]], {}, "x and w must have one rank of at least 3"),
    "kernel": ("ConvTranspose", [X, X.swapaxes(0, 1)], {"kernel_shape": [3]}, "w the sizes of kernel_shape"),
    "group": ("ConvTranspose", [X, X], {}, r"channels must fit group: w.shape\[0\] = x.shape\[1\]"),
    "bias": ("Conv", [X, X, X[0, 0]], {}, r"b must have a number for each of 1 channels, but its shape is \(4,\)"),
    "fits": ("Conv", [X, X], {"dilations": [2]}, r"the dilated w must fit into the padded x, but it is \[7\] and that"),
    "negative": ("Conv", [X, X], {"pads": [-1, 0]}, "pads must be at least 0"),
    "pads": ("ConvTranspose", [X, X.swapaxes(0, 1)], {"pads": [-1, 0]}, "pads must be 2 numbers of at least 0"),
    "more": ("ConvTranspose", [X, X.swapaxes(0, 1)], {"output_padding": [1, 1]}, "output_padding must be 1 numbers"),
    "sizes": ("ConvTranspose", [X, X.swapaxes(0, 1)], {"output_shape": [0]}, "output_shape must be 1 numbers of at"),
    "mode": ("ConvTranspose", [X, X.swapaxes(0, 1)], {"auto_pad": "SAME"}, "auto_pad must be NOTSET, SAME_UPPER"),
    "cropped": (
        "ConvTranspose",
        [X, X.swapaxes(0, 1)],
        {"pads": [7, 1]},
        r"leave sizes of at least 0, but they leave \[-1\]",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_say_what_would_be_accepted(name):
    op_type, operands, attributes, message = ERRORS[name]
    with pytest.raises(OnnxError, match=message):
        run_node(helper.make_node(op_type, list("xwb"[: len(operands)]), ["y"], **attributes), operands)
