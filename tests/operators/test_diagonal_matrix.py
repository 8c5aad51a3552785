"""diagonal_matrix and DIAGONAL_MATRIX: output[..., y, x] = value if x - y == offset else 0."""

from functools import partial

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import assert_same_bits, exported, together
from draws import dims
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from operator_cases import Call, Example, Struct, f32
from oracles import coordinates
from refusals import refuses
from small_arrays import every_narrow_float

from dml_jax import (
    ConstraintError,
    DataTypeError,
    DiagonalMatrixDesc,
    TensorDesc,
    compile_operator,
    desc_from_json,
    desc_to_json,
    diagonal_matrix,
)

pytestmark = pytest.mark.device


def oracle(sizes, dtype, offset=0, value=1):
    output = np.zeros(sizes, dtype)
    for c in coordinates(sizes):
        y, x = c[-2:]
        if x - y == offset:
            output[c] = value
    return output


CASE = Call(diagonal_matrix, {}, {"sizes": (2, 3, 4), "dtype": np.dtype(np.float32)})
BREAKS = {
    "numbers(dtype)": {"dtype": np.dtype(ml_dtypes.float8_e8m0fnu)},
    "matrix(sizes)": {"sizes": (3,)},
    "each_at_least(sizes, 0)": {"sizes": (2, -1)},
    "representable": {"sizes": (0, 2**61)},
}
VARIANTS = {
    "above": {"offset": 1, "value": -2.5},
    "below": {"sizes": (4, 3), "offset": -2, "value": 7, "dtype": np.dtype(np.uint8)},
    "outside": {"offset": 2**40},
    "bool": {"value": True, "dtype": np.dtype(bool)},
}


# The struct.


def draw(rng):
    offset = int(rng.integers(-3, 4)) if rng.random() < 0.9 else int(rng.choice([-(2**31), 2**31 - 1]))
    return {"output": dims(rng, int(rng.integers(2, 5))), "offset": offset, "value": int(rng.integers(0, 128))}


DOCUMENTED = DiagonalMatrixDesc(f32(1, 1, 3, 3), 0, 1)
STRUCTS = (
    Struct(
        DOCUMENTED,
        breaks={},
        examples=(
            Example(DOCUMENTED, [], [[1, 0, 0, 0, 1, 0, 0, 0, 1]]),
            Example(DiagonalMatrixDesc(f32(1, 1, 3, 3), 1, 1), [], [[0, 1, 0, 0, 0, 1, 0, 0, 0]]),
            Example(DiagonalMatrixDesc(f32(1, 1, 3, 2), -1, 1), [], [[0, 0, 1, 0, 0, 1]]),
            Example(DiagonalMatrixDesc(f32(1, 1, 3, 2), -3, 1), [], [[0] * 6]),
        ),
        draw=draw,
        expected=lambda desc: oracle(desc.output.sizes, desc.output.dtype, desc.offset, desc.value),
    ),
)


def of(name, value, offset=0):
    return DiagonalMatrixDesc(TensorDesc(name, (2, 2)), offset, value)


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (2.9, np.uint8(2)),
        (-2.9, np.int16(-2)),
        (-1, np.uint8(0)),
        (1e20, np.int32(2**31 - 1)),
        (float("nan"), np.int8(0)),
        (0.1, np.float32(0.1)),
        (65520, np.float16("inf")),
        (0.1, np.float64(np.float32(0.1))),
        (float("inf"), np.uint64(2**64 - 1)),
        (-float("inf"), np.int64(-(2**63))),
    ],
)
def test_the_value_is_a_float_of_32_bits_that_integers_truncate(value, wanted):
    desc = of(wanted.dtype, value)
    assert desc_from_json(desc_to_json(desc)) == desc
    matrix = oracle((2, 2), wanted.dtype, 0, wanted)
    assert_same_bits(np.asarray(compile_operator(desc)()).view(wanted.dtype), matrix.ravel())
    with jax.enable_x64(True):
        assert_same_bits(desc.compute(), matrix)


def test_64_bit_types_need_x64(x64):
    if x64:
        assert_same_bits(diagonal_matrix((2, 2), np.int64, value=2**60 + 1), oracle((2, 2), np.int64, 0, 2**60 + 1))
        return
    with pytest.raises(DataTypeError, match="OutputTensor of 64 bits needs 64-bit types"):
        of("INT64", 1).compute()
    with pytest.raises(DataTypeError, match="dtype of 64 bits needs 64-bit types"):
        diagonal_matrix((2, 2), np.int64)


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: DiagonalMatrixDesc(f32(3), 0, 1), ConstraintError, r"DimensionCount must be in \[2, 4\] .* it is 1"),
        (lambda: of("FLOAT32", "1"), DataTypeError, "Value must be a real number"),
        (lambda: of("FLOAT32", 1, 2**31), ConstraintError, r"Offset must be in \[-2\*\*31, 2\*\*31 - 1\]"),
        (lambda: of("FLOAT32", 1, 0.5), DataTypeError, "Offset must be an integer"),
    ],
)
def test_what_the_struct_refuses(make, error, match):
    with pytest.raises(error, match=match):
        make()


