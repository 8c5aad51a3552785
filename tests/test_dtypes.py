"""Every operator takes each type that its docstring promises, and refuses the others by name."""

import inspect

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from catalogue_cases import CASES, ORACLES, WITHOUT_EFFECT
from checks import assert_is, assert_same_bits, spread, together

import dml_jax
from dml_jax import Activation, DataTypeError
from dml_jax.catalogue import FUNCTIONS
from dml_jax.core.arguments.arrays import UNCOMPILED

pytestmark = pytest.mark.device

INTEGERS = [f"{sign}int{bits}" for bits in (2, 4, 8, 16, 32, 64) for sign in ("", "u")]
FLOATS = [
    "float4_e2m1fn",
    *(name for name in dir(ml_dtypes) if name.startswith("float8_")),
    "bfloat16",
    "float16",
    "float32",
    "float64",
]
REALS = [*INTEGERS, *FLOATS]
NUMBERS = ["bool", *REALS, "complex64", "complex128"]


def with_zero(names):
    return [name for name in names if name != "float8_e8m0fnu"]


# Phrases of the docstrings, the longest first, and the types that they mean.
PROMISES = {
    "floats of any width, with 0 among them": with_zero(FLOATS),
    "floats of any width": FLOATS,
    "any dtype of numbers that have an order, with 0 among them": with_zero(["bool", *REALS]),
    "any dtype of numbers that have an order": ["bool", *REALS],
    "any dtype of numbers with 0 among them": with_zero(NUMBERS),
    "any dtype of real numbers": REALS,
    "any dtype of numbers": NUMBERS,
    "any dtype that has a zero": with_zero(NUMBERS),
    "dtype that JAX moves": NUMBERS,
    "of the output, integers or floats": REALS,
    "of the output, with 0 among its numbers": with_zero(NUMBERS),
    "of the output: an argument of numpy.dtype": NUMBERS,
    "(6,) of uint32": ["uint32"],
}


def promised(function):
    text = " ".join(inspect.getdoc(function).split())
    return next(types for phrase, types in PROMISES.items() if phrase in text)


def retyped(case, dtype):
    """The call with 0, 1, 2, 0, ... of another type in place of its floats, and 1 in place of numbers of that type."""
    arrays = [np.arange(a.size).reshape(a.shape) % 3 for a in case.leaves]
    leaves = [
        x.astype(dtype) if i in case.floats else a for i, (x, a) in enumerate(zip(arrays, case.leaves, strict=True))
    ]
    given = jax.tree.unflatten(jax.tree.structure([*case.arrays.values()]), leaves)
    of_type = {"dtype": dtype, **dict.fromkeys(("value", "start", "delta", "min", "max"), 1)}
    static = {name: value for name, value in of_type.items() if name in case.static}
    return case.changed(**dict(zip(case.arrays, given, strict=True)), **static)


def expected(name, case, dtype):
    """The result of the loop over elements; sub-byte integers are computed as 8-bit ones."""
    is_short = dtype.name in INTEGERS and jnp.iinfo(dtype).bits < 8
    known = (retyped(case, np.dtype(np.int8)) if is_short else case).arguments
    made = ORACLES[name](**{name: value for name, value in known.items() if name not in WITHOUT_EFFECT})
    return jax.tree.map(lambda y: y.astype(dtype) if y.dtype == np.int8 else y, made) if is_short else made


def gradient(case, floats):
    """A function of all arrays of a call: the gradient, in some of them, of the sum of what floats it returns."""

    def function(*leaves):
        def of_floats(*given):
            taken = iter(given)
            results = case(*(next(taken) if i in floats else a for i, a in enumerate(leaves)))
            return [y for y in jax.tree.leaves(results) if jnp.issubdtype(y.dtype, jnp.inexact)]

        results, back = jax.vjp(of_floats, *(leaves[i] for i in floats))
        return back(jax.tree.map(jnp.ones_like, results))

    return function


