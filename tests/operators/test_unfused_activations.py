"""Activation operators that no other operator fuses. tests/test_activations.py has the formulas."""

import jax
import numpy as np
import pytest
from activation_cases import activated
from activation_structs import make, struct_of
from checks import assert_close, assert_same_bits, exported
from operator_cases import Example, f32
from small_arrays import numbered

import dml_jax
from dml_jax import Activation, ConstraintError, activate, reduce
from dml_jax.catalogue import STRUCTS as CLASSES
from dml_jax.core.structs.activation_table import ACTIVATIONS

pytestmark = pytest.mark.device

LONG = {"effective_rank": dict.fromkeys(("input", "output"), f32(1, 2, 1, 3))}
TWICE = {"axes_within(axes)": {"axes": (1, 1)}}
AXES = [((3,),), ((1, 2),)]
# DirectML's documented input, and what it documents of HARDMAX1. The page of LOG_SOFTMAX1 repeats these outputs.
X = [12, 0, -101, 11, 3, 234, 0, -101]
HARDMAX1 = {(1,): [1, 0, 0, 1, 1, 1, 0, 0], (0,): [1, 0, 0, 1, 0, 1, 1, 0], (0, 2): [0, 0, 0, 1, 0, 1, 0, 0]}
# Of NumPy's float64 numbers.
LOG_SOFTMAX1 = {
    (1,): [0, -11.000017, -113, -0.000017, -0.048587, 0, -3.048587, -335],
    (0,): [-0.000123, -234, -101, 0, -9.000123, 0, 0, -112],
    (0, 2): [-222, -234, -112.000017, -0.000017, -231, 0, -11.000017, -112.000017],
}


def documented(name, outputs):
    cube = f32(2, 2, 2)
    return tuple(Example(make(name, cube, cube, (axes,)), [X], [output]) for axes, output in outputs.items())


def marked(desc, x):
    """Zeros and ones are exact in every type."""
    return activated(x, desc.activation)


STRUCTS = (
    struct_of("ACTIVATION_HARDMAX", [()], breaks=LONG, units=None, expected=marked),
    struct_of(
        "ACTIVATION_HARDMAX1",
        AXES,
        breaks=TWICE,
        units=None,
        expected=marked,
        examples=documented("ACTIVATION_HARDMAX1", HARDMAX1),
    ),
    struct_of("ACTIVATION_HARD_SWISH", [(0.25, 0.5), (-0.2, 0.3)]),
    struct_of("ACTIVATION_LOG_SOFTMAX", [()], breaks=LONG),
    struct_of("ACTIVATION_LOG_SOFTMAX1", AXES, breaks=TWICE),
    struct_of("ACTIVATION_SWISH", [(1,), (-0.5,), (2,)]),
)


def test_none_is_a_name_of_the_package():
    names = {type(struct.desc).__name__ for struct in STRUCTS}
    assert not names & {*dir(dml_jax)}
    assert {struct.name for struct in STRUCTS} == {name for name, row in ACTIVATIONS.items() if row.hosts == ()}


def test_what_executes_in_place():
    along = ("MAX", "MAX1")
    assert all(CLASSES[one.name].in_place != one.name.endswith(along) for one in STRUCTS)


@pytest.mark.parametrize("axes", LOG_SOFTMAX1)
def test_log_softmax_of_the_documented_input(axes):
    made = make("ACTIVATION_LOG_SOFTMAX1", f32(2, 2, 2), f32(2, 2, 2), (axes,)).compute(np.float32(X).reshape(2, 2, 2))
    np.testing.assert_allclose(made.ravel(), LOG_SOFTMAX1[axes], rtol=1e-6, atol=1e-6)


def test_the_first_of_equal_numbers_counts():
    """Along several dimensions too, in whatever order they are named."""
    x = np.float32([[[3, 5], [5, 1]], [[5, 5], [2, 2]]])
    for axes in ((2,), (1, 2), (2, 1), (0, 2), (0, 1, 2)):
        hardmax = Activation("ACTIVATION_HARDMAX1", (axes,))
        assert_same_bits(activate(x, hardmax), activated(x, hardmax))