# Against the oracle.


@pytest.mark.thinned(8)
@pytest.mark.parametrize("rows", [0, 1, 2, 4])
@pytest.mark.parametrize("columns", [0, 1, 3, 4])
def test_every_offset_of_small_matrices(rows, columns):
    far = (2**31 - 1, -(2**31), 2**31, 2**63, -(2**100))
    cases = [(sizes, offset) for offset in (*range(-5, 6), *far) for sizes in ((rows, columns), (2, rows, columns))]
    made = together([(partial(diagonal_matrix, sizes, np.int8, offset=offset, value=3),) for sizes, offset in cases])
    for (sizes, offset), one in zip(cases, made, strict=True):
        assert_same_bits(one, oracle(sizes, np.int8, offset, 3))


@pytest.mark.thinned(2)
@every_narrow_float
def test_bits_of_narrow_floats(dtype):
    value = np.array([2 ** (8 * dtype.itemsize) - 1], f"uint{8 * dtype.itemsize}").view(dtype)[0]
    if dtype != ml_dtypes.float8_e8m0fnu:  # which has no 0
        assert_same_bits(diagonal_matrix((3, 3), dtype, value=value), np.diag(np.array([value] * 3, dtype)))


@pytest.mark.parametrize(("value", "dtype"), [(1j, np.complex64), (True, np.bool_), (-0.0, np.float32)])
def test_other_numbers(value, dtype):
    assert_same_bits(diagonal_matrix((2, 3), dtype, value=value), oracle((2, 3), dtype, 0, value))


# Transformations.


def test_a_new_value_compiles_nothing(compilations):
    diagonal_matrix((5, 3), np.float32)
    with compilations() as compiled:
        for value in (2, -0.0, np.nan):
            wanted = oracle((5, 3), np.float32, 0, value)
            assert_same_bits(diagonal_matrix((5, 3), np.float32, value=value), wanted)
    assert not compiled


def test_it_is_constant_to_vmap_and_to_grad():
    eye = partial(diagonal_matrix, (2, 2), np.float32, value=3)
    mapped = jax.jit(jax.vmap(lambda x: x @ eye()))(np.float32([[1, 2], [3, 4]]))
    assert_same_bits(mapped, np.float32([[3, 6], [9, 12]]))
    assert_same_bits(jax.jit(jax.grad(lambda x: (x @ eye()).sum()))(np.float32([1, 2])), np.float32([3, 3]))


def test_symbolic_sizes():
    call = exported(lambda x: x + diagonal_matrix(x.shape, np.float32, offset=1), "a, b").call
    assert_same_bits(call(np.zeros((3, 4), np.float32)), oracle((3, 4), np.float32, 1))


# Meshes.


@pytest.mark.thinned(2)
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16])
def test_on_a_mesh_every_device_has_it_or_its_part(kind, dtype):
    mesh = jax.make_mesh((2,), ("d",), devices=jax.devices("cpu")[:2], axis_types=(kind,))
    wanted = oracle((4, 6), dtype, 1)
    with jax.set_mesh(mesh):
        made = diagonal_matrix((4, 6), dtype, offset=1)
        assert made.sharding.is_fully_replicated
        assert_same_bits(made, wanted)
        for spec in (P("d"), P(None, "d")):
            made = diagonal_matrix((4, 6), dtype, offset=1, out_sharding=spec)
            assert made.sharding.is_equivalent_to(NamedSharding(mesh, spec), 2)
            assert_same_bits(made, wanted)


# Mistakes.


test_mistakes_are_named = refuses(
    CASE,
    ({"sizes": 2}, DataTypeError, "sizes must be a sequence of integers, but it is 2"),
    ({"sizes": ()}, ConstraintError, r"sizes must hold at least two sizes, but there are 0"),
    ({"sizes": (2, -1)}, ConstraintError, r"every one of sizes must be at least 0, but they are \(2, -1\)"),
    ({"sizes": (2**31, 2**30)}, ConstraintError, r"sizes must give an array of fewer than 2\*\*63 bytes"),
    ({"offset": 0.5}, DataTypeError, "offset must be an integer, but it is 0.5"),
    ({"offset": True}, DataTypeError, "offset must be an integer, but it is True"),
    ({"value": "7"}, DataTypeError, r"value must be a number, known while tracing, that float32 holds"),
    ({"value": 300, "dtype": np.uint8}, DataTypeError, r"that uint8 holds, but it is 300"),
    ({"dtype": "float7"}, DataTypeError, "dtype must be a type that JAX has"),
)
