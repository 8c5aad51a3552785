"""ONNX's pooling: against ONNX Runtime, and against windows that NumPy reads one by one, in float64."""

import itertools
from math import ceil, floor, prod

import numpy as np
import pytest
from onnx_building import helper, model, runtime

from dml_jax.onnx import Backend

MODES = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


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
FEW = CONFIGURATIONS[:6]
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
