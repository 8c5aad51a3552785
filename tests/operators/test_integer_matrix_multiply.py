"""Products of matrices of integers: Python's integers, then float32."""

from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pytest
from checks import assert_same_bits, together
from draws import dims
from operator_cases import Example, Struct, f16, f32, i8, i32, u8
from oracles import coordinates
from quantization_cases import at, centred, fill, quantized, wrapped
from refusals import refuses

from dml_jax import ConstraintError, DataTypeError, TensorDesc, compile_operator
from dml_jax.descs import MatrixMultiplyIntegerDesc, MatrixMultiplyIntegerToFloatDesc, QuantizedLinearMatrixMultiplyDesc
from dml_jax.operations.values.xla_workarounds import int8_product
from dml_jax.operators._quantization import multiply_integers

pytestmark = pytest.mark.device


def product(a, a_zero_point, b, b_zero_point):
    """One product after the other; the sum wraps in 32 bits."""
    a, b = centred(a, a_zero_point), centred(b, b_zero_point)
    output = np.empty((*a.shape[:-1], b.shape[-1]), np.int32)
    for *batch, m, n in coordinates(output.shape):
        output[*batch, m, n] = wrapped(sum(a[*batch, m, k] * b[*batch, k, n] for k in range(a.shape[-1])))
    return output


@np.errstate(all="ignore")
def scaled(output, *scales):
    """In float32; scales are multiplied in this order."""
    real = np.empty(output.shape, np.float32)
    for c in coordinates(output.shape):
        real[c] = np.float32(output[c])
        for scale in scales:
            real[c] *= np.float32(at(scale, c, output.shape))
    return real


@np.errstate(all="ignore")
def requantized(desc, a, a_scale, a_zero_point, b, b_scale, b_zero_point, scale, zero_point):
    whole = product(a, a_zero_point, b, b_zero_point)
    both = np.array([scaled(np.ones_like(whole), a_scale, b_scale)[c] for c in coordinates(whole.shape)], np.float32)
    return quantized(whole.astype(np.float32) * both.reshape(whole.shape), scale, zero_point, desc.output.dtype)


@np.errstate(all="ignore")
def real(desc, a, a_scale, a_zero_point, b, b_scale, b_zero_point, bias):
    made = scaled(product(a, a_zero_point, b, b_zero_point), a_scale, b_scale)
    made = made if bias is None else made + bias.astype(np.float32)
    return made.astype(desc.output.dtype)


def parameter(rng, sizes, axis):
    """The sizes of a scale or a zero point, of any rank: of one number, or of one for each row or column."""
    if rng.random() < 0.5:
        return (1,) * int(rng.integers(1, 5))
    own = (1,) * 4 + tuple(n if d == axis % len(sizes) else 1 for d, n in enumerate(sizes))
    return own[-int(rng.integers(-axis, 5)) :]


def draw(rng, *tensors, scaled=True, biased=False):
    *batch, m, n, k = dims(rng, int(rng.integers(3, 6)), 60)
    sizes = {"a": (*batch, m, k), "b": (*batch, k, n), "output": (*batch, m, n)}
    drawn = dict(sizes)
    for tensor in tensors:
        axis = -1 if tensor == "b" else -2
        drawn[f"{tensor}_zero_point"] = parameter(rng, sizes[tensor], axis) if rng.random() < 0.7 else None
        if scaled:
            drawn[f"{tensor}_scale"] = parameter(rng, sizes[tensor], axis)
    return drawn | ({"bias": sizes["output"] if rng.random() < 0.5 else None} if biased else {})


