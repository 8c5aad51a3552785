"""fill_value_sequence and FILL_VALUE_SEQUENCE: output.ravel()[i] = start + i * delta."""

from dataclasses import replace
from fractions import Fraction
from functools import partial

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import assert_same_bits, exported, refused_without_x64, together
from draws import dims
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from operator_cases import Call, Example, Struct, f32, u8
from oracles import coordinates
from refusals import refuses
from small_arrays import INTEGERS, SHAPES

from dml_jax import (
    ConstraintError,
    DataType,
    DataTypeError,
    FillValueSequenceDesc,
    TensorDesc,
    compile_operator,
    desc_from_json,
    desc_to_json,
    fill_value_sequence,
)

pytestmark = pytest.mark.device


def oracle(sizes, start, delta, dtype):
    """For numbers that wider types compute exactly: other tests say how the rest is rounded."""
    output, dtype = np.empty(sizes, dtype), np.dtype(dtype)
    for i, c in enumerate(coordinates(sizes)):
        exact = Fraction(start) + i * Fraction(delta)
        output[c] = np.float64(exact).astype(dtype) if dtype.kind not in "iu" else wrapped(int(exact), dtype)
    return output


def wrapped(number, dtype):
    """The low bits of an integer."""
    limits = np.iinfo(dtype)
    return (number - int(limits.min)) % 2**limits.bits + int(limits.min)


CASE = Call(fill_value_sequence, {}, {"sizes": (2, 3), "start": 3, "delta": 0.5, "dtype": np.dtype(np.float32)})
BREAKS = {
    "real(dtype)": {"dtype": np.dtype(bool), "start": 0, "delta": 1},
    "each_at_least(sizes, 0)": {"sizes": (2, -1)},
    "representable": {"sizes": (0, 2**61)},
}
VARIANTS = {
    "descending": {"start": 10, "delta": -2, "dtype": np.dtype(np.uint8)},
    "beyond the type": {"start": 100, "delta": 100, "dtype": np.dtype(np.int8)},
    "half": {"start": 2047, "dtype": np.dtype(np.float16)},
    "no dimension": {"sizes": ()},
}


# The struct.


def draw(rng):
    start, delta = (int(n) for n in rng.integers(0, 128, 2))
    return {"output": dims(rng, int(rng.integers(1, 9))), "value_start": start, "value_delta": delta}


DOCUMENTED = FillValueSequenceDesc(f32(1, 1, 1, 3), "FLOAT32", 3, 2)
BYTES = FillValueSequenceDesc(u8(1, 1, 2, 2), "UINT8", 10, np.int8(-2))
STRUCTS = (
    Struct(
        DOCUMENTED,
        breaks={
            "type_of(value_data_type, output)": {"value_data_type": DataType.INT32},
            "held(value_start, value_data_type)": {"value_start": 1e39},
            "held(value_delta, value_data_type)": {"value_delta": -1e39},
        },
        examples=(
            Example(DOCUMENTED, [], [[3, 5, 7]]),
            Example(BYTES, [], [[10, 8, 6, 4]]),
            Example(FillValueSequenceDesc(f32(1, 1, 1, 5), "FLOAT32", 3.2, 1.5), [], [[3.2, 4.7, 6.2, 7.7, 9.2]]),
        ),
        draw=draw,
        expected=lambda desc: oracle(desc.output.sizes, desc.value_start, desc.value_delta, desc.output.dtype),
    ),
)


def test_a_negative_delta_of_an_unsigned_type_is_bits_in_the_struct():
    """There the union holds a byte; a plain number must be one that the type holds."""
    assert desc_to_json(BYTES)["desc"]["ValueDelta"] == {"Int8": -2}
    assert desc_from_json(desc_to_json(BYTES)) == BYTES
    assert_same_bits(replace(BYTES, value_delta=254).compute(), BYTES.compute())
    with pytest.raises(DataTypeError, match="ValueDelta must be a number of ValueDataType, but UINT8 does not hold -2"):
        replace(BYTES, value_delta=-2)


@pytest.mark.parametrize(("name", "start", "delta"), [("INT64", -(2**62), 3 * 2**60), ("UINT64", 2**64 - 2, 1)])
def test_64_bit_integers(name, start, delta):
    """As words while x64 is off; they wrap too."""
    desc = FillValueSequenceDesc(TensorDesc(name, (2, 3), (1, 2)), name, start, delta)
    wanted = oracle((2, 3), start, delta, desc.output.dtype).T.ravel()
    assert_same_bits(np.asarray(compile_operator(desc)()).view(desc.output.dtype), wanted)
    with pytest.raises(DataTypeError, match="OutputTensor of 64 bits needs 64-bit types"):
        desc.compute()
    with jax.enable_x64(True):
        assert_same_bits(compile_operator(desc)(), wanted)
        assert_same_bits(np.asarray(desc.compute()).T.ravel(), wanted)


