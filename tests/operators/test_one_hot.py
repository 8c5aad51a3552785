"""one_hot and ONE_HOT: output[c] = values[1] where c[axis] is the index of its row, else values[0]."""

from functools import partial

import jax
import numpy as np
import pytest
from checks import assert_calls_agree, assert_same_bits, assert_sharded
from draws import dims
from jax.sharding import PartitionSpec as P
from operator_cases import Call, Example, Struct, f32, i8, i32, u32
from oracles import coordinates, wrap
from refusals import refuses
from small_arrays import (
    every_small_shape,
    indices_around,
    numbered,
    on_explicit_mesh,
)

from dml_jax import ConstraintError, DataTypeError, OneHotDesc, one_hot, use_form

pytestmark = pytest.mark.device


def oracle(indices, values, size, axis):
    axis %= indices.ndim
    output = np.empty([*indices.shape[:axis], size, *indices.shape[axis + 1 :]], values.dtype)
    for c in coordinates(output.shape):
        index = wrap(indices[(*c[:axis], 0, *c[axis + 1 :])], size)
        output[c] = values[1] if index == c[axis] else values[0]
    return output


LABELS = np.int32([[0], [3], [-1], [4], [-5], [2]])
OFF_ON = np.float32([3, 5])
CASE = Call(one_hot, {"indices": LABELS, "values": OFF_ON}, {"size": 4, "axis": 1})
BREAKS = {
    "integer(indices)": {"indices": LABELS.astype(np.float32)},
    "minimum_rank(indices, 1)": {"indices": np.int32(1)},
    "axis_of(indices)": {"axis": 2},
    "one_index": {"axis": 0},
    "two_values": {"values": numbered(3)},
    "at_least(size, 0)": {"size": -1},
    "representable": {"size": 2**61},
}
VARIANTS = {
    "columns": {"indices": LABELS.T, "axis": -2},
    "unsigned": {"indices": np.uint8([[[3]], [[0]], [[255]]]), "axis": 1},
    "empty rows": {"size": 0},
}


# The struct.


def draw(rng):
    rank = int(rng.integers(1, 9))
    axis, output = int(rng.integers(0, rank)), dims(rng, rank)
    values = dims(rng, rank, 12)
    if max(values) == 1:
        values[int(rng.integers(0, rank))] = 2
    return {
        "indices": [*output[:axis], 1, *output[axis + 1 :]],
        "values": values,
        "output": output,
        "axis": axis,
    }


ROWS = OneHotDesc(u32(1, 1, 3, 1), f32(1, 1, 1, 2), f32(1, 1, 3, 4), axis=3)
COLUMNS = OneHotDesc(u32(1, 1, 1, 4), f32(1, 1, 1, 2), f32(1, 1, 3, 4), axis=2)
OTHER_VALUES = OneHotDesc(u32(1, 1, 3, 1), f32(1, 1, 3, 1), f32(1, 1, 3, 4), axis=3)
SIGNED = OneHotDesc(i32(1, 1, 3, 1), f32(1, 1, 1, 2), f32(1, 1, 3, 4), axis=3)
STRUCTS = (
    Struct(
        ROWS,
        breaks={
            "below_rank(axis)": {"axis": 4},
            "sizes_follow(indices)": {"indices": u32(1, 1, 3, 4)},
            "two_values": {"values": f32(1, 1, 1, 1)},
        },
        examples=(
            Example(ROWS, [[0, 3, 2], [0, 1]], [[1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0]]),
            Example(COLUMNS, [[0, 2, 1, 0], [0, 1]], [[1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0]]),
            Example(OTHER_VALUES, [[0, 3, 2], [4, 2, 9]], [[2, 4, 4, 4, 4, 4, 4, 2, 4, 4, 2, 4]]),
            Example(SIGNED, [[-3, 100, 3], [0, 1]], [[0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]]),
        ),
        draw=draw,
        expected=lambda desc, i, v: oracle(i, v.reshape(-1), desc.output.sizes[desc.axis], desc.axis),
        leading={"axis": 1},
    ),
)


def test_on_is_the_second_element_along_the_last_dimension_that_has_one():
    desc = OneHotDesc(u32(1, 1, 1), f32(2, 2, 1), f32(1, 1, 3), axis=2)
    assert_same_bits(desc.compute(np.uint32([[[1]]]), np.float32([[[1], [2]], [[3], [4]]])), np.float32([[[1, 2, 1]]]))


