"""fill_value_constant and FILL_VALUE_CONSTANT: output[c] = value."""

from dataclasses import replace
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
from operator_cases import Call, Example, Struct, f32
from oracles import coordinates
from refusals import refuses
from small_arrays import INTEGERS, SHAPES, every_narrow_float

from dml_jax import (
    CompiledOperator,
    ConstraintError,
    DataType,
    DataTypeError,
    FillValueConstantDesc,
    TensorDesc,
    compile_operator,
    desc_from_json,
    desc_to_json,
    fill_value_constant,
)

pytestmark = pytest.mark.device


def oracle(sizes, value, dtype):
    output = np.empty(sizes, dtype)
    for c in coordinates(sizes):
        output[c] = value
    return output


CASE = Call(fill_value_constant, {}, {"sizes": (2, 3), "value": 7.5, "dtype": np.dtype(np.float32)})
BREAKS = {"each_at_least(sizes, 0)": {"sizes": (2, -1)}, "representable": {"sizes": (0, 2**63)}}
VARIANTS = {
    "integers": {"value": -3, "dtype": np.dtype(np.int8)},
    "bool": {"value": True, "dtype": np.dtype(bool)},
    "no dimension": {"sizes": ()},
}


# The struct.


def draw(rng):
    return {"output": dims(rng, int(rng.integers(1, 9))), "value": int(rng.integers(0, 128))}


DOCUMENTED = FillValueConstantDesc(f32(1, 1, 2, 4), "FLOAT32", 13)
STRUCTS = (
    Struct(
        DOCUMENTED,
        breaks={
            "type_of(value_data_type, output)": {"value_data_type": DataType.INT32},
            "held(value, value_data_type)": {"value": 1e39},
        },
        examples=(Example(DOCUMENTED, [], [[13] * 8]),),
        draw=draw,
        expected=lambda desc: oracle(desc.output.sizes, desc.value, desc.output.dtype),
    ),
)


def of(value, name, *sizes):
    return FillValueConstantDesc(TensorDesc(name, sizes or (3,)), name, value)


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (1.5, np.float16(1.5)),
        (-0.0, np.float32(-0.0)),
        (float("-inf"), np.float64("-inf")),
        (np.uint16(0x7E01), np.uint16(0x7E01).view(np.float16)),  # the payload of a NaN
        (np.uint32(0xFF800001), np.uint32(0xFF800001).view(np.float32)),
        (np.int8(-2), np.uint8(254)),
        (2**64 - 1, np.uint64(2**64 - 1)),
        (-(2**63), np.int64(-(2**63))),
        (np.float64(1e-310), np.float64(1e-310)),
    ],
)
def test_the_bits_of_a_scalar_union(value, wanted):
    """64-bit types as words, while x64 is off."""
    desc = of(value, wanted.dtype)
    restored = desc_from_json(desc_to_json(desc))
    assert restored == desc or wanted != wanted  # JSON knows one NaN
    assert_same_bits(np.asarray(compile_operator(desc)()).view(wanted.dtype), np.full(3, wanted))
    if wanted.dtype.itemsize < 8:
        assert_same_bits(desc.compute(), np.full(3, wanted))
    else:
        with pytest.raises(DataTypeError, match="OutputTensor of 64 bits needs 64-bit types"):
            desc.compute()
    with jax.enable_x64(True):
        assert_same_bits(desc.compute(), np.full(3, wanted))
        assert_same_bits(compile_operator(desc)(), np.full(3, wanted))


@pytest.mark.parametrize(
    ("value", "name", "match"),
    [
        (300, "UINT8", r"Value must be a number of ValueDataType, but UINT8 does not hold 300"),
        (-2, "UINT8", r"UINT8 does not hold -2"),
        (0.5, "INT32", r"INT32 does not hold 0\.5"),
        (70000, "FLOAT16", r"FLOAT16 does not hold 70000"),
        (float("nan"), "INT32", r"INT32 does not hold nan"),
        (float("inf"), "INT8", r"INT8 does not hold inf"),
        ("7", "INT32", r"Value must be a number, or one of NumPy whose bits are meant"),
        (True, "UINT8", r"Value must be a number, or one of NumPy"),
    ],
)
def test_a_number_that_the_type_does_not_hold_is_refused_at_once(value, name, match):
    with pytest.raises(DataTypeError, match=match):
        of(value, name)


def test_the_type_of_the_value_is_that_of_the_output():
    with pytest.raises(DataTypeError, match=r"ValueDataType must equal OutputTensor.DataType, but they are INT32"):
        replace(DOCUMENTED, value_data_type="DML_TENSOR_DATA_TYPE_INT32")