@pytest.mark.parametrize(("name", "which"), spread(NUMBERS, NUMBERS, 28))
def test_every_operator_takes_what_its_docstring_promises(name, which):
    """Each in one type, with --exhaustive in all: the result, and the gradient, which has the type as well."""
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    with jax.enable_x64(dtype.itemsize > 4):
        cases = {one: retyped(CASES[one], dtype) for one in [*FUNCTIONS][which] if name in promised(FUNCTIONS[one])}
        floats = {one: CASES[one].floats for one in cases if jnp.issubdtype(dtype, jnp.inexact) and CASES[one].floats}
        made = dict(zip(cases, together([(case, *case.leaves) for case in cases.values()]), strict=True))
        gradients = together([(gradient(cases[one], floats[one]), *cases[one].leaves) for one in floats])
    for one, case in cases.items():
        if name != "float8_e8m0fnu" or (case.is_linear and not case.is_weighted):  # few results are powers of two
            assert_is(made[one], expected(one, case, dtype), case.arrays.get("input"))
    for one, found in zip(floats, gradients, strict=True):
        assert [(x.shape, x.dtype) for x in found] == [(cases[one].leaves[i].shape, dtype) for i in floats[one]]


@pytest.mark.parametrize("name", [name for name, function in FUNCTIONS.items() if promised(function) != NUMBERS])
def test_every_operator_refuses_what_its_docstring_does_not_promise(name):
    for other in (other for other in NUMBERS if other not in promised(FUNCTIONS[name])):
        dtype = np.dtype(getattr(ml_dtypes, other, other))
        with jax.enable_x64(dtype.itemsize > 4):
            case = retyped(CASES[name], dtype)
            leaves = case.leaves if CASES[name].floats else [np.ones(x.shape).astype(dtype) for x in case.leaves]
            with pytest.raises(DataTypeError, match=other):
                jax.eval_shape(case, *leaves)


# Types of 64 bits.


@pytest.mark.parametrize("name", [name for name, function in FUNCTIONS.items() if "float64" in promised(function)])
def test_64_bit_data_needs_x64(name):
    """JAX would narrow it."""
    case = retyped(CASES[name], np.dtype(np.float64))
    with pytest.raises(DataTypeError, match=r"(of type float64|of 64 bits) needs 64-bit types, but jax_enable_x64 is"):
        case(*case.leaves)


# What float32 does not hold beside 1: a call of it, and the result.
SMALL = 2.0**-40
IDENTITY = Activation("ACTIVATION_IDENTITY")
IN_FLOAT64 = {
    "activate": (lambda x: dml_jax.activate(1 + x, IDENTITY), 1 + SMALL),
    "average_pooling": (lambda x: dml_jax.average_pooling(np.append(1, 1 + x), (2,)), 1 + SMALL / 2),
    "convolution": (lambda x: dml_jax.convolution(3 * np.ones((1, 1, 1)), 1 + x, 1 + x[0, 0]), 4 + 4 * SMALL),
    "gemm": (lambda x: dml_jax.gemm(1 + x[0], 3 * np.ones((1, 1)), 1 + x[0], beta=0.5), 3.5 + 3.5 * SMALL),
    "lp_pooling": (lambda x: dml_jax.lp_pooling(np.append(1, 2.0**20 * x), (2,)), 1 + SMALL / 2),
    "rnn": (
        lambda x: dml_jax.rnn(np.tile(1 + x, (2, 1, 1)), 1 + 0 * x, 2 + 0 * x, activations=[IDENTITY])[1],
        3 + 3 * SMALL,
    ),
    "value_scale_2d": (lambda x: dml_jax.value_scale_2d(1 + x, 3, (0.5,)), 3.5 + 3 * SMALL),
}


@pytest.mark.parametrize(("call", "expected"), IN_FLOAT64.values(), ids=IN_FLOAT64)
def test_64_bit_floats_are_computed_as_such(call, expected):
    with jax.enable_x64(True):
        made = call(np.full((1, 1, 1), SMALL))
    assert_same_bits(np.ravel(made), np.float64([expected]))


# Types that XLA does not compile.


@pytest.mark.parametrize("name", sorted(UNCOMPILED))
def test_types_that_xla_does_not_compile(name):
    """It refuses them, or ends the process; releases of JAX before 0.12 have some not at all."""
    match = f"dtype must be a type that (XLA compiles programs of|JAX has).*, but it is '?{name}"
    with pytest.raises(DataTypeError, match=match):
        dml_jax.gather(np.ones(3, getattr(ml_dtypes, name)), np.int32([0]), 0)
    with pytest.raises(DataTypeError, match=match):
        dml_jax.cast(np.ones(3, np.float32), name)


def test_arrays_of_jax_that_xla_does_not_compile():
    x = jnp.zeros(3, "int1")
    for call in (dml_jax.identity, jax.jit(lambda x: dml_jax.join([x, x], 0)), jax.vmap(lambda x: dml_jax.tile(x, ()))):
        with pytest.raises(DataTypeError, match="dtype must be a type that XLA compiles programs of, but it is int1"):
            call(x)
