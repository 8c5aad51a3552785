"""Quantised operators of ONNX and ONNX Runtime, where an integer q means (q - zero_point) * scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..errors import ConstraintError, DataTypeError
from ..operators._integer_convolution import convolve_integers, convolve_quantized
from ..operators._quantization import (
    add_quantized,
    centred,
    dequantize,
    dynamically_quantize,
    quantize,
    rescale,
)
from . import activations
from .activations import activation
from .contrib_schemas import optional, required, schema
from .convolution import CONV_ATTRIBUTES, check_bias, filter_windows
from .layout import concat
from .pooling import average_pool, global_average_pool, max_pool
from .quantization_scales import Parameter, along, numbers
from .values import Array, Operators, on_device

# Element by element.


def dynamic_quantize_linear(*, x: Array) -> tuple[jax.Array, ...]:
    """DynamicQuantizeLinear; its derivative is 0, also through the scale."""
    return dynamically_quantize(lax.stop_gradient(on_device(x)), jnp.uint8)


def qlinear_add(*, a: Array, b: Array, c_scale: Array, c_zero_point: Parameter = None, **of_terms: Any) -> jax.Array:
    a, b = jnp.broadcast_arrays(on_device(a), on_device(b))
    scale, zero_point = numbers(c_scale=c_scale, c_zero_point=c_zero_point).values()
    given: dict[str, Any] = {"a_zero_point": None, "b_zero_point": None} | numbers(**of_terms)
    return add_quantized(a, b=b, output_scale=scale, output_zero_point=zero_point, dtype=a.dtype, **given)


def qlinear_mul(
    *,
    a: Array,
    a_scale: Array,
    a_zero_point: Parameter = None,
    b: Array,
    b_scale: Array,
    b_zero_point: Parameter = None,
    c_scale: Array,
    c_zero_point: Parameter = None,
) -> jax.Array:
    a, b = jnp.broadcast_arrays(on_device(a), on_device(b))
    zero_of_a, zero_of_b = numbers(a_zero_point=a_zero_point, b_zero_point=b_zero_point).values()
    products = centred(a, zero_of_a) * centred(b, zero_of_b)
    others = numbers(a_scale=a_scale, b_scale=b_scale, c_scale=c_scale, c_zero_point=c_zero_point)
    return rescale(products, *others.values(), dtype=a.dtype)


def qlinear_concat(*, inputs: Sequence[Array], axis: int) -> Array:
    """`inputs`: the scale and the zero point of the output, then of each part integers, their scale and zero point."""
    (scale, zero_point), rest = inputs[:2], inputs[2:]
    if not rest or len(rest) % 3:
        rule = "inputs must be three for each part, integers, a scale and a zero point"
        raise ConstraintError(f"{rule}, but there are {len(rest)}")
    of_output, dtype = numbers(y_scale=scale, y_zero_point=zero_point), zero_point.dtype
    parts = [_part(rest[n : n + 3], n // 3, of_output, dtype) for n in range(0, len(rest), 3)]
    return concat(inputs=tuple(parts), axis=axis)


def _part(given: Sequence[Array], which: int, of_output: Mapping[str, Any], dtype: Any) -> jax.Array:
    q, scale, zero_point = given
    if [operand.dtype for operand in given] != [dtype, np.float32, dtype]:
        rule = f"part {which} must be {dtype}, as y_zero_point is, with a float32 and a {dtype}"
        raise DataTypeError(f"{rule}, but it is {q.dtype} with {scale.dtype} and {zero_point.dtype}")
    of_part = numbers(**{f"the scale of part {which}": scale, f"the zero point of part {which}": zero_point})
    return quantize(dequantize(on_device(q), *of_part.values()), *of_output.values(), dtype=dtype)


def qlinear_where(
    *, condition: Array, x: Array, y: Array, z_scale: Array, z_zero_point: Array, **of_terms: Array
) -> jax.Array:
    of_z = numbers(z_scale=z_scale, z_zero_point=z_zero_point).values()
    terms = []
    for name, q in (("x", x), ("y", y)):
        of_term = numbers(**{key: of_terms[key] for key in (f"{name}_scale", f"{name}_zero_point")}).values()
        terms.append(quantize(dequantize(on_device(q), *of_term), *of_z, dtype=q.dtype))
    return jnp.where(*jnp.broadcast_arrays(on_device(condition), *terms))


def _requantize(function: Callable[..., Any]) -> Callable[..., jax.Array]:
    """Returns the quantised form of a function on floats: dequantises, computes, requantises."""

    def requantized(
        *,
        x: Array,
        x_scale: Array,
        x_zero_point: Parameter = None,
        y_scale: Array,
        y_zero_point: Parameter = None,
        **attributes: Any,
    ) -> jax.Array:
        real = dequantize(on_device(x), *numbers(x_scale=x_scale, x_zero_point=x_zero_point).values())
        of_y = numbers(y_scale=y_scale, y_zero_point=y_zero_point)
        return quantize(function(x=real, **attributes), *of_y.values(), dtype=x.dtype)

    return requantized


def _in_channels_last(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function of (N, C, ...) arrays with a `channels_last` option, for (N, ..., C)."""

    def either(*, x: jax.Array, channels_last: int = 0, **attributes: Any) -> Any:
        if not channels_last or x.ndim < 3:
            return function(x=x, **attributes)
        return jnp.moveaxis(function(x=jnp.moveaxis(x, -1, 1), **attributes), 1, -1)

    return either


