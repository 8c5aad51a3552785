"""Products and convolutions of 16-bit floats multiply 16-bit floats, forward and backward, and add up float32.

GPUs have units for them that are many times as fast as those of float32. JAX and XLA would widen both operands as soon
as one of them is wider, such as the cotangent of a sum in float32.
"""

import re
from functools import partial

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import sampled
from onnx_building import helper

import dml_jax
from dml_jax.onnx import run_node


def node(operator, **attributes):
    """A node of ONNX as a function of its two inputs."""
    made = helper.make_node(operator, ["a", "b"], ["y"], **attributes)
    return lambda a, b: run_node(made, [a, b])[0]


def in_turn(a, b):
    return dml_jax.convolution(a, b, direction="backward", strides=2)


lax_convolution = partial(jax.lax.conv_general_dilated, window_strides=(1, 1), padding="VALID")
# The call, what JAX computes the same by, and the shapes.
CALLS = {
    "gemm": (dml_jax.gemm, jnp.matmul, (9, 40), (40, 7)),
    "gemm of a transpose": (partial(dml_jax.gemm, trans_b=True), lambda a, b: a @ b.T, (9, 40), (7, 40)),
    "convolution": (dml_jax.convolution, lax_convolution, (2, 8, 9, 9), (5, 8, 3, 3)),
    "groups": (
        partial(dml_jax.convolution, group_count=2),
        partial(lax_convolution, feature_group_count=2),
        *((2, 8, 9, 9), (6, 4, 3, 3)),
    ),
    "patches": (
        partial(dml_jax.convolution, strides=4),
        partial(jax.lax.conv_general_dilated, window_strides=(4, 4), padding="VALID"),
        *((2, 3, 9, 8), (5, 3, 4, 4)),
    ),
    "transposed convolution": (
        in_turn,
        lambda a, b: jax.lax.conv_transpose(
            a, b, (2, 2), "VALID", dimension_numbers=("NCHW", "OIHW", "NCHW"), transpose_kernel=True
        ),
        *((2, 8, 5, 5), (8, 4, 3, 3)),
    ),
    "MatMul": (node("MatMul"), jnp.matmul, (3, 9, 40), (40, 7)),
    "Einsum": (node("Einsum", equation="bij,bkj->bik"), partial(jnp.einsum, "bij,bkj->bik"), (3, 9, 40), (3, 7, 40)),
    "Conv": (node("Conv"), lax_convolution, (2, 8, 9, 9), (5, 8, 3, 3)),
}
HALVES = [np.float16, ml_dtypes.bfloat16]


def numbers(name, dtype):
    """The operands, and a cotangent."""
    call, _, *shapes = CALLS[name]
    rng = np.random.default_rng(len(name))
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    return a, b, rng.standard_normal(jax.eval_shape(call, a, b).shape).astype(dtype)


def gradients(function, a, b, cotangent):
    """The result, and the cotangents of both operands."""
    result, back = jax.vjp(function, a, b)
    return result, *back(cotangent)


@pytest.mark.parametrize("form", ["plain", "patches"])
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", CALLS)
def test_every_product_is_of_halves(name, dtype, form):
    with dml_jax.use_form(form):
        traced = jax.jit(partial(gradients, CALLS[name][0])).trace(*numbers(name, dtype))
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    products = re.findall(r"stablehlo\.(?:dot_general|convolution)\b.* : \(tensor<(.*)>, tensor<(.*)>\) ->", text)
    element = {"float16": "f16", "bfloat16": "bf16"}[np.dtype(dtype).name]
    assert len(products) >= 3
    assert {operand.split("x")[-1] for pair in products for operand in pair} == {element}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", sampled(CALLS, ["gemm", "convolution", "Einsum", "transposed convolution"]))
def test_results_and_derivatives_are_rounded_once(name, dtype):
    call, by_jax, *_ = CALLS[name]
    operands = numbers(name, dtype)
    found = jax.jit(partial(gradients, call))(*operands)
    with jax.enable_x64(True):
        exact = gradients(by_jax, *(x.astype(np.float64) for x in operands))
    half_a_step = 0.5 * float(jnp.finfo(dtype).eps)
    for own, expected in zip(found, exact, strict=True):
        assert own.dtype == dtype
        np.testing.assert_allclose(np.asarray(own, np.float64), expected, 1.01 * half_a_step, 1e-5)


@pytest.mark.parametrize("dtype", HALVES)
def test_the_cotangent_behind_an_activation_is_rounded_before(dtype):
    """A step more, as in jnp: it is no number of 16 bits, as the slope of tanh is none."""
    a, b, cotangent = numbers("gemm", dtype)
    tanh = dml_jax.Activation("ACTIVATION_TANH")
    found = jax.jit(partial(gradients, partial(dml_jax.gemm, activation=tanh)))(a, b, cotangent)
    with jax.enable_x64(True):
        wide = (x.astype(np.float64) for x in (a, b, cotangent))
        exact = gradients(lambda a, b: jnp.tanh(a @ b), *wide)
    for own, expected in zip(found, exact, strict=True):
        expected = np.asarray(expected)
        apart = np.linalg.norm(np.asarray(own, np.float64) - expected) / np.linalg.norm(expected)
        assert apart < float(jnp.finfo(dtype).eps)


def test_forward_mode_and_maps_go_through():
    """The derivative of a derivative, too, of both operands at once."""
    a, b, _ = numbers("gemm", np.float16)
    loss = lambda a, b: (dml_jax.gemm(a, b).astype(np.float32) ** 2).sum()  # noqa: E731
    along = lambda f: lambda *xs: jax.jvp(f, xs, (a, b))[1]  # noqa: E731
    found = jax.jit(along(along(loss)))(a, b)
    x, y = (v.astype(np.float64) for v in (a, b))
    # Along (a, b) from (a, b): the loss is |x y|**2 (1 + t)**4, whose second derivative at 0 is 12 |x y|**2.
    np.testing.assert_allclose(found, 12 * np.sum((x @ y) ** 2), rtol=3e-3)
    mapped = jax.vmap(jax.grad(loss), (0, None))(np.stack([a, 2 * a]), b)
    np.testing.assert_array_equal(mapped[1], jax.grad(loss)(2 * a, b))


@pytest.mark.parametrize("dtype", [*HALVES, ml_dtypes.float8_e4m3fn, np.float32])
def test_gpus_may_multiply_narrow_floats_as_tf32(dtype):
    """TF32 holds them exactly, but not float32. From cuDNN XLA gets no sums in float32 of anything narrower."""
    call, _, *shapes = CALLS["convolution"]
    zeros = [np.zeros(shape, dtype) for shape in shapes]
    cotangent = np.zeros(jax.eval_shape(call, *zeros).shape, dtype)
    text = jax.jit(partial(gradients, call)).trace(*zeros, cotangent).lower(lowering_platforms=("cuda",)).as_text()
    precisions = re.findall(r"stablehlo\.convolution.*precision (\w+)>, .*precision (\w+)>", text)
    assert len(precisions) == 3
    assert {each for pair in precisions for each in pair} == {"HIGHEST" if dtype is np.float32 else "HIGH"}
