"""cast and CAST: numbers of one type as numbers of another; what a type does not hold becomes the nearest it does."""

from fractions import Fraction
from functools import partial

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import assert_calls_agree, assert_same_bits, sampled
from draws import dims
from operator_cases import Call, Example, Struct, f16, f32, i8, i32, u8, u64
from oracles import coordinates
from refusals import refuses
from small_arrays import INTEGERS, NARROW, numbered, random_keys

from dml_jax import CastDesc, ConstraintError, DataTypeError, TensorDesc, cast, compile_operator

pytestmark = pytest.mark.device


def oracle(input, dtype):
    output = np.empty(input.shape, dtype)
    for c in coordinates(input.shape):
        output[c] = number(input[c].item() if input.dtype.kind in "biufc" else float(input[c]), np.dtype(dtype))
    return output


def number(x, dtype):
    """A Python number as one of a type."""
    if dtype.kind == "b":
        return x != 0
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if isinstance(x, int):
            low = x % 2**limits.bits
            return low - 2**limits.bits if low > limits.max else low
        return 0 if x != x else limits.max if x > limits.max else limits.min if x < limits.min else int(x)
    if dtype.kind == "c":
        return x
    return x if isinstance(x, float) and (x - x != 0 or x == 0) else nearest(Fraction(x), ml_dtypes.finfo(dtype))


def nearest(x, limits):
    """The nearest float, of two the even one, by fractions: nothing is rounded on the way."""
    if x == 0:
        return 0.0
    exponent = abs(x.numerator).bit_length() - x.denominator.bit_length()
    exponent -= abs(x) < Fraction(2) ** exponent
    step = Fraction(2) ** (max(exponent, int(limits.minexp)) - int(limits.nmant))
    rounded = round(x / step) * step
    if abs(rounded) <= Fraction(float(limits.max)):
        return -0.0 if x < 0 and rounded == 0 else float(rounded)
    return float("-inf") if x < 0 else float("inf")


X = numbered((4, 6))
HALVES = X / 2 - 5
CASE = Call(cast, {"input": X}, {"dtype": np.dtype(np.float16)})
BREAKS = {"castable(input)": {"input": X.astype(np.complex64)}}
VARIANTS = {
    "the same": {"dtype": np.dtype(np.float32)},
    "signed": {"input": HALVES, "dtype": np.dtype(np.int8), "is_linear": False},
    "unsigned": {"input": HALVES, "dtype": np.dtype(np.uint16), "is_linear": False},
    "low bits": {"input": np.int32([[-1, 300], [2**31 - 1, -129]]), "dtype": np.dtype(np.int8), "is_linear": False},
    "bool": {"input": HALVES, "dtype": np.dtype(bool), "is_linear": False},
}


# The struct.


def fill(rng, port, tensor, count):
    """Floats of every size and around the limits of the integers; NaNs and subnormals have tests of their own."""
    if tensor.dtype.kind != "f":
        return None
    limits = np.finfo(tensor.dtype)
    exponents = rng.integers(max(limits.minexp, -120), min(limits.maxexp, 140) - 1, count)
    far = np.ldexp(1 + rng.random(count), np.where(rng.random(count) < 0.7, exponents % 70, exponents)) - 2
    with np.errstate(over="ignore"):
        edges = np.array(
            [0.0, -0.0, 0.5, 127.9, 128, 255.9, 256, 65519, 65520, 2.0**31, 2.0**32, 2.0**63, 2.0**64, np.inf]
        )
        numbers = np.where(rng.random(count) < 0.5, rng.choice(edges, count), far) * rng.choice([-1, 1], count)
        numbers = numbers.astype(tensor.dtype)
    return np.where(abs(numbers) < limits.tiny, tensor.dtype.type(0), numbers)


def draw(rng):
    sizes = dims(rng, int(rng.integers(1, 9)))
    return {"input": sizes, "output": sizes}


FLOATS = [-1.5, -1, -0.9, 0.5, 2.9, 255, 256, 300, 1e20, -1e20]
TEN = (1, 1, 2, 5)
UNSIGNED, SIGNED = (CastDesc(f32(*TEN), TensorDesc(name, TEN)) for name in ("UINT8", "INT8"))
STRUCTS = (
    Struct(
        UNSIGNED,
        breaks={"same_sizes(output, input)": {"output": u8(1, 2, 1, 5)}},
        # DirectML's page has none: these are what is chosen here.
        examples=(
            Example(UNSIGNED, [FLOATS], [[0, 0, 0, 0, 2, 255, 255, 255, 255, 0]]),
            Example(SIGNED, [FLOATS], [[-1, -1, 0, 0, 2, 127, 127, 127, 127, -128]]),
            Example(CastDesc(i8(1, 1, 1, 2), u8(1, 1, 1, 2)), [[-1, 5]], [[255, 5]]),
        ),
        draw=draw,
        expected=lambda desc, x: oracle(x, desc.output.dtype),
        fill=fill,
    ),
)