def breaks(*tensors, scaled=True):
    """Of the sizes and of what each tensor has; all have 2 rows, 3 columns."""
    found = {
        "same_batch(b, a)": {"b": i8(1, 2, 2, 3)},
        "same_inner_size(a, b)": {"b": i8(1, 1, 3, 3)},
        "sizes_follow(output)": {"output": i8(1, 1, 3, 3)},
    }
    for tensor in tensors:
        name = f"{tensor}_zero_point"
        found[f"same_dtype({name}, {tensor})"] = {name: TensorDesc("INT16", (1, 1, 1, 1))}
        names = (f"{tensor}_scale", name) if scaled else (name,)
        found |= {f"sizes({one})": {one: u8(1, 1, 1, 2) if tensor != "b" else u8(1, 1, 2, 1)} for one in names}
        found |= {f"rank_within({one}, 1, 4)": {one: u8(1, 1, 1, 1, 1)} for one in names}
    return found


A, B, U1, ROWS, COLUMNS = u8(1, 1, 2, 2), i8(1, 1, 2, 3), u8(1, 1, 1, 1), (1, 1, 2, 1), (1, 1, 1, 3)
WHOLE = MatrixMultiplyIntegerDesc(A, u8(*ROWS), B, i8(*COLUMNS), i32(1, 1, 2, 3))
ONE = f32(1, 1, 1, 1)
LINEAR = QuantizedLinearMatrixMultiplyDesc(A, f32(*ROWS), U1, B, f32(*COLUMNS), i8(1, 1, 1, 1), ONE, U1, u8(1, 1, 2, 3))
REAL = MatrixMultiplyIntegerToFloatDesc(
    i8(1, 1, 2, 2), ONE, i8(1, 1, 1, 1), B, f32(*COLUMNS), i8(*COLUMNS), f32(1, 1, 2, 3), f32(1, 1, 2, 3)
)
ROW = MatrixMultiplyIntegerDesc(u8(1, 3), u8(1), u8(3, 1), u8(1), i32(1, 1))
INPUTS, TENSORS = ("a", "b"), ("a", "b", "output")
STRUCTS = (
    Struct(
        WHOLE,
        breaks=breaks(*INPUTS, scaled=False),
        # DirectML's page has none.
        examples=(
            Example(
                WHOLE,
                [[130, 120, 0, 255], [128, 0], [1, 2, 3, 4, 5, 6], [0, 1, 2]],
                [[-30, -30, -30, 1020, 1020, 1020]],
            ),
            Example(ROW, [[0, 128, 255], [128], [7, 8, 9], [8]], [[255]]),
        ),
        draw=lambda rng: draw(rng, *INPUTS, scaled=False),
        expected=lambda desc, *arrays: product(*arrays),
        typed=lambda types: {f"{name}_zero_point": types[name] for name in INPUTS},
    ),
    Struct(
        LINEAR,
        breaks=breaks(*TENSORS),
        examples=(
            Example(
                LINEAR,
                [[130, 120, 0, 255], [0.5, 2], [128], [1, 2, 3, 4, 5, 6], [1, 2, 4], [0], [0.5], [10]],
                [[0, 0, 0, 255, 255, 255]],
            ),
            Example(
                LINEAR,
                [[130, 128, 127, 131], [0.5, 2], [128], [1, 2, 3, 4, 5, 6], [1, 2, 0.25], [0], [8], [10]],
                [[10, 10, 10, 13, 16, 11]],
            ),
        ),
        draw=lambda rng: draw(rng, *TENSORS),
        expected=requantized,
        fill=fill,
        typed=lambda types: {f"{name}_zero_point": types[name] for name in TENSORS},
    ),
    Struct(
        REAL,
        breaks=breaks(*INPUTS)
        | {
            "same_dtype(b_scale, a_scale)": {"b_scale": TensorDesc("FLOAT16", COLUMNS)},
            "sizes_follow(bias)": {"bias": f32(1, 1, 2, 1)},
            "same_dtype(bias, a_scale)": {"bias": f16(1, 1, 2, 3)},
            "same_dtype(a_scale, output)": {"output": f16(1, 1, 2, 3)},
        },
        examples=(
            Example(
                REAL,
                [[1, 2, 3, 4], [0.5], [1], [1, 2, 4, 4, 5, 7], [1, 2, 4], [0, 0, 1], [0, 0, 0, 100, 100, 100]],
                [[2, 5, 12, 107, 119, 148]],
            ),
        ),
        draw=lambda rng: draw(rng, *INPUTS, biased=True),
        expected=real,
        fill=fill,
        typed=lambda types: dict.fromkeys(("b_scale", "bias", "output"), types["a_scale"]),
    ),
)