test_what_the_struct_refuses = refuses(
    ROWS,
    ({"axis": 2}, r"IndicesTensor.Sizes must be OutputTensor.Sizes, but 1 along Axis, .* is not \(1, 1, 1, 4\)"),
    ({"values": f32(1, 1, 1, 1)}, "ValuesTensor must hold at least two elements, but it holds one"),
    ({"values": i32(1, 1, 1, 2)}, "OutputTensor.DataType must equal ValuesTensor.DataType"),
    ({"values": f32(2)}, "ValuesTensor.DimensionCount must equal IndicesTensor.DimensionCount"),
    ({"indices": i8(1, 1, 3, 1)}, "IndicesTensor.DataType must be one of INT64, INT32"),
)


# Against the oracle.


@every_small_shape
def test_every_small_shape(shapes):
    def calls():
        rng = np.random.default_rng(5)
        for shape in shapes:
            for axis, size in enumerate(shape):
                of_indices = (*shape[:axis], 1, *shape[axis + 1 :])
                for dtype, at in ((np.int32, axis), (np.int8, axis - len(shape))):
                    indices = indices_around(rng, size, of_indices, dtype)
                    yield partial(one_hot, size=size, axis=at), (indices, OFF_ON), oracle(indices, OFF_ON, size, at)

    assert_calls_agree(calls())


# Transformations.


def test_gradients_are_the_sums_of_what_is_off_and_on():
    weights = numbered((6, 4))
    on = oracle(LABELS, np.array([False, True]), 4, 1)
    wanted = np.float32([weights[~on].sum(), weights[on].sum()])
    assert_same_bits(jax.jit(jax.grad(lambda v: (one_hot(LABELS, v, 4, 1) * weights).sum()))(OFF_ON), wanted)


# How it runs.


@pytest.mark.thinned
@pytest.mark.variants
@pytest.mark.parametrize("size", [4, 12, 16, 32])
@pytest.mark.parametrize("dtype", ["uint8", "bfloat16", "float32"])
def test_one_row_in_quarters_that_may_not_be_whole_words(dtype, size):
    """A quarter of 12 bytes has three, which are no word."""
    values = np.asarray([3, 5], dtype)
    with use_form("fan_out"):
        assert_same_bits(one_hot(np.int32([2]), values, size, 0), oracle(np.int32([2]), values, size, 0))


# Explicit meshes.


def test_rows_are_sharded_by_out_sharding():
    x = on_explicit_mesh(LABELS, None, None)
    assert jax.typeof(one_hot(x, OFF_ON, 4, 1)).sharding.spec == P(None, None)
    made = one_hot(x, OFF_ON, 4, 1, out_sharding=jax.typeof(x).sharding.update(spec=P(None, "d")))
    assert_sharded(made, P(None, "d"), oracle(LABELS, OFF_ON, 4, 1))


def test_sharded_values_with_an_out_sharding():
    """Without one, JAX 0.12 infers a sharding, and older releases none."""
    values = on_explicit_mesh(OFF_ON, "d")
    made = one_hot(LABELS, values, 4, 1, out_sharding=jax.typeof(values).sharding.update(spec=P("d", None)))
    assert_same_bits(made, oracle(LABELS, OFF_ON, 4, 1))


# Mistakes.


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"indices": [[1.0]]}, DataTypeError, "indices must be an array"),
        ({"indices": LABELS > 0}, DataTypeError, "indices.dtype must be an integer type, but it is bool"),
        ({"values": (0, 1)}, DataTypeError, "values must be an array"),
        ({"values": OFF_ON[None]}, ConstraintError, r"values must hold two elements, .* its shape is \(1, 2\)"),
        ({"size": 4.0}, DataTypeError, "size must be an integer"),
        ({"size": -2}, ConstraintError, "size must be at least 0, but it is -2"),
        ({"size": 2**63}, ConstraintError, r"fewer than 2\*\*63 bytes"),
        ({"size": 2**31}, ConstraintError, "size 2147483648 needs 64-bit indices"),
        ({"axis": "1"}, DataTypeError, "axis must be an integer"),
        ({"axis": 0}, ConstraintError, "the size of indices along axis must be 1, but it is 6"),
    ],
)
def test_mistakes_are_named(change, error, match):
    with jax.enable_x64(False), pytest.raises(error, match=match):
        one_hot(**CASE.arguments | change)