def test_both_tensors_have_a_type_of_their_own():
    desc = CastDesc(i32(2, 2, strides=(1, 2)), f16(2, 2, strides=(3, 1)))
    run = compile_operator(desc)
    assert [spec.dtype for spec in run.buffers.values()] == [np.int32, np.float16]
    assert_same_bits(run(np.int32([1, -2, 65519, 65520])), np.float16([1, 65504, 0, -2, np.inf]))


def test_64_bit_data_through_a_descriptor(x64):
    """Of one tensor or of both; while x64 is off buffers hold words."""
    whole, real = np.int64([-(2**63), 2**40 + 1, -1, 5]), np.float64([1e300, -1 - 2**-40, 2.0**63, np.nan])
    for array, name in ((whole, "INT64"), (real, "FLOAT64")):
        for target in ("FLOAT64", "INT64", "UINT64", "FLOAT32", "INT8"):
            desc = CastDesc(TensorDesc(name, (4,)), TensorDesc(target, (4,)))
            if name == "FLOAT64" == target or (array is real and target == "FLOAT32"):
                continue
            made = np.asarray(compile_operator(desc)(array))
            assert_same_bits(made.view(desc.output.dtype), oracle(array, desc.output.dtype))
    narrow = CastDesc(i8(2), u64(2))
    assert_same_bits(np.asarray(compile_operator(narrow)(np.int8([-1, 3]))).view(np.uint64), np.uint64([2**64 - 1, 3]))


def test_what_the_struct_refuses():
    with pytest.raises(ConstraintError, match=r"OutputTensor.Sizes must equal InputTensor.Sizes, but"):
        CastDesc(f32(2, 3), i8(3, 2))
    with pytest.raises(ConstraintError, match=r"OutputTensor.DimensionCount must equal InputTensor.DimensionCount"):
        CastDesc(f32(2, 3), i8(1, 2, 3))


# Against the oracle: what becomes of numbers.

WHOLE = [np.dtype(dtype) for dtype in (*INTEGERS, bool)]
FLOATING = [np.dtype(name) for name in ("float16", "float32", "float64")]
SMALL = [np.dtype(getattr(ml_dtypes, name)) for name in NARROW if name != "float8_e8m0fnu"]  # which has no zero


def telling(dtype):
    """Numbers of a type: its limits, those of all integers, and what lies beside."""
    if dtype.kind == "b":
        return np.array([False, True])
    powers = [2**k for k in (0, 1, 3, 4, 6, 7, 8, 10, 11, 15, 16, 24, 25, 31, 32, 53, 62, 63, 64)]
    around = [0, *(n + more for n in powers for more in (-1, 0, 1))]
    around += [65504, 65519, 65520, 130285569, 2084569089]
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        numbers = {limits.max, limits.min, *(s * n for s in (1, -1) for n in around)}
        return np.array(sorted(n for n in numbers if limits.min <= n <= limits.max), dtype)
    around += [0.5, 0.9, 1.5, 2.9, 127.99, 255.5, 1e20, 3.4e38, 1e-5, 6e-8, 2.9802322e-08, float("inf")]
    with np.errstate(over="ignore"):
        return np.array([s * float(n) for s in (1, -1) for n in around]).astype(dtype)


FEW = [dtype for dtype in SMALL if dtype.name in ("bfloat16", "float8_e4m3fn")]
SOURCES = WHOLE + FLOATING + SMALL
# Signed and not, of every width, and floats of every kind.
SOURCES_SAMPLE = [*map(np.dtype, ("int8", "uint16", "uint64", "bool", "float16", "float32", "float64")), *FEW]