def test_sums_wrap_in_32_bits():
    """Of 2**16 products of 255 by 255 the sum has more."""
    a, b = np.full((1, 2**16), 255, np.uint8), np.full((2**16, 1), 255, np.uint8)
    desc = MatrixMultiplyIntegerDesc(u8(1, 2**16), None, u8(2**16, 1), None, i32(1, 1))
    assert_same_bits(desc.compute(a, b), np.int32([[wrapped(2**16 * 255 * 255)]]))
    zero = np.uint8([0])
    same = MatrixMultiplyIntegerDesc(u8(1, 2**16), u8(1), u8(2**16, 1), u8(1), i32(1, 1))
    assert_same_bits(same.compute(a, zero, b, zero), np.int32([[wrapped(2**16 * 255 * 255)]]))


@pytest.mark.thinned(2)
@pytest.mark.parametrize("dtypes", [(np.int8, np.int8), (np.uint8, np.int8), (np.uint8, np.uint8)], ids=str)
def test_products_of_bytes_are_exact(dtypes):
    """Also where float32 would not hold the sum, whichever are subtracted from."""
    a, b = (np.full(shape, np.iinfo(of).max, of) for shape, of in zip(((3, 1001), (1001, 2)), dtypes, strict=True))
    a, b = a - np.arange(3, dtype=a.dtype)[:, None], b - np.arange(2, dtype=b.dtype)
    wanted = (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)
    of_a, of_b = TensorDesc(a.dtype, a.shape), TensorDesc(b.dtype, b.shape)
    assert_same_bits(MatrixMultiplyIntegerDesc(of_a, None, of_b, None, i32(3, 2)).compute(a, b), wanted)
    one = TensorDesc(b.dtype, (1,))
    desc = MatrixMultiplyIntegerDesc(of_a, None, of_b, one, i32(3, 2))
    shifted = (a.astype(np.int64) @ (b.astype(np.int64) - 5)).astype(np.int32)
    assert_same_bits(desc.compute(a, b, np.array([5], b.dtype)), shifted)


def test_products_of_small_odd_sizes_are_exact():
    """XLA:GPU has instructions for multiples of four alone."""
    rng = np.random.default_rng(0)
    matrices = [
        [rng.integers(-128, 128, shape, np.int8) for shape in ((batch, m, k), (batch, k, n))]
        for batch, m, k, n in rng.integers(1, 9, (12, 4))
    ]
    calls = [(int8_product, a, b) for a, b in matrices]
    calls += [(partial(int8_product, is_transposed=True), a, b[0].T) for a, b in matrices]
    wanted = [a.astype(np.int32) @ b.astype(np.int32) for a, b in matrices]
    wanted += [a.astype(np.int32) @ b[0].astype(np.int32) for a, b in matrices]
    for product, one in zip(together(calls), wanted, strict=True):
        assert_same_bits(product, one)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("zero_points", [(None, None), (9, None), (None, 5), (100, 3)], ids=str)
@pytest.mark.parametrize("count", [1, 2])
def test_few_rows_by_a_large_matrix_are_exact(count, dtype, zero_points):
    """With the greatest products, also of more rows by jax.vmap, whether the matrix is data or a constant."""
    rng, limits = np.random.default_rng(0), np.array([np.iinfo(dtype).min, np.iinfo(dtype).max], dtype)
    a, b = (rng.choice(limits, shape) for shape in ((count, 255), (255, 520)))
    p, q = (None if number is None else np.array(number, dtype) for number in zero_points)
    exact = (a.astype(int) - (p or 0)) @ (b.astype(int) - (q or 0))
    of_data = lambda a, b: multiply_integers(a, p, b, q)  # noqa: E731
    of_constant = lambda a: multiply_integers(a, p, b, q)  # noqa: E731
    rows = np.stack([a, a])
    calls = (of_data, a, b), (of_constant, a), (jax.vmap(of_data, (0, None)), rows, b), (jax.vmap(of_constant), rows)
    for actual in (*together(calls), of_constant(a)):
        assert_same_bits(actual, np.broadcast_to(exact, actual.shape).astype(np.int32))


