"""Models of one node: results compared with ONNX Runtime, and models of any nodes that are refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from onnx_building import one_node, runtime

from dml_jax.onnx import OnnxError, to_jax

MICROSOFT = "com.microsoft"


def computed(kind, inputs, outputs=1, *, static=(), **attributes):
    """The outputs of a node, as a list, under `jax.jit`; inputs that `static` counts are known."""
    return _computed(*one_node(kind, inputs, outputs, **attributes), static)


def _computed(model, named, static):
    known = {name: value for name, value in named.items() if int(name[1:]) in static}
    with jax.enable_x64(True):
        results = jax.jit(to_jax(model, static=known))(**{n: x for n, x in named.items() if n not in known})
    return [np.asarray(y) for y in (results if isinstance(results, tuple) else (results,))]


def assert_as_runtime(kind, inputs, outputs=1, *, units=8, static=(), **attributes):
    """Same types and shapes as ONNX Runtime's, same integers, and floats that are off by `units` of their precision.

    Inputs that `static` counts are known; a float is off by so much of itself, or of the greatest one.
    """
    model, named = one_node(kind, inputs, outputs, **attributes)
    for y, expected in zip(_computed(model, named, static), runtime(model, named), strict=True):
        assert y.dtype == expected.dtype
        assert y.shape == expected.shape
        is_float = jnp.issubdtype(y.dtype, jnp.floating)
        off = units * float(jnp.finfo(y.dtype).eps) if is_float else 0
        np.testing.assert_allclose(y, expected, rtol=off, atol=off * float(abs(expected).max(initial=0)))


def assert_refused(message, kind, inputs, outputs=1, *, by_runtime=False, **attributes):
    """By an error that says so, and by ONNX Runtime too if `by_runtime`."""
    model, named = one_node(kind, inputs, outputs, **attributes)
    with pytest.raises(OnnxError) as caught, jax.enable_x64(True):
        to_jax(model)(**named)
    assert message in str(caught.value)
    if by_runtime:
        with pytest.raises(Exception, match="ONNXRuntimeError"):
            runtime(model, named)


def refused(source, text, error=OnnxError):
    """The error of a model that cannot be made a function; it says the text."""
    with pytest.raises(error) as caught:
        to_jax(source)
    assert text in str(caught.value)
    return caught.value


def shape(rng, least, most):
    """From `least` to `most` sizes from 1 to 5."""
    return tuple(rng.integers(1, 6, int(rng.integers(least, most + 1))).tolist())