def test_float64_is_none_of_the_types_of_the_struct():
    with pytest.raises(DataTypeError, match=r"OutputTensor.DataType must be one of FLOAT32, .* but it is FLOAT64"):
        FillValueSequenceDesc(TensorDesc("FLOAT64", (3,)), "FLOAT64", 0, 1)


# Against the oracle.


def test_every_small_shape():
    """Row by row, whatever the number of dimensions."""
    shapes = [*SHAPES, (), (0,), (2, 0, 3), (1, 2) * 4]
    made = together((partial(fill_value_sequence, shape, 5, -3, np.int16),) for shape in shapes)
    for shape, result in zip(shapes, made, strict=True):
        assert_same_bits(result, oracle(shape, 5, -3, np.int16))


def test_an_empty_array_of_more_than_32_bits_count():
    shape = (0, 2**40, 2**10)
    assert fill_value_sequence(shape, 5, -3, np.int16).shape == shape


@pytest.mark.thinned(2)
@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda dtype: dtype.__name__)
def test_integers_wrap_around(dtype):
    """Also where the number of an element does not fit the type."""
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    with jax.enable_x64(True):
        for start, delta in ((low, 1), (high, 1), (high, high), (low, high - 5), (0, 3)):
            assert_same_bits(fill_value_sequence((300,), start, delta, dtype), oracle((300,), start, delta, dtype))
        for delta in (-1, -2, low or -(high // 2) - 1):
            assert_same_bits(fill_value_sequence((300,), 7, delta, dtype), oracle((300,), 7, delta, dtype))


@pytest.mark.parametrize("name", ["int4", "uint4"])
def test_integers_of_four_bits(name):
    dtype = np.dtype(getattr(ml_dtypes, name))
    low = -8 if name == "int4" else 0
    for delta in (3, -3):
        wanted = np.array([(2 + i * delta - low) % 16 + low for i in range(40)]).astype(dtype)
        assert_same_bits(fill_value_sequence((40,), 2, delta, dtype), wanted)


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16, ml_dtypes.float8_e5m2], ids=str)
def test_narrow_floats_are_computed_as_float32_and_rounded_once(dtype):
    """A sum of such numbers stops at 2048, 256 or 8."""
    with np.errstate(over="ignore"):
        assert_same_bits(fill_value_sequence((70000,), 0, 1, dtype), np.arange(70000, dtype=np.float32).astype(dtype))
        start, delta = (np.float32(np.dtype(dtype).type(x)) for x in (0.3, 0.1))
        wanted = (start + np.arange(4096, dtype=np.float32) * delta).astype(dtype)
        assert_same_bits(fill_value_sequence((4096,), 0.3, 0.1, dtype), wanted)


def test_no_error_adds_up():
    """Each number is as near as one or two roundings leave it."""
    made = np.asarray(fill_value_sequence((2**18,), 0.1, 0.1, np.float32))
    exact = np.float64(np.float32(0.1)) * np.arange(1, 2**18 + 1)
    assert (abs(made - exact) <= np.spacing(made)).all()
    accumulated = np.cumsum(np.full(2**18, np.float32(0.1)), dtype=np.float32)
    assert abs(accumulated - exact).max() > 100 * abs(made - exact).max()


def test_float64(x64):
    with refused_without_x64("dtype of 64 bits"):
        assert_same_bits(
            fill_value_sequence((3,), 2**53 - 1, -0.5, np.float64), np.array([0, -0.5, -1]) + (2.0**53 - 1)
        )


def test_special_floats():
    inf = float("inf")
    assert_same_bits(fill_value_sequence((3,), inf, 1, np.float32), np.float32([inf] * 3))
    made = np.asarray(fill_value_sequence((3,), 0, inf, np.float32))
    assert np.isnan(made[0])  # 0 * inf
    assert_same_bits(made[1:], np.float32([inf, inf]))


@pytest.mark.parametrize(("dtype", "start", "delta"), [(np.uint8, 1, 3), (np.int32, 5, 7), (np.float32, -(2**32), 1)])
def test_more_elements_than_32_bits_count(dtype, start, delta):
    """Of which only the last ones are made."""
    made = jax.jit(lambda: fill_value_sequence((2**16, 2**16), start, delta, dtype)[-1:, -3:])()
    numbers = range(2**32 - 3, 2**32)
    if dtype == np.float32:  # which are rounded
        wanted = np.float32(start) + np.array(numbers).astype(np.float32)
    else:
        wanted = np.array([wrapped(start + i * delta, dtype) for i in numbers], dtype)
    assert_same_bits(made, wanted[None])


