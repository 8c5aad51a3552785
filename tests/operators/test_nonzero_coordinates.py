"""nonzero_coordinates and NONZERO_COORDINATES: the coordinates of what is not zero, in order, then zeros."""

import jax
import jax.export
import ml_dtypes
import numpy as np
import pytest
from checks import assert_calls_agree, assert_is, assert_same_bits, refused_without_x64, sampled
from draws import dims
from jax.sharding import PartitionSpec as P
from operator_cases import Call, Example, Struct, f32, i64, u32
from oracles import coordinates
from refusals import refuses
from small_arrays import INTEGERS, every_small_shape, narrow_floats, numbered, on_explicit_mesh, random_keys
from variant_cases import chosen_on

from dml_jax import ConstraintError, DataTypeError, NonzeroCoordinatesDesc, TensorDesc, nonzero_coordinates, use_form

pytestmark = pytest.mark.device


def oracle(input):
    found = [c for c in coordinates(input.shape) if input[c] != 0]
    rows = np.zeros((input.size, input.ndim), np.uint32)
    for i, c in enumerate(found):
        rows[i] = c
    return np.uint32(len(found)), rows


X = np.float32([[1, 0, 0, 2], [-0.0, 3.5, 0, -5.2], [np.nan, 0, np.inf, 0]])
CASE = Call(nonzero_coordinates, {"input": X}, is_linear=False)
BREAKS = {
    "numbers(input)": {"input": random_keys(3)},
    "countable(input)": {"input": np.broadcast_to(np.int8(0), (2**16, 2**16))},
}
VARIANTS = {
    "zeros": {"input": np.zeros((2, 1, 3), np.int8)},
    "ones": {"input": numbered((5,))},
    "a scalar": {"input": np.float32(2)},
}


# The struct.


def draw(rng):
    rank = int(rng.integers(2, 9))
    input = dims(rng, rank, 40)
    leading = int(rng.integers(0, rank + 1))
    input[:leading] = [1] * leading
    effective = len([n for d, n in enumerate(input) if max(input[: d + 1]) > 1])
    columns = int(rng.integers(max(1, effective), rank + 1))
    return {
        "input": input,
        "output_count": [1] * rank,
        "output_coordinates": [*[1] * (rank - 2), int(np.prod(input)), columns],
    }


def fill(rng, port, tensor, count):
    """Mostly zeros of both signs, the other elements of random bits."""
    bits = np.frombuffer(rng.bytes(count * tensor.dtype.itemsize), tensor.dtype)
    return np.where(rng.random(count) < 0.6, rng.choice(np.array([0, -0.0]).astype(tensor.dtype), count), bits)


def expected(desc, x):
    count, rows = oracle(x)
    sizes = desc.output_coordinates.sizes
    return count.reshape(desc.output_count.sizes), rows[:, x.ndim - sizes[-1] :].reshape(sizes)


DOCUMENTED = NonzeroCoordinatesDesc(f32(1, 1, 2, 4), u32(1, 1, 1, 1), u32(1, 1, 8, 3))
STRUCTS = (
    Struct(
        DOCUMENTED,
        breaks={
            "sizes_follow(output_count)": {"output_count": u32(1, 1, 1, 2)},
            "coordinates": {"output_coordinates": u32(1, 1, 4, 3)},
        },
        examples=(
            Example(
                DOCUMENTED, [[1, 0, 0, 2, -0.0, 3.5, 0, -5.2]], [[4], [0, 0, 0, 0, 0, 3, 0, 1, 1, 0, 1, 3, *[0] * 12]]
            ),
        ),
        draw=draw,
        expected=expected,
        fill=fill,
    ),
)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("columns", [1, 2, 3, 4])
def test_coordinates_along_leading_dimensions_of_1_may_be_left_out(columns):
    x = np.int8([0, 7, 0, 7, 7, 0]).reshape(1, 1, 6, 1)
    tensors = TensorDesc("INT8", x.shape), u32(1, 1, 1, 1)
    if columns == 1:
        with pytest.raises(ConstraintError, match=r"OutputCoordinatesTensor.Sizes must be .* N is 1, not in \[2, 4\]"):
            NonzeroCoordinatesDesc(*tensors, u32(1, 1, 6, columns))
    else:
        _, rows = NonzeroCoordinatesDesc(*tensors, u32(1, 1, 6, columns)).compute(x)
        assert_same_bits(rows[0, 0, :3], np.uint32([[0, 0, 1, 0], [0, 0, 3, 0], [0, 0, 4, 0]])[:, 4 - columns :])