@pytest.mark.thinned(4)
@pytest.mark.parametrize("source", sampled(SOURCES, SOURCES_SAMPLE), ids=str)
def test_every_type_as_every_other(source, exhaustive):
    """Numbers alone: where a type has no infinity, NaN takes its place."""
    x = telling(source)
    with jax.enable_x64(True):
        targets = WHOLE + FLOATING + (SMALL if exhaustive else FEW)
        made = jax.device_get(jax.jit(lambda x: [cast(x, dtype) for dtype in targets])(x))
    for dtype, output in zip(targets, made, strict=True):
        assert output.dtype == dtype
        wanted = oracle(x, dtype)
        if dtype in SMALL:
            output, wanted = (np.asarray(y, np.float64) for y in (output, wanted))
        same = (output == wanted) | ((output != output) & (wanted != wanted))
        assert same.all(), (dtype, x[~same], output[~same], wanted[~same])


def between(dtype, count=200):
    """Halfway between two floats of a type, and so little above and below that float32 does not tell it apart."""
    bits = np.random.default_rng(3).integers(0, 2**15, count).astype(np.uint16)
    lower = bits.view(dtype).astype(np.float64)
    upper = (bits + np.uint16(1)).view(dtype).astype(np.float64)
    some = np.isfinite(lower) & np.isfinite(upper) & (lower > 1e-30)
    half = (lower[some] + upper[some]) / 2
    return np.concatenate([half * (1 + e) for e in (0, 2**-26, -(2**-26), 2**-40, -(2**-40), 2**-52)])


@pytest.mark.thinned(2)
@pytest.mark.parametrize("dtype", [np.dtype(np.float16), np.dtype(jnp.bfloat16)], ids=str)
def test_numbers_are_rounded_once(dtype):
    """Not first to float32 and then again."""
    reals = between(dtype)
    with jax.enable_x64(True):
        assert_same_bits(cast(reals, dtype), oracle(reals, dtype))
        for integers in (np.int32, np.uint32, np.int64, np.uint64):
            limits = np.iinfo(integers)
            some = reals[(reals >= 2**9) & (reals < float(limits.max) / 2)].astype(integers)
            some = np.concatenate([some, some + integers(1), some - integers(1), limits.max - some])
            some = np.concatenate([some, ~some]) if limits.min else some
            assert_same_bits(cast(some, dtype), oracle(some, dtype))


@pytest.mark.parametrize("name", ["uint8", "int8", "int32"])
def test_floats_as_integers(name):
    """Alike whatever the type of float, one by one and in a program with others."""
    x = np.array([-1.5, -1, -0.9, 0.5, 2.9, 255, 256, 300, 1e20, -1e20, np.inf, -np.inf, np.nan])
    wanted = {
        "uint8": [0, 0, 0, 0, 2, 255, 255, 255, 255, 0, 255, 0, 0],
        "int8": [-1, -1, 0, 0, 2, 127, 127, 127, 127, -128, 127, -128, 0],
        "int32": [-1, -1, 0, 0, 2, 255, 256, 300, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 0],
    }[name]
    wanted = np.array(wanted, name)
    assert_same_bits(cast(x.astype(np.float32), name), wanted)
    assert_same_bits(jax.jit(lambda x: cast(x + jnp.zeros_like(x), name))(x.astype(np.float32)), wanted)
    with jax.enable_x64(True):
        assert_same_bits(cast(x, name), wanted)
    if name != "int32":
        with np.errstate(over="ignore"):
            assert_same_bits(cast(x.astype(np.float16), name), wanted)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2"])
def test_four_and_two_bit_integers(name):
    dtype = np.dtype(getattr(ml_dtypes, name))
    bits, signed = int(name[-1]), name.startswith("i")
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    x = np.float32([-9, -1.5, 0, 1, 2, 3.5, 7.9, 8, 16, np.nan])
    wanted = np.where(np.isnan(x), 0, np.clip(np.trunc(x), low, high)).astype(np.int32)
    assert_same_bits(cast(cast(x, dtype), np.int32), wanted)
    whole = np.arange(-20, 20, dtype=np.int32)
    assert_same_bits(cast(cast(whole, dtype), np.int32), (whole - low) % 2**bits + low)


def test_bits_of_floats():
    """-0.0, subnormals and NaN; a type as itself is copied."""
    x = np.array([0x80000000, 0x7FC01234, 0xFF800001, 1, 0x80000001], np.uint32).view(np.float32)
    assert_same_bits(cast(x, np.float32), x)
    patterns = np.arange(2**16, dtype=np.uint16)
    for dtype in (np.dtype(np.float16), np.dtype(jnp.bfloat16)):
        narrow = patterns.view(dtype)
        assert_same_bits(cast(narrow, dtype), narrow)
        with np.errstate(invalid="ignore"):  # signalling NaNs
            some = np.isnan(narrow)
        numbers, nans = narrow[~some], narrow[some]
        wide = cast(numbers, np.float32)
        assert_same_bits(wide, numbers.astype(np.float32))
        assert_same_bits(cast(wide, dtype), numbers)
        assert np.isnan(cast(nans, np.float32)).all()
    assert_same_bits(cast(np.float32([-0.0, -1e-30]), np.float16), np.float16([-0.0, -0.0]))