def test_hardmax_of_nan_and_infinities():
    """A NaN is the greatest number, as everywhere here."""
    x = np.float32([[np.nan, np.inf, 1], [-np.inf, -np.inf, -np.inf], [2, np.inf, np.nan]])
    assert_same_bits(activate(x, Activation("ACTIVATION_HARDMAX")), np.float32([[1, 0, 0], [1, 0, 0], [0, 0, 1]]))


@pytest.mark.parametrize("name", ["HARDMAX", "LOG_SOFTMAX"])
def test_empty_arrays(name):
    activation = Activation(f"ACTIVATION_{name}")
    assert [activate(np.zeros(sizes, np.float32), activation).shape for sizes in ((0, 3), (3, 0))] == [(0, 3), (3, 0)]


@pytest.mark.parametrize("name", ["ACTIVATION_SOFTMAX", "ACTIVATION_LOG_SOFTMAX", "ACTIVATION_HARDMAX"])
def test_large_numbers_that_are_computed_before(name):
    """Their mean may be fused with what is computed of it, and rounded otherwise than in the maximum."""
    x = np.full((1000, 169), 9.4756894e9, np.float32)
    wanted = activated(np.ones((1, 1000)), Activation(name))
    made = jax.jit(lambda x: activate(reduce(x, "average", (1,)).reshape(1, 1000), Activation(name)))(x)
    np.testing.assert_allclose(made, wanted, rtol=1e-5)


def test_derivatives():
    """Those of hardmax are 0."""
    x = numbered((2, 3)) / 8
    weights = np.float32([[1, -2, 3], [0.5, 4, -1]])

    def gradient(name, *parameters):
        return jax.jit(jax.grad(lambda x: (activate(x, Activation(name, parameters)) * weights).sum()))(x)

    share = activated(x.astype(np.float64), Activation("ACTIVATION_SOFTMAX"))
    assert_same_bits(gradient("ACTIVATION_HARDMAX"), np.zeros_like(x))
    assert_close(gradient("ACTIVATION_LOG_SOFTMAX"), weights - share * weights.sum(1, keepdims=True), units=16)
    sigmoid = 1 / (1 + np.exp(-2 * x.astype(np.float64)))
    assert_close(gradient("ACTIVATION_SWISH", 2), weights * (sigmoid + 2 * x * sigmoid * (1 - sigmoid)), units=16)


def test_vmap_and_symbolic_sizes():
    hardmax = Activation("ACTIVATION_HARDMAX1", ((0, 1),))
    batch = np.random.default_rng(0).integers(0, 4, (2, 3, 4)).astype(np.float32)
    mapped = jax.jit(jax.vmap(lambda x: activate(x, hardmax), in_axes=1, out_axes=1))(batch)
    for i in range(3):
        assert_same_bits(mapped[:, i], activated(batch[:, i], hardmax))
    call = exported(lambda x: activate(x, hardmax), "n, m").call
    assert_same_bits(call(batch[0]), activated(batch[0], hardmax))


def test_no_operator_is_fused_with_them():
    gemm = CLASSES["GEMM"]
    with pytest.raises(ConstraintError, match="it is ACTIVATION_SWISH, which is for no operator"):
        gemm(f32(1, 1, 2, 2), f32(1, 1, 2, 2), None, f32(1, 1, 2, 2), fused_activation=Activation("ACTIVATION_SWISH"))


def test_float16_is_computed_in_float32():
    x = np.linspace(-5, 5, 12, dtype=np.float16).reshape(3, 4)
    for activation in (Activation("ACTIVATION_LOG_SOFTMAX"), Activation("ACTIVATION_SWISH", (0.5,))):
        assert_close(activate(x, activation), activated(x.astype(np.float64), activation), units=8)