def test_a_single_element_has_no_dimension_that_counts():
    for columns in (1, 2):
        desc = NonzeroCoordinatesDesc(f32(1, 1), u32(1, 1), u32(1, columns))
        assert_is(desc.compute(np.float32([[5]])), (np.uint32([[1]]), np.zeros((1, columns), np.uint32)))


test_what_the_struct_refuses = refuses(
    DOCUMENTED,
    ({"output_coordinates": u32(1, 1, 8, 1)}, r"N is 1, not in \[2, 4\]"),
    ({"output_coordinates": u32(1, 1, 8, 5)}, r"N is 5, not in \[2, 4\]"),
    ({"output_coordinates": u32(1, 8, 1, 3)}, r"\(1, 8, 1, 3\) is not \(1, 1, 8, 3\)"),
    ({"output_coordinates": u32(8, 3)}, "OutputCoordinatesTensor.DimensionCount must equal InputTensor"),
    ({"output_coordinates": f32(1, 1, 8, 3)}, "OutputCoordinatesTensor.DataType must be one of UINT32"),
    ({"output_count": u32(1, 1, 8, 1)}, "OutputCountTensor.Sizes must be 1 in every dimension"),
    ({"output_count": f32(1, 1, 1, 1)}, "OutputCountTensor.DataType must be one of UINT32"),
    ({"input": i64(1, 1, 2, 4)}, "InputTensor.DataType must be one of"),
)


def test_one_dimension_is_too_few():
    with pytest.raises(ConstraintError, match=r"InputTensor.DimensionCount must be in \[2, 8\]"):
        NonzeroCoordinatesDesc(f32(4), u32(1), u32(4))


# Against the oracle.


@every_small_shape
def test_every_small_shape(shapes):
    def calls():
        rng = np.random.default_rng(8)
        for shape in shapes:
            for share in (0, 0.5, 1):
                x = np.where(rng.random(shape) < share, numbered(shape), np.float32(0))
                yield nonzero_coordinates, (x,), oracle(x)

    assert_calls_agree(calls())


def test_many_elements():
    x = np.random.default_rng(9).random((37, 5, 211)) < 0.3
    found = np.argwhere(x).astype(np.uint32)
    count, rows = nonzero_coordinates(x)
    assert_same_bits(count, np.uint32(len(found)))
    assert_same_bits(rows[: len(found)], found)
    assert not rows[len(found) :].any()


@pytest.mark.thinned(6)
@pytest.mark.parametrize("dtype", [np.dtype(np.float16), *narrow_floats()], ids=str)
def test_every_narrow_float(dtype):
    """Subnormals and NaN are not zero, -0.0 is."""
    x = np.arange(256**dtype.itemsize).astype(f"uint{8 * dtype.itemsize}").view(dtype)
    with np.errstate(invalid="ignore"):
        wanted = np.flatnonzero(x.astype(np.float32) != 0)
    count, rows = jax.jit(lambda x: nonzero_coordinates(x[None]))(x)
    assert_same_bits(rows[: int(count), 1], wanted.astype(np.uint32))


def test_subnormals_of_wide_floats(x64):
    x = np.uint32([0, 1, 0x80000000, 0x80000001, 0x7FC00000]).view(np.float32)
    assert_is(nonzero_coordinates(x), oracle(x))
    with refused_without_x64("input of type float64"):
        wide = np.float64([0, 5e-324, -0.0, -5e-324, np.nan])
        assert_is(nonzero_coordinates(wide), oracle(wide))