SHAPES = [
    ((1, 9), (9, 5)),
    ((4, 7), (7, 1)),
    ((2, 3, 6), (2, 6, 4)),
    ((3, 8), (2, 8, 5)),
    ((2, 1, 8), (8, 3)),
    ((1, 1), (1, 1)),
]


@pytest.mark.device
@pytest.mark.parametrize("per_row", [False, True])
def test_zero_points_of_rows_are_exact(per_row):
    """Of matrices and batches, of single rows too: the sums of columns are subtracted."""
    rng, calls, wanted = np.random.default_rng(1), [], []
    for of_a, of_b in SHAPES:
        a, b = rng.integers(0, 256, of_a, np.uint8), rng.integers(-128, 128, of_b, np.int8)
        zero = rng.integers(0, 256, (*of_a[:-1], 1) if per_row else (1, 1), np.uint8)
        calls.append((lambda a, b, zero: multiply_integers(a, zero, b, None), a, b, zero))
        wanted.append((a.astype(np.int32) - zero) @ b.astype(np.int32))
    for product, expected in zip(together(calls), wanted, strict=True):
        assert_same_bits(product, expected)


def test_integers_of_32_bits_wrap():
    desc = MatrixMultiplyIntegerToFloatDesc(i32(1, 1), f32(1), None, i32(1, 1), f32(1), None, None, f32(1, 1))
    one = np.float32([1])
    assert_same_bits(
        desc.compute(np.int32([[2**20]]), one, np.int32([[2**11 + 1]]), one), np.float32([[-(2**31) + 2**20]])
    )


def test_a_matrix_is_broadcast_by_strides():
    a, b = np.arange(12, dtype=np.uint8), np.int8([1, -2, 3, 4, 5, -6])
    desc = MatrixMultiplyIntegerDesc(u8(2, 2, 3), None, i8(2, 3, 2, strides=(0, 1, 3)), None, i32(2, 2, 2))
    wanted = a.reshape(2, 2, 3).astype(int) @ b.reshape(2, 3).T
    assert_same_bits(compile_operator(desc)(a, b), wanted.astype(np.int32).ravel())


def test_older_levels_want_other_ranks():
    flat = replace(WHOLE, b_zero_point=i8(3))
    flat.validate("5_2")
    with pytest.raises(
        ConstraintError, match=r"BZeroPointTensor.DimensionCount must be in \[2, 4\] below feature level"
    ):
        flat.validate("5_1")
    with pytest.raises(ConstraintError, match=r"AZeroPointTensor.DimensionCount must be 4 below feature level 4_0"):
        replace(WHOLE, a_zero_point=u8(1, 2, 1)).validate("3_1")
    WHOLE.validate("2_1")


test_mistakes_are_named = refuses(
    WHOLE,
    ({"a_zero_point": u8(2)}, ConstraintError, r"AZeroPointTensor.Sizes must be 1; along dimension -2 .*\(2,\)"),
    ({"a_zero_point": u8(1, 3, 1)}, ConstraintError, r"\(1, 3, 1\), and there are 2 rows"),
    ({"b": i8(2, 3)}, ConstraintError, "BTensor.DimensionCount must equal ATensor.DimensionCount"),
    ({"b": i8(1, 1, 3, 3)}, ConstraintError, "ATensor must have as many columns as BTensor rows, but there are 2"),
    ({"a_zero_point": i8(1)}, DataTypeError, "AZeroPointTensor.DataType must equal ATensor.DataType"),
    ({"output": f32(1, 1, 2, 3)}, DataTypeError, "OutputTensor.DataType must be one of INT32 at feature level"),
    says="^MATRIX_MULTIPLY_INTEGER: .*",
)