def test_a_bound_output_keeps_what_lies_between_its_elements():
    desc = FillValueConstantDesc(TensorDesc("INT16", (2, 2), (4, 2)), "INT16", -5)
    assert_same_bits(compile_operator(desc)(out=jnp.full(7, 9, jnp.int16)), np.int16([-5, 9, -5, 9, -5, 9, -5]))
    assert_same_bits(compile_operator(desc)(), np.int16([-5, 0, -5, 0, -5, 0, -5]))


def test_a_restored_operator_takes_nothing():
    pytest.importorskip("flatbuffers")
    restored = CompiledOperator.deserialize(compile_operator(DOCUMENTED).serialize())
    assert list(restored.buffers) == ["output"]
    assert_same_bits(restored(), np.full(8, np.float32(13)))
    with pytest.raises(ConstraintError, match="takes buffers for nothing, but there are 1"):
        restored(np.zeros(8, np.float32))


# Against the oracle.


def test_every_small_shape():
    shapes = [*SHAPES, (), (0,), (2, 0, 3), (1,) * 8]
    made = together((partial(fill_value_constant, shape, -1.5, np.float16),) for shape in shapes)
    for shape, result in zip(shapes, made, strict=True):
        assert_same_bits(result, oracle(shape, -1.5, np.float16))


@pytest.mark.thinned(2)
@pytest.mark.parametrize("dtype", [*INTEGERS, "int4", "uint4"], ids=str)
def test_the_limits_of_integers(dtype):
    dtype = np.dtype(getattr(ml_dtypes, dtype)) if isinstance(dtype, str) else np.dtype(dtype)
    limits = ml_dtypes.iinfo(dtype)
    with jax.enable_x64(True):
        for value in (int(limits.min), int(limits.max)):
            assert_same_bits(fill_value_constant((2,), value, dtype), oracle((2,), value, dtype))
            with pytest.raises(DataTypeError, match=f"that {dtype} holds"):
                fill_value_constant((2,), value + (1 if value > 0 else -1), dtype)


@pytest.mark.thinned(2)
@every_narrow_float
def test_bits_of_narrow_floats(dtype):
    """NaN payloads, subnormals and -0.0."""
    for bits in (0, 1, 2 ** (8 * dtype.itemsize - 1), 2 ** (8 * dtype.itemsize) - 1):
        value = np.array([bits], f"uint{8 * dtype.itemsize}").view(dtype)[0]
        made = fill_value_constant((3,), value, dtype)
        assert_same_bits(made, np.array([value] * 3, dtype))
        assert_same_bits(
            jax.jit(lambda v=value, d=dtype: fill_value_constant((3,), v, d)[::2])(), np.asarray(made)[::2]
        )


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1 - 2j, np.complex64),
        (True, np.bool_),
        (-0.0, np.float32),
        (0.1, np.float32),
        (1e-45, np.float32),
        (float("inf"), jnp.bfloat16),
    ],
)
def test_other_numbers(value, dtype):
    assert_same_bits(fill_value_constant((2, 2), value, dtype), oracle((2, 2), value, dtype))


@pytest.mark.parametrize("value", [7, 7.0, np.int8(7), np.float16(7), np.array(7), jnp.int32(7)])
def test_every_way_to_give_a_number(value):
    wanted = np.full((2,), 7, np.uint8)
    assert_same_bits(fill_value_constant((2,), value, np.uint8), wanted)
    assert_same_bits(fill_value_constant(sizes=np.int64([2]), value=value, dtype="uint8"), wanted)
    assert_same_bits(jax.jit(lambda: fill_value_constant([2], value, jnp.uint8))(), wanted)


def test_64_bit_types_need_x64(x64):
    with refused_without_x64("dtype of 64 bits"):
        assert_same_bits(fill_value_constant((2,), 2**53 + 1, np.int64), np.full(2, 2**53 + 1))
        assert_same_bits(fill_value_constant((2,), 0.1, np.float64), np.full(2, 0.1))


# Transformations.


def test_a_new_value_compiles_nothing(compilations):
    fill_value_constant((5, 3), 1, np.float32)
    with compilations() as compiled:
        for value in (2, -0.0, np.nan, np.float16(3)):
            assert_same_bits(fill_value_constant((5, 3), value, np.float32), np.full((5, 3), value, np.float32))
    assert not compiled