def _softmax(*, x: jax.Array, opset: int, axis: int) -> jax.Array:
    """QLinearSoftmax, by Softmax of version `opset`."""
    versions = activations.OPERATORS["Softmax"]
    if opset < min(versions):
        raise ConstraintError(f"opset must be at least {min(versions)}, but it is {opset}")
    return versions[max(version for version in versions if version <= opset)](axis=axis, input=x)


qlinear_average_pool, qlinear_global_average_pool = (
    _requantize(_in_channels_last(pool)) for pool in (average_pool, global_average_pool)
)


# Convolutions, of the windows of `conv`.


def conv_integer(
    *, x: Array, w: Array, x_zero_point: Parameter = None, w_zero_point: Parameter = None, group: int = 1, **steps: Any
) -> jax.Array:
    windows = filter_windows(x, w, group=group, **steps)
    (zero_of_x,) = numbers(x_zero_point=x_zero_point).values()
    zero_of_w = _of_filters("w_zero_point", w_zero_point, w)
    filters: Any = w  # NumPy's stay there, which makes their sums
    return convolve_integers(on_device(x), zero_of_x, filters, zero_of_w, windows, group)


def qlinear_conv(
    *,
    x: Array,
    x_scale: Array,
    x_zero_point: Array,
    w: Array,
    w_scale: Array,
    w_zero_point: Array,
    y_scale: Array,
    y_zero_point: Array,
    b: Array | None = None,
    group: int = 1,
    **steps: Any,
) -> jax.Array:
    windows = filter_windows(x, w, group=group, **steps)
    check_bias(b, w.shape[0])
    of_x = numbers(x_scale=x_scale, x_zero_point=x_zero_point).values()
    filters: Any = w  # NumPy's stay there, which makes their sums
    of_filters = (
        _of_filters(name, parameter, w) for name, parameter in (("w_scale", w_scale), ("w_zero_point", w_zero_point))
    )
    bias = None if b is None else on_device(b).reshape(1, -1, *(1,) * len(windows))
    of_y = numbers(y_scale=y_scale, y_zero_point=y_zero_point).values()
    operands: tuple[Any, ...] = (on_device(x), *of_x, filters, *of_filters, bias, *of_y)
    return convolve_quantized(*operands, windows=windows, groups=group, dtype=y_zero_point.dtype)


def _nhwc_max_pool(*, x: Array, **attributes: Any) -> Any:
    return _in_channels_last(max_pool)(x=on_device(x), channels_last=1, **attributes)