# Transformations.


def test_other_numbers_compile_nothing(compilations):
    fill_value_sequence((5, 3), 1, 2, np.float32)
    with compilations() as compiled:
        for start, delta in ((2, 1), (-0.5, 3.0), (0, 0)):
            wanted = oracle((5, 3), start, delta, np.float32)
            assert_same_bits(fill_value_sequence((5, 3), start, delta, np.float32), wanted)
    assert not compiled


def test_it_is_constant_to_vmap_and_to_grad():
    mapped = jax.jit(jax.vmap(lambda x: x * fill_value_sequence((2,), 3, 1, np.float32)))(np.float32([[1, 2], [3, 4]]))
    assert_same_bits(mapped, np.float32([[3, 8], [9, 16]]))
    found = jax.jit(jax.grad(lambda x: (x * fill_value_sequence((2,), 3, 1, np.float32)).sum()))(np.float32([1, 2]))
    assert_same_bits(found, np.float32([3, 4]))


def test_symbolic_sizes():
    call = exported(lambda x: x + fill_value_sequence(x.shape, 3, 2, np.float32), "a, b").call
    assert_same_bits(call(np.zeros((3, 2), np.float32)), oracle((3, 2), 3, 2, np.float32))


# Meshes.


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_on_a_mesh_every_device_has_it_or_its_part(kind):
    mesh = jax.make_mesh((2,), ("d",), devices=jax.devices("cpu")[:2], axis_types=(kind,))
    wanted = oracle((4, 6), 1, 2, np.float32)
    with jax.set_mesh(mesh):
        made = fill_value_sequence((4, 6), 1, 2, np.float32)
        assert made.sharding.is_fully_replicated
        assert_same_bits(made, wanted)
        for spec in (P("d"), P(None, "d")):
            made = fill_value_sequence((4, 6), 1, 2, np.float32, out_sharding=NamedSharding(mesh, spec))
            assert made.sharding.is_equivalent_to(NamedSharding(mesh, spec), 2)
            assert_same_bits(made, wanted)
            part = jax.jit(lambda spec=spec: fill_value_sequence((4, 6), 1, 2, np.float32, out_sharding=spec))
            program = part.lower().compile().as_text()
            assert not any(word in program for word in ("all-", "collective", "reduce-scatter"))


# Mistakes.


test_mistakes_are_named = refuses(
    CASE,
    ({"sizes": 2}, DataTypeError, "sizes must be a sequence of integers, but it is 2"),
    ({"sizes": (2, 1.5)}, DataTypeError, r"sizes\[1\] must be an integer, but it is 1.5"),
    ({"sizes": (2, -1)}, ConstraintError, r"every one of sizes must be at least 0, but they are \(2, -1\)"),
    ({"sizes": (2**31, 2**30)}, ConstraintError, r"sizes must give an array of fewer than 2\*\*63 bytes"),
    ({"start": "7"}, DataTypeError, r"start must be a number, known while tracing, that float32 holds"),
    ({"delta": None}, DataTypeError, r"delta must be a number"),
    ({"start": -1, "dtype": np.uint8}, DataTypeError, r"start must be .* that uint8 holds, but it is -1"),
    ({"delta": -129, "dtype": np.uint8}, DataTypeError, r"delta must be .* that uint8 holds, but it is -129"),
    ({"delta": 256, "dtype": np.uint8}, DataTypeError, r"delta must be .* that uint8 holds, but it is 256"),
    ({"delta": 0.5, "dtype": np.uint8}, DataTypeError, r"delta must be .* that uint8 holds, but it is 0\.5"),
    ({"delta": 0.5, "dtype": np.int32}, DataTypeError, r"delta must be .* that int32 holds, but it is 0\.5"),
    ({"delta": 1e39}, DataTypeError, r"delta must be .* that float32 holds"),
    ({"delta": 1, "dtype": np.complex64}, DataTypeError, "must be an integer or floating-point type, but it is c"),
    ({"dtype": "float7"}, DataTypeError, "dtype must be a type that JAX has"),
)


def test_a_traced_number_of_another_type_is_refused():
    with pytest.raises(DataTypeError, match=r"^fill_value_sequence: delta must be a number, known while tracing"):
        jax.jit(lambda delta: fill_value_sequence((2,), 0, delta, np.float32))(1)