def test_it_is_constant_to_vmap_and_to_grad():
    mapped = jax.jit(jax.vmap(lambda x: x * fill_value_constant((2,), 3, np.float32)))(np.float32([[1, 2], [3, 4]]))
    assert_same_bits(mapped, np.float32([[3, 6], [9, 12]]))
    found = jax.jit(jax.grad(lambda x: (x * fill_value_constant((2,), 3, np.float32)).sum()))(np.float32([1, 2]))
    assert_same_bits(found, np.float32([3, 3]))


def test_symbolic_sizes():
    call = exported(lambda x: x + fill_value_constant((x.shape[0], 2), 3, np.float32), "b, 2").call
    assert_same_bits(call(np.ones((3, 2), np.float32)), np.full((3, 2), 4, np.float32))


def test_a_symbolic_size_that_may_be_negative():
    spec = jax.ShapeDtypeStruct(jax.export.symbolic_shape("b"), np.float32)
    with pytest.raises(ConstraintError, match="every one of sizes must be at least 0, but a size is symbolic"):
        jax.eval_shape(lambda x: fill_value_constant((x.shape[0] - 2,), 1, np.float32), spec)


# Meshes.


@pytest.mark.thinned(2)
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16])
def test_on_a_mesh_every_device_has_it_or_its_part(kind, dtype):
    mesh = jax.make_mesh((2,), ("d",), devices=jax.devices("cpu")[:2], axis_types=(kind,))
    with jax.set_mesh(mesh):
        made = fill_value_constant((4, 3), 2, dtype)
        assert made.sharding.is_fully_replicated
        assert_same_bits(made, oracle((4, 3), 2, dtype))
        for asked in (P("d"), NamedSharding(mesh, P("d"))):
            made = fill_value_constant((4, 3), 2, dtype, out_sharding=asked)
            assert made.sharding.spec[0] == "d"
            assert_same_bits(made, oracle((4, 3), 2, dtype))
        with pytest.raises(ConstraintError, match="dimension 1 of the output has size 3, and 'd' has 2 devices"):
            fill_value_constant((4, 3), 2, dtype, out_sharding=P(None, "d"))


# Mistakes.


test_mistakes_are_named = refuses(
    CASE,
    ({"sizes": 2}, DataTypeError, "sizes must be a sequence of integers, but it is 2"),
    ({"sizes": "23"}, DataTypeError, "sizes must be a sequence of integers, but it is '23'"),
    ({"sizes": (2, 1.5)}, DataTypeError, r"sizes\[1\] must be an integer, but it is 1.5"),
    ({"sizes": (2, True)}, DataTypeError, r"sizes\[1\] must be an integer, but it is True"),
    ({"sizes": (2, -1)}, ConstraintError, r"every one of sizes must be at least 0, but they are \(2, -1\)"),
    ({"sizes": (2**61,)}, ConstraintError, r"sizes must give an array of fewer than 2\*\*63 bytes"),
    ({"sizes": (2**62, 4, 0)}, ConstraintError, r"the sizes are \(4611686018427387904, 4, 0\)"),
    ({"sizes": (2**63,), "value": 7, "dtype": np.uint8}, ConstraintError, r"fewer than 2\*\*63 bytes"),
    ({"value": "7"}, DataTypeError, r"value must be a number, known while tracing, that float32 holds"),
    ({"value": None}, DataTypeError, r"value must be a number"),
    ({"value": (1, 2)}, DataTypeError, r"value must be a number"),
    ({"value": 1e39}, DataTypeError, r"that float32 holds, but it is 1e\+39"),
    ({"value": 1j}, DataTypeError, r"that float32 holds"),
    ({"value": 0.5, "dtype": np.int32}, DataTypeError, r"that int32 holds, but it is 0\.5"),
    ({"value": np.nan, "dtype": np.int8}, DataTypeError, r"that int8 holds, but it is nan"),
    ({"value": 2**100, "dtype": np.uint32}, DataTypeError, r"that uint32 holds"),
    ({"dtype": "float7"}, DataTypeError, "dtype must be a type that JAX has"),
    ({"dtype": None}, DataTypeError, "dtype must be a type that JAX has"),
    ({"out_sharding": "d"}, DataTypeError, "out_sharding must be a jax.sharding.NamedSharding"),
)


def test_a_traced_number_of_another_type_is_refused():
    with pytest.raises(DataTypeError, match=r"^fill_value_constant: value must be a number, known while tracing"):
        jax.jit(lambda value: fill_value_constant((2,), value, np.float32))(1)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'dtype'"):
        fill_value_constant((2,), 1)