def test_bool_is_whether_a_number_is_not_0(x64):
    dtypes = [np.float32, np.float16, jnp.bfloat16, jnp.float8_e5m2, *([np.float64] if x64 else [])]
    cases = [(np.uint8([0, 2, 255]), [False, True, True])]
    for dtype in map(np.dtype, dtypes):
        least = np.array([0, 1], f"uint{8 * dtype.itemsize}").view(dtype)
        cases += [(least, [False, True]), (np.array([-0.0, np.nan, 0.5]).astype(dtype), [False, True, True])]
    assert_calls_agree((partial(cast, dtype=bool), (x,), np.array(wanted)) for x, wanted in cases)
    assert_same_bits(cast(np.array([True, False]), jnp.bfloat16), np.array([1, 0], jnp.bfloat16))


def test_complex_numbers():
    x = np.complex64([1 + 2j, -0.0 - 3j])
    assert_same_bits(cast(x, np.complex64), x)
    assert_same_bits(cast(np.float32([1, -2]), np.complex64), np.complex64([1, -2]))
    with jax.enable_x64(True):
        assert_same_bits(cast(x, np.complex128), x.astype(np.complex128))
    for dtype in (np.float32, np.int8, bool):
        with pytest.raises(DataTypeError, match=r"it is complex64, whose imaginary part .* cannot hold"):
            cast(x, dtype)


@pytest.mark.parametrize("dtype", ["int8", "float16", "bool"])
def test_ranks_and_empty_arrays(dtype):
    assert_calls_agree(
        (partial(cast, dtype=dtype), (numbered(shape),), oracle(numbered(shape), dtype))
        for shape in [(), (1,), (0,), (2, 0, 3), (2, 1, 3), (1,) * 8]
    )


# Transformations.


def test_gradients_are_converted_back(x64):
    weights = X.astype(np.float16)
    back = jax.jit(jax.grad(lambda x: (cast(x, np.float16) * weights).sum().astype(np.float32)))(X)
    assert_same_bits(back, X)
    for dtype in (np.int32, bool):  # none flows through them
        back = jax.jit(jax.grad(lambda x, d=dtype: (x * cast(cast(x, d), np.float32)).sum()))(X)
        assert_same_bits(back, oracle(X, dtype).astype(np.float32))
    if x64:
        wide = X.astype(np.float64)
        for target in (np.float16, np.float32, jnp.bfloat16):
            cotangents, call = X.astype(target), partial(cast, dtype=target)

            def both_ways(x, cotangents, call=call):
                back, transpose = jax.vjp(call, x)[1], jax.linear_transpose(call, x)
                return back(cotangents)[0], transpose(cotangents)[0], jax.jvp(call, (x,), (x,))[1]

            back, transposed, tangent = jax.jit(both_ways)(wide, cotangents)
            assert_same_bits(back, wide)
            assert_same_bits(transposed, wide)
            assert_same_bits(tangent, cotangents)


# Mistakes.


@pytest.mark.parametrize(
    "dtype", ["float7", None, object, "S3", "datetime64[s]", 3, "V4", np.dtype([("a", "i4")]), np.longdouble, X]
)
def test_what_is_no_type_is_refused(dtype):
    with pytest.raises(
        DataTypeError, match=r"^cast: dtype must be a type that JAX has, such as jnp.bfloat16 or 'uint8'"
    ):
        cast(X, dtype)


test_mistakes_are_named = refuses(
    CASE,
    ({"input": [1.5]}, "input must be an array"),
    ({"dtype": np.int64}, "dtype of 64 bits needs 64-bit types"),
    ({"input": np.arange(3)}, "input of type int64 needs 64-bit types"),
    ({"input": random_keys()}, r"input.dtype must have numbers .* it is key<fry>, whose elements are not numbers"),
    error=DataTypeError,
)


def test_every_way_to_name_a_type():
    for dtype in (np.uint8, "uint8", np.dtype("uint8"), jnp.uint8, jnp.dtype("uint8")):
        assert_same_bits(cast(X, dtype), X.astype(np.uint8))
    assert cast(X, ">f4").dtype == np.float32
