"""upsample_2d and UPSAMPLE_2D: repeated elements, or their neighbours by distance, centres of pixels aligned."""

import itertools
from functools import partial

import jax
import jax.export
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import assert_calls_agree, assert_same_bits, assert_sharded, exported, refused_without_x64, spread
from draws import dims
from jax.sharding import PartitionSpec as P
from operator_cases import Call, Example, Struct, f16, f32
from oracles import clamp, coordinates
from refusals import refuses
from small_arrays import numbered, on_explicit_mesh

from dml_jax import (
    ConstraintError,
    DataTypeError,
    InterpolationMode,
    Upsample2DDesc,
    compile_operator,
    upsample_2d,
)
from dml_jax.core.structs.size_and_scale_bias import Size

pytestmark = pytest.mark.device


def oracle(input, scale_size, mode="nearest"):
    *_, height, width = input.shape
    sizes = [height * scale_size[0], width * scale_size[1]]
    output = np.empty([*input.shape[:-2], *sizes], input.dtype)
    for *rest, h, w in coordinates(output.shape):
        if mode == "nearest":
            output[(*rest, h, w)] = input[(*rest, h // scale_size[0], w // scale_size[1])]
            continue
        total = 0.0  # Python's floats: the numbers of these tests are exact in narrower ones too
        for y, of_y in around(h, scale_size[0], height):
            for x, of_x in around(w, scale_size[1], width):
                total += of_y * of_x * float(input[(*rest, y, x)])
        output[(*rest, h, w)] = total if input.dtype.kind not in "iu" else round(total)
    return output


def around(o, scale, size):
    """The two neighbours of an element, and how much of each."""
    at = (o + 0.5) / scale - 0.5
    before = int(np.floor(at))
    return [(clamp(before, size), 1 - (at - before)), (clamp(before + 1, size), at - before)]


X = numbered((2, 3, 2))
CASE = Call(upsample_2d, {"input": X}, {"scale_size": (2, 3)})
BREAKS = {
    "minimum_rank(input, 2)": {"input": X[0, 0]},
    "two(scale_size)": {"scale_size": (2, 3, 1)},
    "each_at_least(scale_size, 1)": {"scale_size": (0, 1)},
    "one_of(mode)": {"mode": "cubic"},
    "interpolable(input)": {"input": X.astype(np.int32), "mode": "linear"},
    "known(input)": {"scale_size": (*jax.export.symbolic_shape("s"), 1), "mode": "linear"},
    "representable": {"scale_size": (2**30, 2**30)},
    "short": {"scale_size": (2**30, 1), "mode": "linear"},
}
VARIANTS = {
    "the same": {"scale_size": (1, 1)},
    "rows": {"scale_size": (1, 9)},
    "linear": {"scale_size": (2, 4), "mode": "linear", "is_weighted": True},
    "linear columns": {"scale_size": (4, 1), "mode": "linear", "is_weighted": True},
    "linear many": {"input": X[:1], "scale_size": (16, 1), "mode": "linear", "is_weighted": True},
    "integers": {"input": np.uint8([[1, 2], [5, 255]]), "scale_size": (2, 2), "mode": "linear"},
}


# The struct.


def fill(rng, port, tensor, count):
    """Weighed and added up without an error, also in sixteen bits."""
    return rng.integers(-8, 8, count).astype(tensor.dtype)


def draw(rng):
    input, width, height = dims(rng, int(rng.integers(4, 6)), 16), *(int(n) for n in rng.choice([1, 2, 4], 2))
    output = [*input[:-2], input[-2] * height, input[-1] * width]
    return {
        "input": input,
        "output": output,
        "scale_size": (width, height),
        "interpolation_mode": int(rng.integers(0, 2)),
    }


def expected(desc, x):
    size = desc.scale_size
    return oracle(x, (size.height, size.width), ("nearest", "linear")[desc.interpolation_mode])


SQUARE, DOUBLED = f32(1, 1, 2, 2), f32(1, 1, 4, 4)
SAMPLE = Upsample2DDesc(SQUARE, DOUBLED, (2, 2), "LINEAR")
NEAREST = Upsample2DDesc(SQUARE, f32(1, 1, 2, 6), (3, 1), "NEAREST_NEIGHBOR")
STRUCTS = (
    Struct(
        SAMPLE,
        breaks={
            "positive(scale_size)": {"scale_size": Size(2, 0)},
            "sizes_follow(output)": {"output": f32(1, 1, 4, 2)},
        },
        examples=(
            Example(
                SAMPLE,
                [[1, 2, 3, 4]],
                [[1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4]],
            ),
            # Not documented: which of the two numbers is the width's.
            Example(NEAREST, [[1, 2, 3, 4]], [[1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]]),
        ),
        draw=draw,
        expected=expected,
        fill=fill,
    ),
)


def test_the_struct_has_the_width_first_and_the_function_the_height():
    x = np.float32([[[[1, 2]]]])
    desc = Upsample2DDesc(f32(1, 1, 1, 2), f32(1, 1, 3, 2), scale_size=(1, 3), interpolation_mode=0)
    assert (desc.scale_size.width, desc.scale_size.height) == (1, 3)
    assert_same_bits(desc.compute(x), upsample_2d(x, (3, 1)))


test_what_the_struct_refuses = refuses(
    SAMPLE,
    ({"scale_size": (0, 2)}, ConstraintError, "ScaleSize.Width and .Height must be at least 1, but it is Size"),
    ({"scale_size": 2}, DataTypeError, "ScaleSize must be a Size of width and height"),
    ({"scale_size": (2, -2)}, ConstraintError, "ScaleSize.Height must be in"),
    ({"output": f32(1, 1, 4, 2)}, ConstraintError, r"ScaleSize.Height and .Width, but \(1, 1, 4, 2\) is not"),
    ({"interpolation_mode": "CUBIC"}, ConstraintError, "InterpolationMode must be one of NEAREST_NEIGHBOR, LINEAR"),
    ({"interpolation_mode": 2}, ConstraintError, "InterpolationMode must be one of"),
)


def test_every_name_of_a_mode():
    for mode in ("LINEAR", "DML_INTERPOLATION_MODE_LINEAR", 1, InterpolationMode.LINEAR):
        assert Upsample2DDesc(SQUARE, DOUBLED, (2, 2), mode) == SAMPLE


# Against the oracle.


SHAPES = [(1, 1), (1, 3), (3, 2), (2, 1, 2), (1, 2, 2, 1), (2, 1, 1, 3, 2)]
SCALES = [(1, 1), (2, 1), (1, 4), (2, 4), (8, 2)]


@pytest.mark.parametrize(("mode", "which"), spread(["nearest", "linear"], ["nearest", "linear"], 2))
def test_every_small_shape(mode, which):
    """Both modes have every shape and every scale."""
    calls = []
    for shape, scale_size in [*itertools.product(SHAPES, SCALES)][which]:
        x = numbered(shape)
        call = partial(upsample_2d, scale_size=scale_size, mode=mode)
        calls.append((call, (x,), oracle(x, scale_size, mode)))
    assert_calls_agree(calls)


@pytest.mark.thinned
@pytest.mark.parametrize("scale", range(1, 13))
def test_the_nearest_centre_is_the_repeated_element(scale):
    """x = (o + 0.5) / scale - 0.5 rounded is o // scale: of no whole scale does it lie halfway."""
    o = np.arange(5 * scale)
    x = (o + 0.5) / scale - 0.5
    assert (np.round(x) == o // scale).all()
    assert_same_bits(upsample_2d(numbered((1, 5)), (1, scale)), numbered((1, 5))[:, np.round(x).astype(int)])


@pytest.mark.thinned(2)
@pytest.mark.parametrize("scale", [3, 5, 7, 100])
def test_linear_of_other_scales(scale):
    """Within the last bits of float32."""
    x = numbered((3, 2))
    np.testing.assert_allclose(upsample_2d(x, (scale, 2), mode="linear"), oracle(x, (scale, 2), "linear"), rtol=1e-6)


def test_narrow_types_are_computed_in_float32_and_rounded_once():
    """Of bfloat16, 257 / 2 along one dimension and then along the other is 128.5, and 129 if rounded in between."""
    x = np.float32([[1, 256, 512], [3, 255, 511]]).astype(jnp.bfloat16)
    wide = oracle(x.astype(np.float32), (2, 2), "linear")
    assert_same_bits(upsample_2d(x, (2, 2), mode="linear"), wide.astype(jnp.bfloat16))
    half = np.float16([[60000, 65504]])
    assert_same_bits(
        upsample_2d(half, (1, 2), mode="linear"), oracle(half.astype(np.float32), (1, 2), "linear").astype(np.float16)
    )


@pytest.mark.thinned(2)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
def test_integers_become_the_nearest_ones(dtype):
    limits = np.iinfo(dtype)
    x = np.array([[limits.min, limits.max, 3], [1, 2, limits.max]], dtype)
    assert_same_bits(upsample_2d(x, (2, 4), mode="linear"), oracle(x, (2, 4), "linear"))


def test_an_infinite_element_stays_where_it_is():
    """Where a neighbour counts nothing it adds no NaN; where it counts, it wins."""
    x = np.float32([[1, np.inf, 2, 3]])
    made = upsample_2d(x, (1, 3), mode="linear")  # the middle one of each three lies on an element
    assert_same_bits(made[0, 1::3], x[0])
    assert np.isinf(made[0, 2:7]).all()
    assert np.isfinite(made[0, 7:]).all()
    assert_same_bits(upsample_2d(np.float32([[-0.0]]), (3, 3), mode="linear"), np.full((3, 3), -0.0, np.float32))


def test_64_bit_data(x64):
    x = np.float64([[1, 1 + 2.0**-40]])
    with refused_without_x64("input of type float64"):
        assert_same_bits(upsample_2d(x, (1, 2)), oracle(x, (1, 2)))
        assert_same_bits(upsample_2d(x, (1, 2), mode="linear"), oracle(x, (1, 2), "linear"))


# Transformations.


def test_gradients_of_all_copies_are_added():
    weights = numbered((2, 6, 6))
    wanted = weights.reshape(2, 3, 2, 2, 3).sum((2, 4))
    assert_same_bits(jax.jit(jax.grad(lambda x: (upsample_2d(x, (2, 3)) * weights).sum()))(X), wanted)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("scale", [4, 64])
@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16, jnp.float8_e5m2], ids=lambda dtype: np.dtype(dtype).name)
def test_narrow_sums_are_rounded_once(dtype, scale):
    """Of 1 and many halves of its last bit: added one by one, each is lost."""
    small = float(ml_dtypes.finfo(dtype).eps) / 2
    cotangents = np.full((scale, scale), small, np.float32)
    cotangents[0, 0] = 1
    (found,) = jax.vjp(lambda x: upsample_2d(x, (scale, scale)), np.ones((1, 1), dtype))[1](cotangents.astype(dtype))
    assert_same_bits(found, cotangents.sum(dtype=np.float64).reshape(1, 1).astype(np.float32).astype(dtype))


@pytest.mark.thinned
@pytest.mark.parametrize("scale", [2, 4, 16])
def test_the_gradient_of_linear_is_its_transpose(scale):
    x, weights = numbered((2, 3)), numbered((2 * scale, 3 * scale)) % 5
    matrix = np.stack([oracle(e.reshape(2, 3), (scale, scale), "linear").ravel() for e in np.eye(6, dtype=np.float32)])
    found = jax.jit(jax.grad(lambda x: (upsample_2d(x, (scale, scale), mode="linear") * weights).sum()))(x)
    assert_same_bits(found, (matrix @ weights.ravel()).reshape(2, 3))


def test_nothing_flows_back_from_where_an_element_counts_nothing():
    cotangents = np.float32([[1, np.inf, 1, 1, 1, 1]])
    (found,) = jax.vjp(lambda x: upsample_2d(x, (1, 3), mode="linear"), numbered((1, 2)))[1](cotangents)
    assert np.isinf(found[0, 0])
    assert np.isfinite(found[0, 1])


def test_symbolic_sizes_are_exported():
    """Of copies; what is interpolated is made while tracing."""
    assert_same_bits(exported(lambda x: upsample_2d(x, (2, 3)), "2, h, w").call(X), oracle(X, (2, 3)))
    with pytest.raises(ConstraintError, match="must be known while tracing to be interpolated, but they are"):
        exported(lambda x: upsample_2d(x, (2, 3), mode="linear"), "2, h, w")


# Explicit meshes.


def test_a_repeated_dimension_keeps_its_sharding_without_communication():
    x = on_explicit_mesh(numbered((4, 6)), "d", None)
    assert_sharded(upsample_2d(x, (2, 3)), P("d", None), oracle(numbered((4, 6)), (2, 3)))
    text = jax.jit(lambda x: upsample_2d(x, (2, 3))).lower(x).compile().as_text()
    assert not any(word in text for word in ("all-gather", "all-reduce", "collective-permute", "all-to-all"))


def test_an_interpolated_dimension_needs_an_out_sharding():
    x = on_explicit_mesh(numbered((4, 6)), "d", None)
    kept = upsample_2d(x, (1, 2), mode="linear")
    assert jax.typeof(kept).sharding.spec == P("d", None)
    with pytest.raises(ConstraintError, match="dimension 0 of input is sharded over 'd', along which"):
        upsample_2d(x, (2, 1), mode="linear")
    made = upsample_2d(x, (2, 2), mode="linear", out_sharding=P("d", None))
    assert_sharded(made, P("d", None), oracle(numbered((4, 6)), (2, 2), "linear"))


# Mistakes.


test_mistakes_are_named = refuses(
    CASE,
    ({"input": 3}, DataTypeError, "input must be an array"),
    ({"input": X[0, 0]}, ConstraintError, "input.rank must be at least 2, but it is 1"),
    ({"scale_size": 2.0}, DataTypeError, "scale_size must be a sequence of integers, or one of them, but it is 2.0"),
    ({"scale_size": (2, 1.5)}, DataTypeError, r"scale_size\[1\] must be an integer, but it is 1.5"),
    ({"scale_size": (2,)}, ConstraintError, r"must be two numbers, \(height, width\), but there are 1"),
    ({"scale_size": (2, -1)}, ConstraintError, r"every one of scale_size must be at least 1, but they are \(2, -1\)"),
    ({"scale_size": (2**63, 1)}, ConstraintError, r"must give an array of fewer than 2\*\*63 bytes"),
    ({"scale_size": (1, 2**30), "mode": "linear"}, ConstraintError, r"must have fewer than 2\*\*31 elements"),
    ({"mode": "cubic"}, ConstraintError, "mode must be one of 'nearest', 'linear', but it is 'cubic'"),
    ({"mode": 1}, DataTypeError, "mode must be a string"),
    ({"input": X > 3, "mode": "linear"}, DataTypeError, "or integers of at most 16 bits"),
    ({"input": X.astype(np.complex64), "mode": "linear"}, DataTypeError, "it is complex64"),
)


def test_a_compiled_operator_with_strides():
    input, output = f16(1, 1, 2, 2, strides=(4, 4, 1, 2)), f16(1, 1, 2, 4)
    run = compile_operator(Upsample2DDesc(input, output, (2, 1), "LINEAR"))
    assert_same_bits(run(np.float16([1, 3, 2, 4])), np.float16([1, 1.25, 1.75, 2, 3, 3.25, 3.75, 4]))
