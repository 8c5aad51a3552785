"""ONNX's Einsum and Det: against ONNX Runtime, and against NumPy in float64."""

import jax
import ml_dtypes
import numpy as np
import pytest
from checks import sampled
from jax.test_util import check_grads
from onnx_building import helper, model, runtime

from dml_jax.onnx import OnnxError, run_node, to_jax

EQUATIONS = {
    "ij,jk->ik": [(3, 4), (4, 5)],
    "ij , jk -> k i": [(3, 4), (4, 5)],
    "...ij,...jk->...ik": [(2, 3, 4), (2, 4, 5)],
    "bij,bjk->bik": [(1, 3, 4), (2, 4, 5)],
    "ii->i": [(3, 3)],
    "bii->b": [(2, 3, 3)],
    "ba": [(3, 4)],
    "ij->": [(3, 4)],
    "i,j,k->ijk": [(2,), (3,), (4,)],
    "ij,jk,kl->il": [(3, 4), (4, 5), (5, 2)],
    "bhqd,bhkd->bhqk": [(2, 3, 4, 5), (2, 3, 6, 5)],
}


def numbers(*shape, seed=0, dtype=np.float32):
    return (np.random.default_rng(seed).standard_normal(shape) * 3).astype(dtype)


def einsum_of(equation, inputs):
    return helper.make_node("Einsum", [f"x{i}" for i in range(len(inputs))], ["y"], equation=equation)


@pytest.mark.parametrize("equation", sampled(EQUATIONS, ["bij,bjk->bik"]))
def test_einsum_is_that_of_onnx_runtime(equation):
    inputs = [numbers(*shape, seed=i) for i, shape in enumerate(EQUATIONS[equation])]
    node = einsum_of(equation, inputs)
    named = dict(zip(node.input, inputs, strict=True))
    (wanted,) = runtime(model([node], named, ["y"], opset=12), named)
    (y,) = run_node(node, inputs, opset=12)
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    "dtype", sampled([np.int8, np.int32, np.float16, ml_dtypes.bfloat16, np.float64], [np.float16])
)
def test_einsum_of_every_type(dtype):
    """Integers wrap; narrow floats are rounded once, after both products."""
    inputs = [numbers(*shape, seed=i, dtype=dtype) for i, shape in enumerate(EQUATIONS["ij,jk,kl->il"])]
    with jax.enable_x64(True):
        (y,) = run_node(einsum_of("ij,jk,kl->il", inputs), inputs)
    assert y.dtype == dtype
    if np.dtype(dtype).kind == "i":
        np.testing.assert_array_equal(y, np.linalg.multi_dot([x.astype(np.int64) for x in inputs]).astype(dtype))
        return
    step = float(ml_dtypes.finfo(dtype).eps)
    exact = np.linalg.multi_dot([x.astype(np.float64) for x in inputs])
    np.testing.assert_allclose(
        y, exact, rtol=0.51 * step if step > 1e-6 else 1e-13, atol=1e-4 if step > 1e-6 else 1e-12
    )


@pytest.mark.exhaustive
def test_einsum_has_derivatives():
    inputs = [numbers(3, 4), numbers(4, 5, seed=1)]
    named = {"x0": inputs[0], "x1": inputs[1]}
    function = to_jax(model([einsum_of("ij,jk->i", inputs)], named, ["y"]))
    check_grads(jax.jit(function), inputs, 1, modes=["rev"], eps=1e-1, atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize(
    ("equation", "shapes", "message"),
    [
        ("ij,jk->ik", [(3, 4)], "equation must have 1 terms, one per input, but it is 'ij,jk->ik'"),
        ("i!->i", [(3, 3)], "equation must be of letters, commas, ellipses and at most one arrow"),
        ("i->i->i", [(3,)], "equation must be of letters, commas, ellipses and at most one arrow"),
        ("ij,jk->ik", [(3, 4), (5, 5)], "Einsum node #0: "),
        ("ij->ijk", [(3, 4)], "Einsum node #0: "),
        ("ijk->i", [(3, 4)], "Einsum node #0: "),
    ],
)
def test_equations_that_do_not_fit(equation, shapes, message):
    inputs = [np.zeros(shape, np.float32) for shape in shapes]
    with pytest.raises(OnnxError) as caught:
        run_node(einsum_of(equation, inputs), inputs)
    assert message in str(caught.value)


@pytest.mark.exhaustive
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 3, 4, 4)])
def test_det_is_that_of_onnx_runtime(shape):
    node, x = helper.make_node("Det", ["x"], ["y"]), numbers(*shape)
    (wanted,) = runtime(model([node], {"x": x}, ["y"], opset=11), {"x": x})
    (y,) = run_node(node, [x], opset=11)
    np.testing.assert_allclose(y, wanted, rtol=1e-4)
    np.testing.assert_allclose(y, np.linalg.det(x.astype(np.float64)), rtol=1e-4)


def test_det_of_what_is_no_square():
    with pytest.raises(OnnxError, match=r"x must be square matrices, but its shape is \(2, 3\)"):
        run_node(helper.make_node("Det", ["x"], ["y"]), [np.zeros((2, 3), np.float32)])