@pytest.mark.thinned
@pytest.mark.parametrize("dtype", [*INTEGERS, bool, ml_dtypes.int4, np.complex64], ids=lambda dtype: dtype.__name__)
def test_other_types(dtype):
    x = np.array([0, 1, 0, 2, 7]).astype(dtype)
    if np.dtype(dtype).kind == "c":
        x[2], x[3] = complex(-0.0, 1e-45), complex(-0.0, -0.0)
    with jax.enable_x64(True):
        assert_is(nonzero_coordinates(x), oracle(x))


@pytest.mark.variants
@pytest.mark.parametrize("form", sampled(["plain", "flag_words"], ["flag_words"]))
def test_every_form(form):
    """Words of no flag, of some and of all, the last one whole, with one flag less, or with one flag."""
    rng, calls = np.random.default_rng(8), []
    for shape in ((1,), (31,), (32,), (33, 1), (5, 200), (64, 64)):
        for part in (0, 0.01, 0.3, 1):
            x = (rng.random(shape) < part).astype(np.int8)
            calls.append((nonzero_coordinates, (x,), oracle(x)))
    batch = (rng.random((3, 2, 70)) < 0.2).astype(np.float32)
    each = [oracle(x) for x in batch]
    calls.append((jax.vmap(nonzero_coordinates), (batch,), tuple(np.stack(found) for found in zip(*each, strict=True))))
    with use_form(form):
        assert_calls_agree(calls)


@pytest.mark.variants
def test_words_are_for_cpus():
    small, large = (jax.ShapeDtypeStruct((n, n), np.int8) for n in (64, 512))
    assert chosen_on("cpu", nonzero_coordinates, large) == {"flag_words"}
    assert chosen_on("cpu", nonzero_coordinates, small) == chosen_on("cuda", nonzero_coordinates, large) == set()


# Transformations.


def test_no_derivative_flows():
    def masked(x):
        count, rows = nonzero_coordinates(x)
        return (x * (count + rows.sum()).astype(x.dtype)).sum()

    assert_same_bits(jax.jit(jax.grad(masked))(np.float32([3, 0, 5])), np.float32([4, 4, 4]))


# Explicit meshes.


def test_what_every_device_has_gives_what_every_device_has():
    found = nonzero_coordinates(on_explicit_mesh(X, None, None))
    assert [jax.typeof(one).sharding.spec for one in found] == [P(), P(None, None)]
    assert_is(found, oracle(X))


def test_a_sharded_input_needs_an_out_sharding():
    x = on_explicit_mesh(X.T, "d", None)
    with pytest.raises(ConstraintError, match="dimension 0 of input is sharded over 'd', along which"):
        nonzero_coordinates(x)
    found = nonzero_coordinates(x, out_sharding=P())
    assert [jax.typeof(one).sharding.spec for one in found] == [P(), P(None, None)]
    assert_is(found, oracle(X.T))
    with pytest.raises(ConstraintError, match="the output has 0 dimensions and the sharding 1"):
        nonzero_coordinates(x, out_sharding=P("d"))


# Mistakes.


@pytest.mark.parametrize(
    ("input", "error", "match"),
    [
        ([1, 0], DataTypeError, "input must be an array"),
        (random_keys(), DataTypeError, "input.dtype must be a numeric type, but it is key<fry>"),
        (np.array(["a"]), DataTypeError, "input.dtype must be a type that JAX has"),
        (
            np.broadcast_to(np.int8(0), (2**32,)),
            ConstraintError,
            r"fewer than 2\*\*32 elements, but there are 4294967296",
        ),
    ],
)
def test_mistakes_are_named(input, error, match):
    with pytest.raises(error, match=f"^nonzero_coordinates: .*{match}"):
        jax.eval_shape(nonzero_coordinates, input) if error is ConstraintError else nonzero_coordinates(input)