def _of_filters(name: str, parameter: Parameter, w: Array) -> Any:
    return along(name, parameter, (1, w.shape[0], *(1,) * (w.ndim - 2)), 1)


OPERATORS: Operators = {
    "ConvInteger": {10: conv_integer},
    "DynamicQuantizeLinear": {11: dynamic_quantize_linear},
    "QLinearConv": {10: qlinear_conv},
    "com.microsoft::NhwcMaxPool": {1: _nhwc_max_pool},
    "com.microsoft::QLinearAdd": {1: qlinear_add},
    "com.microsoft::QLinearAveragePool": {1: qlinear_average_pool},
    "com.microsoft::QLinearConcat": {1: qlinear_concat},
    "com.microsoft::QLinearConv": {1: _in_channels_last(qlinear_conv)},
    "com.microsoft::QLinearGlobalAveragePool": {1: qlinear_global_average_pool},
    "com.microsoft::QLinearLeakyRelu": {1: _requantize(activation("LEAKY_RELU", "alpha"))},
    "com.microsoft::QLinearMul": {1: qlinear_mul},
    "com.microsoft::QLinearSigmoid": {1: _requantize(activation("SIGMOID"))},
    "com.microsoft::QLinearSoftmax": {1: _requantize(_softmax)},
    "com.microsoft::QLinearWhere": {1: qlinear_where},
}

_BYTES = "int8 uint8"
_TERMS = "A T, A_scale tensor(float), A_zero_point? T, B T, B_scale tensor(float), B_zero_point? T"
_X = "X T, x_scale tensor(float), x_zero_point? T, y_scale tensor(float), y_zero_point? T"
_WINDOWS = {
    "auto_pad": "NOTSET",
    "ceil_mode": 0,
    "kernel_shape": required("INTS"),
    "pads": optional("INTS"),
    "strides": optional("INTS"),
}
SCHEMAS = (
    schema("NhwcMaxPool", "x T", "y T", _WINDOWS | {"dilations": optional("INTS")}, T=_BYTES),
    *(
        schema(name, f"{_TERMS}, C_scale tensor(float), C_zero_point? T", "C T", T=_BYTES)
        for name in ("QLinearAdd", "QLinearMul")
    ),
    schema(
        "QLinearAveragePool",
        _X,
        "Y T",
        _WINDOWS | {"channels_last": 0, "count_include_pad": 0},
        T=_BYTES,
    ),
    schema(
        "QLinearConcat",
        "Y_scale TF, Y_zero_point T8, inputs~ TV",
        "Y T8",
        {"axis": required("INT")},
        T8=_BYTES,
        TF="float",
        TV=f"float {_BYTES}",
    ),
    schema(
        "QLinearConv",
        "x T1, x_scale tensor(float), x_zero_point T1, w T2, w_scale tensor(float), w_zero_point T2, "
        "y_scale tensor(float), y_zero_point T3, B? T4",
        "y T3",
        CONV_ATTRIBUTES | {"channels_last": 0},
        T1=_BYTES,
        T2=_BYTES,
        T3=_BYTES,
        T4="int32",
    ),
    schema("QLinearGlobalAveragePool", _X.replace("?", ""), "Y T", {"channels_last": 0}, T=_BYTES),
    schema("QLinearLeakyRelu", _X, "Y T", {"alpha": 0.01}, T=_BYTES),
    schema("QLinearSigmoid", _X, "Y T", T=_BYTES),
    schema(
        "QLinearSoftmax",
        _X.replace("y_zero_point?", "y_zero_point"),
        "Y T",
        {"axis": -1, "opset": required("INT")},
        T=_BYTES,
    ),
    schema(
        "QLinearWhere",
        "condition B, X T, x_scale TF, x_zero_point T, Y T, y_scale TF, y_zero_point T, z_scale TF, z_zero_point T",
        "Z T",
        B="bool",
        T=_BYTES,
        TF="float",
    ),
)
