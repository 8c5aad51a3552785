"""Traced scalar arguments, such as fill values: type of the data, and derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from catalogue_cases import CASES
from checks import assert_same_bits
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import dml_jax
from dml_jax import ConstraintError, DataTypeError
from dml_jax.catalogue import FUNCTIONS

NUMBERS = [
    (name, p) for name, f in FUNCTIONS.items() for p, kind in f.kinds.items() if kind.is_array and not kind.is_shown
]
# What makes an operator read its number, and of clip what makes each element a bound.
READ = {("clip", "min"): {"input": np.zeros((2, 3), np.float32), "max": None}}
READ |= {("clip", "max"): {"input": np.full((2, 3), 9, np.float32), "min": None}}
READ |= {("pad", "value"): {"mode": "constant"}}
READ |= {("fill_value_sequence", "start"): {"delta": 2}, ("fill_value_sequence", "delta"): {"start": 1}}
READ |= {(name, "fill_value"): {"mode": "fill"} for name in ("gather", "gather_elements", "gather_nd")}
every_number = pytest.mark.parametrize(("name", "argument"), NUMBERS)


def test_these_are_all_of_the_catalogue():
    assert {name for name, _ in NUMBERS} == {
        "clip",
        "diagonal_matrix",
        "fill_diagonals",
        "fill_value_constant",
        "fill_value_sequence",
        "gather",
        "gather_elements",
        "gather_nd",
        "pad",
    }


def call_of(name, argument, dtype):
    """The call of an operator, on data of a type, as a function of one number."""
    arguments = CASES[name].arguments | READ.get((name, argument), {})
    if "input" in arguments:
        arguments["input"] = np.abs(arguments["input"]).astype(dtype)
    else:
        arguments["dtype"] = dtype
    return lambda number: FUNCTIONS[name](**arguments | {argument: number})


@pytest.mark.thinned(15)
@every_number
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "uint8", "int32"])
def test_a_traced_number_is_the_number(name, argument, dtype):
    call, numbers = call_of(name, argument, dtype), np.arange(4).astype(jnp.dtype(dtype))
    expected = [call(number) for number in range(4)]
    assert any(not np.array_equal(expected[0], one) for one in expected)
    assert_same_bits(jax.jit(call)(numbers[3]), expected[3])
    assert_same_bits(jax.jit(jax.vmap(call))(numbers), jnp.stack(expected))


@pytest.mark.thinned(6)
@every_number
def test_a_traced_number_of_python_is_no_weak_type(name, argument):
    call = call_of(name, argument, "float32")
    result = jax.jit(call)(3.0)
    assert_same_bits(result, call(3))
    assert not result.weak_type


@pytest.mark.thinned(6)
@every_number
def test_derivatives_of_what_is_linear_in_the_number(name, argument):
    call = call_of(name, argument, "float32")
    slope = np.asarray(call(2)) - np.asarray(call(1))
    weights = np.random.default_rng(5).integers(-9, 9, slope.shape).astype(np.float32)
    one, total = np.float32(1), (slope * weights).sum()
    assert_same_bits(jax.jit(jax.jvp, static_argnums=0)(call, (one,), (one,))[1], slope)
    gradient = jax.grad(lambda number: (call(number) * weights).sum())
    for derivative in (gradient, jax.jit(gradient)):
        assert_same_bits(derivative(one), total)
    assert_same_bits(jax.grad(lambda number: gradient(number) * number)(one), total)


LONG = {
    "pad": lambda number: dml_jax.pad(jnp.zeros(3, number.dtype), (4000,), (96,), value=number),
    "gather": lambda number: dml_jax.gather(
        jnp.zeros(3, number.dtype), np.full(4096, 7), 0, mode="fill", fill_value=number
    ),
    "fill_value_constant": lambda number: dml_jax.fill_value_constant((64, 64), number, number.dtype),
    "fill_diagonals": lambda number: dml_jax.fill_diagonals(
        jnp.zeros((64, 64), number.dtype), begin=-64, end=64, value=number
    ),
}


@pytest.mark.thinned
@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_gradient_is_rounded_once(name, dtype):
    """Added up in so few bits, 4096 ones would be 2048 or 256."""
    number = jnp.ones((), dtype)
    assert jax.jit(jax.grad(lambda number: LONG[name](number).astype(jnp.float32).sum()))(number) == 4096


def test_a_small_gradient_of_a_border_is_not_lost_beside_large_ones():
    weights = np.float32([1, 1e9, np.inf, 2])
    x = np.float32([0, 0])
    gradient = jax.grad(lambda value, x: (dml_jax.pad(x, (1,), (1,), value=value) * weights).sum(), (0, 1))
    of_value, of_x = gradient(np.float32(1), x + 1)
    assert of_value == 3
    assert_same_bits(of_x, weights[1:3])


def test_on_an_explicit_mesh():
    mesh = jax.make_mesh((2,), ("d",), devices=jax.devices("cpu")[:2])
    x = np.float32([[1, 2], [3, 4]])
    with jax.set_mesh(mesh):
        sharded = jax.device_put(x, NamedSharding(mesh, P("d")))
        padded = jax.jit(lambda x, value: dml_jax.pad(x, (0, 1), (0, 0), value=value))(sharded, 7.0)
        gradient = jax.jit(jax.grad(lambda value: dml_jax.pad(sharded, (0, 1), (0, 0), value=value).sum()))(7.0)
    assert_same_bits(padded, np.pad(x, ((0, 0), (1, 0)), constant_values=7))
    assert gradient == 2


@pytest.mark.thinned(12)
@every_number
@pytest.mark.parametrize("number", [np.int8(1), np.float64(1), np.ones(1, np.float32), jax.random.key(0)], ids=repr)
def test_another_traced_array_is_refused(name, argument, number):
    call = call_of(name, argument, "float32")
    with jax.enable_x64(True), pytest.raises(DataTypeError, match=r"it is traced, .*, and no scalar of float32"):
        jax.jit(call)(number)


def test_a_traced_number_without_its_mode_is_refused():
    x = np.float32([1, 2])
    with pytest.raises(ConstraintError, match='fill_value needs mode="fill"'):
        jax.jit(lambda number: dml_jax.gather(x, [0], 0, fill_value=number))(0.0)
    with pytest.raises(ConstraintError, match='value needs mode="constant"'):
        jax.jit(lambda number: dml_jax.pad(x, (1,), (1,), mode="edge", value=number))(0.0)
