"""Cases shared by cumulative_summation and cumulative_product."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from catalogue_cases import ORACLES
from checks import (
    assert_close,
    assert_same_bits,
    exported,
    refused_without_x64,
    sampled,
    spread,
    together,
)
from operator_cases import f32, i32, u64
from small_arrays import numbered, random_keys
from variant_cases import chosen_on

from dml_jax import (
    AxisDirection,
    ConstraintError,
    CumulativeProductDesc,
    CumulativeSummationDesc,
    DataTypeError,
    compile_operator,
    cumulative_product,
    cumulative_summation,
    use_form,
)
from dml_jax.lowering.cpu import cache_chunks

pytestmark = pytest.mark.device

FUNCTIONS = (cumulative_summation, cumulative_product)
STRUCTS = (CumulativeSummationDesc, CumulativeProductDesc)
every_function = pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
every_struct = pytest.mark.parametrize("struct", [CumulativeSummationDesc, CumulativeProductDesc])
X = numbered((4, 6)) % 5 - 2


def oracle(function, *args, **kwargs):
    return ORACLES[function.__name__](*args, **kwargs)


# Types.


@pytest.mark.thinned(2)
@every_function
@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_integers_wrap(function, name):
    x = np.random.default_rng(3).integers(0, 256, (5, 7 * np.dtype(name).itemsize), np.uint8).view(name)
    for axis, direction in ((0, "increasing"), (1, "decreasing")):
        assert_same_bits(function(x, axis, direction=direction), oracle(function, x, axis, direction))


@every_function
@pytest.mark.parametrize("name", ["int4", "uint4"])
def test_integers_of_four_bits_wrap(function, name):
    dtype = np.dtype(getattr(ml_dtypes, name))
    x = np.random.default_rng(4).integers(0, 16, 20)
    wide = oracle(function, x, 0, exclusive=True)
    assert_same_bits(function(x.astype(dtype), 0, exclusive=True), wide.astype(np.int8).astype(dtype))


@every_function
def test_complex_numbers(function):
    x = (X + 1j * X[::-1]).astype(np.complex64)
    for exclusive in (False, True):
        assert_same_bits(function(x, 1, exclusive=exclusive), oracle(function, x, 1, exclusive=exclusive))


@pytest.mark.parametrize(("function", "struct"), [*zip(FUNCTIONS, STRUCTS, strict=True)])
def test_64_bit_integers_need_x64_in_a_function_and_not_in_a_descriptor(function, struct, x64):
    """There too they are numbers: a carry goes from the low word to the high one."""
    x = np.uint64([[2**32 - 1, 2**32 + 1, 2**63, 3], [5, 2**40, 2**24, 2**63 + 1]])
    desc = struct(u64(2, 4), u64(2, 4, strides=(1, 2)), 1, "DECREASING", False)
    made = np.asarray(compile_operator(desc)(x.ravel())).view(np.uint64)
    assert_same_bits(made.reshape(4, 2).T, oracle(function, x, 1, "decreasing"))
    with refused_without_x64("input of type uint64"):
        assert_same_bits(function(x, 1), oracle(function, x, 1))
        assert function(X.astype(np.float64), 0).dtype == np.float64


@every_struct
def test_in_place(struct):
    """The output may be the buffer of an input that is laid out like it, also with gaps."""
    tensor = f32(2, 2, strides=(3, 1))
    x = jnp.array(np.float32([1, 2, -9, 3, 4]))
    made = compile_operator(struct(tensor, tensor, 0, "INCREASING", False))(x, out=x)
    assert x.is_deleted()
    assert_same_bits(made, np.float32([1, 2, -9, *((4, 6) if struct is CumulativeSummationDesc else (3, 8))]))


# Shapes and transformations.


@every_function
def test_empty_arrays(function):
    for shape, axis in (((0,), 0), ((0, 3), 0), ((0, 3), 1), ((3, 0), 0)):
        for exclusive in (False, True):
            assert function(np.zeros(shape, np.float32), axis, exclusive=exclusive).shape == shape


@every_function
def test_many_dimensions(function):
    x = X.reshape(1, 2, 2, 1, 3, 1, 2, 1)
    for axis in range(8):
        assert_same_bits(function(x, axis, exclusive=True), oracle(function, x, axis, exclusive=True))


@every_function
def test_vmap_over_any_axis(function):
    batch = np.stack([X, X + 1, -X], 1)
    mapped = jax.vmap(lambda x: function(x, 0, direction="decreasing"), in_axes=1, out_axes=2)(batch)
    for i in range(3):
        assert_same_bits(mapped[:, :, i], oracle(function, batch[:, i], 0, "decreasing"))


@every_function
def test_a_symbolic_axis_is_exported(function):
    call = exported(lambda x: function(x, 0, exclusive=True), "n, 6").call
    assert_same_bits(call(X), oracle(function, X, 0, exclusive=True))


# Mistakes.


@every_function
@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"input": [1.0]}, DataTypeError, "input must be an array"),
        (
            {"input": random_keys(1)},
            DataTypeError,
            "must be a numeric type.* key<fry>, whose elements are not numbers",
        ),
        ({"input": X.astype(jnp.float8_e8m0fnu)}, DataTypeError, "it is float8_e8m0fnu, which has no 0"),
        ({"axis": 2**63}, ConstraintError, r"axis must be in \[-input.rank, input.rank\), but it is 92233720"),
        ({"axis": -3}, ConstraintError, "it is -3 and the rank is 2"),
        ({"axis": 1.0}, DataTypeError, "axis must be an integer, but it is 1.0"),
        ({"axis": (0, 1)}, DataTypeError, r"axis must be an integer, but it is \(0, 1\)"),
        ({"direction": "DECREASING"}, ConstraintError, "direction must be one of 'increasing', 'decreasing', but"),
        ({"direction": AxisDirection.DECREASING}, DataTypeError, "direction must be a string, but it is DECREASING"),
        ({"exclusive": 1}, DataTypeError, "exclusive must be True or False, but it is 1"),
    ],
)
def test_mistakes_are_named(function, change, error, match):
    with pytest.raises(error, match=f"^{function.__name__}: .*{match}"):
        function(**{"input": X, "axis": 0} | change)


@every_struct
@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"axis": 2}, r"Axis must be in \[0, InputTensor.DimensionCount\), but it is 2 and there are 2 dimensions"),
        ({"axis": -1}, r"Axis must be in \[0, 2\*\*32 - 1\]"),
        (
            {"axis_direction": "increasing"},
            "AxisDirection must be one of INCREASING, DECREASING, but it is 'increasing'",
        ),
        ({"output": f32(3, 2)}, r"OutputTensor.Sizes must equal InputTensor.Sizes"),
        ({"output": i32(2, 3)}, "OutputTensor.DataType must equal InputTensor.DataType"),
        ({"exclusive": 2}, r"HasExclusive(Sum|Product) must be True or False, but it is 2"),
    ],
)
def test_what_the_struct_refuses(struct, change, match):
    tensor = f32(2, 3)
    fields = {"input": tensor, "output": tensor, "axis": 0, "axis_direction": 0, "exclusive": False} | change
    with pytest.raises(ConstraintError, match=match):
        struct(*fields.values())


# Long rows, which a CPU combines one by one.

LONG_ROWS = [((5, 1024), 0), ((2, 7, 16, 64), 1), ((3, 4, 2, 100), -2)]
NUMBERS = ["bool", "uint8", "int32", "float16", "bfloat16", "float32", "complex64"]


def in_steps(shape, dtype):
    """Ones, twos and their negatives, whose sums and products are exact."""
    if dtype == "bool":
        return np.random.default_rng(6).random(shape) < 0.7
    return (
        np.random.default_rng(6)
        .choice([1, 1, 2] if dtype == "uint8" else [-1, 1, 1, 2], shape)
        .astype(jnp.dtype(dtype))
    )


@pytest.mark.thinned(26)
@every_function
@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize(("shape", "axis"), LONG_ROWS)
def test_long_rows_are_combined_as_short_ones(function, shape, axis, dtype):
    x = in_steps(shape, dtype)
    for direction, exclusive in (("increasing", False), ("decreasing", True)):
        options = {"direction": direction, "exclusive": exclusive}
        with use_form("plain"):
            expected = function(x, axis, **options)
        with use_form("row_by_row"):
            actual = function(x, axis, **options)
        if dtype == "complex64":  # whose products have zeros of either sign, by their order
            np.testing.assert_array_equal(actual, expected)
        else:
            assert_same_bits(actual, expected)
        if dtype == "float32":
            np.testing.assert_array_equal(expected, oracle(function, x, axis, **options))
            zeros = -np.zeros_like(x)
            with use_form("plain"):
                expected = function(zeros, axis, **options)
            with use_form("row_by_row"):
                assert_same_bits(function(zeros, axis, **options), expected)


@every_function
def test_nothing_of_four_bits_is_padded_on_a_gpu(function):
    """XLA:GPU ends the process over it."""
    traced = jax.jit(lambda x: function(x, 0, exclusive=True)).trace(jnp.ones((8, 2048), jnp.int4))
    pads = re.findall(r"stablehlo\.pad.*", traced.lower(lowering_platforms=("cuda",)).as_text())
    assert pads
    assert not any("xi4>" in pad for pad in pads)


@every_function
def test_derivatives_of_long_rows(function):
    rng = np.random.default_rng(7)
    x, dx = (1 + 0.1 * rng.standard_normal((2, 6, 1024)).astype(np.float32) for _ in range(2))

    def run(x):
        return function(x, 0, direction="decreasing")

    def of_each(x):
        y, tangent = jax.jvp(run, (x,), (dx,))
        return y, tangent, jax.vjp(run, x)[1](y)[0]

    with use_form("row_by_row"):
        found = jax.jit(of_each)(x)
        mapped = jax.jit(jax.vmap(run))(x.reshape(2, 3, 2, 1024))
    with use_form("plain"):
        expected, of_parts = jax.jit(of_each)(x), jax.vmap(run)(x.reshape(2, 3, 2, 1024))
    for one, other in zip((*found, mapped), (*expected, of_parts), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


# Forms of sums.

FORMED = ["float32", "float16", "bfloat16", "float8_e5m2"]


def added(x, axis, direction, exclusive):
    """By NumPy; the oracle takes time by the square of an axis."""
    x = x if direction == "increasing" else np.flip(x, axis)
    sums = np.cumsum(x, axis) - (x if exclusive else 0)
    return sums if direction == "increasing" else np.flip(sums, axis)


@pytest.mark.parametrize(("dtype", "which"), spread(FORMED, FORMED, 14))
def test_sums_by_products_with_matrices(dtype, which, monkeypatch):
    """Of several chunks and of one row that fills more; of fewer elements than a block, of several blocks of blocks."""
    monkeypatch.setattr(cache_chunks, "CHUNK", 2**14)
    rng = np.random.default_rng(8)
    ways = [{"direction": d, "exclusive": e} for d in ("increasing", "decreasing") for e in (False, True)]
    shapes = [(7, 33), (3, 5, 300, 1), (2, 5000), (64, 64), (4, 1), (1,), (2, 0), (0, 3)]
    cases = [(shape, ways[(i + j) % 4]) for i, shape in enumerate(shapes) for j in range(4)]
    calls = [(rng.uniform(-1, 1, shape).astype(jnp.dtype(dtype)), way) for shape, way in cases[which]]
    axis_of = lambda x: x.ndim - 1 - (x.ndim == 4)  # noqa: E731
    with use_form("matrix_products"):
        made = together([(partial(cumulative_summation, axis=axis_of(x), **way), x) for x, way in calls])
    for one, (x, way) in zip(made, calls, strict=True):
        assert one.dtype == x.dtype
        assert_close(one, added(x.astype(np.float64), axis_of(x), **way), units=2**8)


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", sampled(["float32", "float16"], ["float32"]))
def test_products_with_0_make_no_nan(dtype, monkeypatch):
    """A product with 0 would; rows of a chunk with an infinity, a NaN, and numbers whose sum is too large."""
    monkeypatch.setattr(cache_chunks, "CHUNK", 2**11)
    most = float(jnp.finfo(dtype).max)
    x = np.ones((60, 100), dtype)
    x[3, 50], x[20, 7], x[20, 60], x[41, 99] = np.inf, -np.inf, np.inf, np.nan
    x[50, :40], x[50, 40:80] = most, -most
    for way in ({}, {"direction": "decreasing"}):
        with use_form("plain"):
            expected = cumulative_summation(x, 1, **way)
        with use_form("matrix_products"):
            actual, mapped = (
                cumulative_summation(x, 1, **way),
                jax.vmap(partial(cumulative_summation, axis=0, **way))(x),
            )
        for one in (actual, mapped):
            np.testing.assert_array_equal(one, expected)
    assert np.isnan(np.asarray(expected)).any()


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2", "float8_e4m3fn"])
@pytest.mark.parametrize("form", ["matrix_products", "row_by_row"])
def test_loops_write_narrow_floats_as_bits(form, dtype, monkeypatch):
    """XLA:CPU would copy the whole result to a wider one, and back, in each step."""
    monkeypatch.setattr(cache_chunks, "CHUNK", 2**11)
    with use_form(form):
        lowered = jax.jit(partial(cumulative_summation, axis=1)).lower(jax.ShapeDtypeStruct((60, 100), dtype))
    writes = re.findall(r"stablehlo\.dynamic_update_slice.*", lowered.as_text())
    assert [write for write in writes if "ui" in write]
    assert not [write for write in writes if "f8" in write or "bf16" in write]


@pytest.mark.parametrize("form", ["matrix_products", "row_by_row"])
def test_derivatives_of_every_form_of_a_sum(form):
    x, w = np.random.default_rng(9).uniform(-1, 1, (2, 3, 70)).astype(np.float32)

    def of_each(x):
        run = partial(cumulative_summation, axis=1, direction="decreasing", exclusive=True)
        batched = jax.vmap(jax.grad(lambda x, w: (cumulative_summation(x, 0) * w).sum()))(x, w)
        return *jax.jvp(run, (x,), (w,)), jax.vjp(run, x)[1](w)[0], batched

    with use_form(form):
        found = jax.jit(of_each)(x)
    with use_form("plain"):
        expected = jax.jit(of_each)(x)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_where_rows_are_combined_and_matrices_multiplied():
    """On CPUs: rows where 64 elements lie side by side; sums of floats along a last axis of 32 and more."""

    def chosen(shape, axis=-1, dtype=np.float32, operator=cumulative_summation, platform="cpu"):
        return chosen_on(platform, partial(operator, axis=axis), jax.ShapeDtypeStruct(shape, dtype))

    for shape, axis in [((256, 64), 0), ((2, 64, 16, 64), 1), ((40, 20, 2, 100), -2)]:
        assert all(chosen(shape, axis, operator=each) == {"row_by_row"} for each in FUNCTIONS)
        assert chosen(shape, axis, platform="cuda") == set()
    assert chosen((1024, 63), 0) == chosen((4, 1024), 0) == set()
    assert chosen((256, 256)) == chosen((512, 32, 1), 1) == chosen((256, 256), dtype=np.float16) == {"matrix_products"}
    assert chosen((2048, 31)) == chosen((256, 256), dtype=np.int32) == set()
    assert chosen((256, 256), operator=cumulative_product) == chosen((256, 256), platform="cuda") == set()
