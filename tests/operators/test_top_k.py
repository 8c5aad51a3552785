"""top_k, TOP_K and TOP_K1: the greatest or least elements along an axis in order; ties by ascending index."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import assert_calls_agree, assert_is, assert_same_bits, exported, refused_without_x64, sampled
from draws import dims
from operator_cases import Call, Example, Struct, f32, u32
from oracles import coordinates
from refusals import refuses
from small_arrays import INTEGERS, every_small_shape, narrow_floats, numbered, random_keys
from variant_cases import chosen_on

from dml_jax import (
    AxisDirection,
    ConstraintError,
    DataTypeError,
    TensorDesc,
    TopK1Desc,
    TopKDesc,
    compile_operator,
    top_k,
    use_form,
)
from dml_jax.operations.programs.variant_selection import watch_choices

pytestmark = pytest.mark.device


def oracle(input, axis, k, direction="decreasing"):
    axis %= input.ndim
    shape = (*input.shape[:axis], k, *input.shape[axis + 1 :])
    values, indices = np.empty(shape, input.dtype), np.empty(shape, np.uint32)
    for c in coordinates((*shape[:axis], 1, *shape[axis + 1 :])):
        row = [(*c[:axis], i, *c[axis + 1 :]) for i in range(input.shape[axis])]
        # Python's sort keeps the order of equal elements, in reverse too.
        found = sorted(row, key=lambda at: size(input[at]), reverse=direction == "decreasing")[:k]
        for i, at in enumerate(found):
            values[row[i]], indices[row[i]] = input[at], at[axis]
    return values, indices


def size(x):
    """Of NaNs, which are equal and greatest, and of numbers."""
    if np.asarray(x).dtype.kind in "biu":
        return False, int(x)
    return (True, 0.0) if x != x else (False, float(x))


X = np.float32([[3, -1, 3, np.nan, -0.0, 0.0], [0.0, -0.0, -np.inf, 2, np.inf, 2], [1, 1, 1, 1, 1, 1]])
CASE = Call(top_k, {"input": X}, {"axis": 1, "k": 4}, is_linear=False)
BREAKS = {
    "ordered(input)": {"input": X.astype(np.complex64)},
    "minimum_rank(input, 1)": {"input": np.float32(1)},
    "axis_of(input)": {"axis": 2},
    "enough": {"k": 7},
    "one_of(direction)": {"direction": "upwards"},
}
VARIANTS = {
    "increasing": {"direction": "increasing"},
    "columns": {"axis": -2, "k": 3},
    "integers": {"input": np.int32([[-(2**31), 2**31 - 1, 0, -1], [5, 5, -(2**31), 5]]), "direction": "increasing"},
    "none": {"k": 0},
}


# By example.


def test_the_greatest_of_each_row_and_where_they_are():
    x = np.float32([[3, 9, 1, 9], [0, -2, 5, 4]])
    assert_is(top_k(x, 1, 2), (np.float32([[9, 9], [5, 4]]), np.uint32([[1, 3], [2, 3]])))
    assert_is(top_k(x, 1, 1, direction="increasing"), (np.float32([[1], [-2]]), np.uint32([[2], [1]])))


# Against the oracle.

WAYS = ("decreasing", "increasing")


@every_small_shape
def test_every_small_shape(shapes):
    def calls():
        rng = np.random.default_rng(4)
        for shape in shapes:
            x = rng.choice(np.float32([0, -0.0, 1, -1, np.nan]), shape)
            for axis, n in enumerate(shape):
                for k, way, at in [
                    (n, "decreasing", axis),
                    (1, "increasing", axis - len(shape)),
                    (n, "increasing", axis),
                ]:
                    yield partial(top_k, axis=at, k=k, direction=way), (x,), oracle(x, at, k, way)

    assert_calls_agree(calls())


@pytest.mark.thinned(2)
@pytest.mark.parametrize("dtype", [np.dtype(np.float16), *narrow_floats()], ids=str)
def test_every_narrow_float(dtype):
    """NaN payloads, subnormals and zeros of both signs."""
    x = np.random.default_rng(0).permutation(256**dtype.itemsize).astype(f"uint{8 * dtype.itemsize}").view(dtype)
    for way in WAYS:
        assert_is(top_k(x, 0, len(x), direction=way), oracle(x, 0, len(x), way))


def test_every_kind_of_float32():
    """Random bits, subnormals, and what lies beside them."""
    rng = np.random.default_rng(1)
    telling = np.uint32([0, 1, 2, 2**23 - 1, 2**23, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF])
    bits = np.concatenate([telling, telling | np.uint32(2**31), rng.integers(0, 2**32, 200, dtype=np.uint32)])
    x = rng.permutation(np.concatenate([bits, bits])).view(np.float32)
    for way in WAYS:
        wanted = oracle(x, 0, len(x), way)
        assert_is(top_k(x, 0, len(x), direction=way), wanted)
        assert_is(jax.jit(partial(top_k, axis=0, k=len(x), direction=way))(x), wanted)


@pytest.mark.thinned(8)
@pytest.mark.parametrize("dtype", [bool, *INTEGERS, ml_dtypes.int4, ml_dtypes.uint4], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("way", WAYS)
def test_every_type_of_integer(dtype, way):
    """The least one has no negative, and unsigned ones have none at all."""
    dtype, rng = np.dtype(dtype), np.random.default_rng(2)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        ends = np.array([limits.min, limits.min + 1, limits.max, limits.max - 1, 0, 1], dtype)
        x = np.concatenate([ends, ends, rng.integers(limits.min, limits.max, 60, dtype)])
    else:
        x = rng.integers(0, 2 if dtype.kind == "b" else 8, 60).astype(dtype)
    x = rng.permutation(x).reshape(3, -1)
    with jax.enable_x64(True):
        for k in (1, 5, x.shape[1]):
            assert_is(top_k(x, 1, k, direction=way), oracle(x, 1, k, way))


def test_float64(x64):
    x = np.float64([1, np.nan, -0.0, 0.0, 1 + 2**-52, -np.inf, 5e-324])
    with refused_without_x64("input of type float64"):
        for way in WAYS:
            assert_is(top_k(x, 0, 7, direction=way), oracle(x, 0, 7, way))


@pytest.mark.thinned
@pytest.mark.parametrize("shape", [(300,), (7, 300), (2, 3, 300), (2, 3, 2, 50), (300, 4), (3, 300, 2)], ids=str)
@pytest.mark.parametrize("k", sampled([1, 20], [20]))
def test_any_rank_and_many_elements(shape, k):
    """XLA has other programs for one or two dimensions."""
    axis = shape.index(max(shape))
    bits = np.random.default_rng(6).integers(0, 2**32, shape, dtype=np.uint32)
    for x in (bits, bits.view(np.int32), bits.view(np.float32), bits.view(np.int32) % 5):
        assert_is(top_k(x, axis, k), oracle(x, axis, k))


@pytest.mark.variants
def test_the_greatest_are_among_those_of_the_greatest_blocks(exhaustive):
    """Ties within and across blocks, the least integers beside what fills a block, NaNs and subnormal numbers."""
    rng, calls, every = np.random.default_rng(7), [], 1 if exhaustive else 6
    integers = [np.int32([-(2**31), 2**31 - 1, -1]), np.int32([-(2**31)]), np.arange(-200, 200, dtype=np.int32)]
    floats = np.uint32([0, 1, 2, 2**31, 2**31 + 1, 0x7F800000, 0x7FC00000, 0xFFC00000]).view(np.float32)
    for shape, some in (((4, 300), (1, 3, 8)), ((2, 3, 70), (1, 2, 3)), ((33,), (1, 2)), ((2, 32), (1,))):
        for numbers in (*integers, floats, floats.astype(jnp.bfloat16)):
            x = rng.choice(numbers, shape)
            calls += [
                (partial(top_k, axis=-1, k=k, direction=way), (x,), oracle(x, -1, k, way)) for k in some for way in WAYS
            ][rng.integers(0, every) :: every]
    with use_form("block_maxima"):
        assert_calls_agree(calls)


@pytest.mark.variants
def test_where_blocks_are_looked_into():
    """By how many there are of each that is wanted; a CPU also takes what is not sorted as blocks."""
    for k, shape, on_cpus, on_gpus in (
        (50, (64, 6400), True, True),
        (50, (64, 6399), True, False),
        (50, (64, 199), False, False),
        (1, (64, 32000), True, False),
        (1, (4, 5), False, False),
    ):
        search, x = partial(top_k, axis=1, k=k), jax.ShapeDtypeStruct(shape, np.float32)
        assert chosen_on("cpu", search, x) == ({"block_maxima"} if on_cpus else set())
        assert chosen_on("cuda", search, x) == ({"block_maxima"} if on_gpus else set())


@pytest.mark.variants
@pytest.mark.parametrize("k", [2, 30])
def test_a_symbolic_number_of_rows(k):
    """A CPU takes the first ones of each row also then, in blocks or not, and sorts no whole rows."""
    x = np.random.default_rng(8).permutation(900).astype(np.float32).reshape(3, 300)
    spec = jax.ShapeDtypeStruct((jax.export.symbolic_shape("n")[0], 300), np.float32)
    with watch_choices() as seen:
        exported = jax.export.export(jax.jit(partial(top_k, axis=1, k=k)), platforms=("cpu", "cuda"))(spec)
    assert {choice.name for choice in seen if (choice.operation, choice.platform) == ("top_k", "cpu")} == {
        "block_maxima"
    }
    assert_is(exported.call(x), oracle(x, 1, k))


# The structs.


def draw(rng):
    sizes = dims(rng, int(rng.integers(1, 9)))
    axis = int(rng.integers(0, len(sizes)))
    sizes[axis] = int(rng.integers(1, 6))
    k = int(rng.integers(1, sizes[axis] + 1))
    found = [*sizes[:axis], k, *sizes[axis + 1 :]]
    return {"input": sizes, "output_value": found, "output_index": found, "axis": axis, "k": k}


def draw_either_way(rng):
    return {**draw(rng), "axis_direction": int(rng.integers(0, 2))}


def fill(rng, port, tensor, count):
    """Ties, NaNs and zeros of both signs; of half of the buffers random bits."""
    if rng.random() < 0.5:
        return None
    few = [-2, 0, 1, 1] if tensor.dtype.kind != "f" else [-2, 0, -0.0, 1, np.nan, -np.nan, np.inf]
    return rng.choice(np.array(few).astype(tensor.dtype), count)


STRUCT_BREAKS = {
    "below_rank(axis)": {"axis": 4},
    "enough": {"k": 5},
    "sizes_follow(output_value)": {"output_value": f32(1, 1, 2, 2)},
    "same_sizes(output_index, output_value)": {"output_index": u32(1, 1, 2, 3)},
}
TWO = TopKDesc(f32(1, 1, 3, 4), f32(1, 1, 3, 2), u32(1, 1, 3, 2), axis=3, k=2)
COLUMNS = TopKDesc(f32(1, 1, 3, 4), f32(1, 1, 2, 4), u32(1, 1, 2, 4), axis=2, k=2)
THREE = TopKDesc(f32(1, 1, 3, 4), f32(1, 1, 3, 3), u32(1, 1, 3, 3), axis=3, k=3)


def either_way(desc, direction):
    return TopK1Desc(**desc.operands(), axis_direction=direction)


TABLE = [0, 1, 10, 11, 3, 2, 9, 8, 4, 5, 6, 7]
TIED = [1, 2, 2, 3, 3, 4, 5, 5, 6, 6, 6, 6]
DOCUMENTED = [
    (TWO, [TABLE], [[11, 10, 9, 8, 7, 6], [3, 2, 2, 3, 3, 2]]),
    (COLUMNS, [TABLE], [[4, 5, 10, 11, 3, 2, 9, 8], [2, 2, 0, 0, 1, 1, 1, 1]]),
    (THREE, [TIED], [[3, 2, 2, 5, 5, 4, 6, 6, 6], [3, 1, 2, 2, 3, 1, 0, 1, 2]]),
]
LEAST = ([TIED], [[1, 2, 2, 3, 4, 5, 6, 6, 6], [0, 1, 2] * 3])
STRUCTS = (
    Struct(
        TWO,
        breaks=STRUCT_BREAKS,
        examples=[Example(*one) for one in DOCUMENTED],
        draw=draw,
        expected=lambda desc, x: _indexed(desc, oracle(x, desc.axis, desc.k)),
        leading={"axis": 1},
        fill=fill,
    ),
    Struct(
        either_way(TWO, "DECREASING"),
        breaks=STRUCT_BREAKS,
        examples=[
            *(Example(either_way(desc, "DECREASING"), *numbers) for desc, *numbers in DOCUMENTED),
            Example(either_way(THREE, "INCREASING"), *LEAST),
        ],
        draw=draw_either_way,
        expected=lambda desc, x: _indexed(desc, oracle(x, desc.axis, desc.k, desc.axis_direction.name.lower())),
        leading={"axis": 1},
        fill=fill,
    ),
)


def _indexed(desc, found):
    values, indices = found
    return values, indices.astype(desc.output_index.dtype)


def test_the_direction_is_an_enumeration():
    desc = either_way(TWO, 0)
    assert desc.axis_direction is AxisDirection.INCREASING
    assert replace(desc, axis_direction="DML_AXIS_DIRECTION_INCREASING") == desc
    with pytest.raises(ConstraintError, match="AxisDirection must be one of INCREASING, DECREASING, but it is 2"):
        replace(desc, axis_direction=2)


test_what_the_struct_refuses = refuses(
    TWO,
    ({"k": 5}, r"K must be in \[1, InputTensor.Sizes\[Axis\]\], but it is 5 and the size is 4"),
    ({"k": 0}, r"K must be in \[1, InputTensor.Sizes\[Axis\]\], but it is 0"),
    ({"k": 3}, r"OutputValueTensor.Sizes must be InputTensor.Sizes, but K along Axis, .* is not \(1, 1, 3, 3\)"),
    ({"output_index": u32(1, 1, 2, 3)}, "OutputIndexTensor.Sizes must equal OutputValueTensor.Sizes"),
    ({"output_index": f32(1, 1, 3, 2)}, "OutputIndexTensor.DataType must be one of UINT64, UINT32"),
    ({"output_value": u32(1, 1, 3, 2)}, "OutputValueTensor.DataType must equal InputTensor.DataType"),
)


def test_all_elements_may_be_taken():
    desc = TopKDesc(f32(3), f32(3), u32(3), axis=0, k=3)
    assert_is(desc.compute(np.float32([1, 3, 2])), (np.float32([3, 2, 1]), np.uint32([1, 2, 0])))


def test_64_bit_data_and_indices_of_descriptors(x64):
    """Of one tensor or of all, and of one element or several; while x64 is off buffers hold words."""
    x = np.int64([5, -(2**63), 2**40, 2**40 + 1])
    for data, name, index, k in [
        (x, "INT64", "UINT32", 3),
        (x, "INT64", "UINT64", 1),
        (x.view(np.uint64), "UINT64", "UINT64", 3),
        (np.float16([5, -1, 5, 7]), "FLOAT16", "UINT64", 3),
    ]:
        desc = TopKDesc(TensorDesc(name, (4,)), TensorDesc(name, (k,)), TensorDesc(index, (k,)), axis=0, k=k)
        values, indices = map(np.asarray, compile_operator(desc)(data))
        assert_is((values.view(data.dtype), indices.view(desc.output_index.dtype)), _indexed(desc, oracle(data, 0, k)))
        if x64:
            assert_is(desc.compute(data), _indexed(desc, oracle(data, 0, k)))
        else:
            with pytest.raises(DataTypeError, match="needs 64-bit types"):
                desc.compute(data)


# Transformations.


def test_gradients_go_back_to_the_elements_that_were_taken():
    weights = numbered((3, 4))
    _, indices = oracle(X, 1, 4)
    wanted = np.zeros_like(X)
    np.put_along_axis(wanted, indices.astype(int), weights, 1)
    assert_same_bits(jax.jit(jax.grad(lambda x: (top_k(x, 1, 4)[0] * weights).sum()))(X), wanted)
    back = jax.vjp(lambda x: top_k(x, 1, 4)[0], X.astype(jnp.bfloat16))[1](weights.astype(jnp.bfloat16))
    assert_is(back, (wanted.astype(jnp.bfloat16),))


def test_tangents_are_those_of_the_elements_that_were_taken():
    tangents = numbered(X.shape)
    (values, _), (moved, _) = jax.jvp(partial(top_k, axis=1, k=4), (X,), (tangents,))
    assert_same_bits(values, oracle(X, 1, 4)[0])
    assert_same_bits(moved, np.take_along_axis(tangents, oracle(X, 1, 4)[1].astype(int), 1))


# Mistakes.


test_mistakes_are_named = refuses(
    CASE,
    ({"input": [1.5]}, DataTypeError, "input must be an array"),
    ({"input": random_keys(1)}, DataTypeError, "it is key<fry>, whose elements are not numbers"),
    ({"input": X.astype(np.complex64)}, DataTypeError, "it is complex64, whose numbers have no order"),
    ({"axis": 1.0}, DataTypeError, "axis must be an integer"),
    ({"axis": -3}, ConstraintError, "it is -3 and the rank is 2"),
    ({"k": True}, DataTypeError, "k must be an integer, but it is True"),
    ({"k": -1}, ConstraintError, r"k must be in \[0, the size of input along axis\], but it is -1 and the size is 6"),
    ({"k": 2**63}, ConstraintError, "it is 9223372036854775808 and the size is 6"),
    ({"direction": 1}, DataTypeError, "direction must be a string"),
    ({"direction": "DECREASING"}, ConstraintError, "direction must be one of 'increasing', 'decreasing'"),
)


def test_a_symbolic_axis_must_be_known_to_hold_k():
    call = partial(top_k, axis=0, k=2)
    with pytest.raises(ConstraintError, match=r"k must be in .*, but a size is symbolic: .*'2'"):
        exported(call, "b, 5")
    values, indices = exported(call, "b + 2, 5").call(X[:4, :5])
    assert_same_bits(values, oracle(X[:4, :5], 0, 2)[0])
    assert_same_bits(indices, oracle(X[:4, :5], 0, 2)[1])
