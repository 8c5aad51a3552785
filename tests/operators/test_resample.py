"""resample and RESAMPLE, 1, 2, 3: an element of the output lies at (o - output_offset) / scale - input_offset.

test_resample_interpolation.py, test_resample_types.py and test_resample_transformations.py test every mode in depth.
"""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits
from operator_cases import Call, Example, Struct, f32, u8
from refusals import refuses
from resample_cases import DIRECTIONS, LAW_BREAKS, LEADING, MODES, OFFSET_BREAKS, OFFSETS, X, drawer, fill, oracle
from small_arrays import numbered

from dml_jax import (
    AxisDirection,
    ConstraintError,
    DataTypeError,
    Resample1Desc,
    Resample2Desc,
    Resample3Desc,
    ResampleDesc,
    compile_operator,
    desc_to_json,
    resample,
)

pytestmark = pytest.mark.device

LINEAR = {"mode": "linear", "is_weighted": True}
CUBIC = {"mode": "cubic", "is_linear": False}  # a derivative of a derivative has more bits than float32
CASE = Call(resample, {"input": X}, {"sizes": (2, 9), "scales": (0.5, 1.5)})
BREAKS = {
    "one_per_dimension(sizes)": {"sizes": (2,)},
    "each_at_least(sizes, 0)": {"sizes": (2, -1)},
    "one_per_dimension(scales)": {"scales": (2,)},
    "one_per_dimension(input_pixel_offsets)": {"input_pixel_offsets": (0.5,)},
    "one_per_dimension(output_pixel_offsets)": {"output_pixel_offsets": (0.5,)},
    "positive(scales)": {"scales": (0.5, 0.0)},
    "finite(input_pixel_offsets)": {"input_pixel_offsets": (0.5, np.inf)},
    "finite(output_pixel_offsets)": {"output_pixel_offsets": np.nan},
    "one_of(mode)": {"mode": "area"},
    "filters(antialias)": {"antialias": True},
    "one_of(rounding)": {"rounding": "up"},
    "finite(cubic_coefficient)": {"cubic_coefficient": np.inf},
    "interpolable(input)": {"input": X.astype(np.int32), "mode": "linear"},
    "made_of_something": {"input": X[:0]},
    "known(sizes)": {"sizes": (2, *jax.export.symbolic_shape("n"))},
    "representable": {"input": X[:, :1], "sizes": (2**61, 1), "scales": (1, 1)},
    "short": {"sizes": (2, 2**27)},
}
VARIANTS = {
    "the same": {"sizes": (4, 6), "scales": (1, 1)},
    "every other": {"sizes": (2, 3), "scales": (0.5, 0.5), "rounding": "decreasing"},
    "repeated": {"sizes": (8, 18), "scales": (2, 3)},
    "cropped and prolonged": {"sizes": (3, 40), "scales": (2, 2), "rounding": "increasing"},
    "offsets": {"sizes": (4, 9), "scales": (1, 1.5), "input_pixel_offsets": (0, 0.25), "output_pixel_offsets": 1},
    "linear": {"sizes": (8, 3), "scales": (2, 0.5), **LINEAR},
    "linear edges": {"sizes": (7, 11), "scales": (2, 2), "input_pixel_offsets": 0, "output_pixel_offsets": 0, **LINEAR},
    "linear beyond": {"sizes": (4, 40), "scales": (1, 4), "antialias": True, **LINEAR},
    "antialiased": {"sizes": (2, 3), "scales": (0.5, 0.5), "antialias": True, **LINEAR},
    "sizes": {"sizes": (2, 9), "scales": None},
    "antialiased inside": {
        "sizes": (1, 6),
        "scales": (0.5, 1),
        "output_pixel_offsets": (-1, -0.5),
        "antialias": True,
        "exclude_outside": True,
        **LINEAR,
    },
    "cubic": {"sizes": (8, 3), "scales": (2, 0.5), **CUBIC},
    "cubic antialiased": {"sizes": (1, 12), "scales": None, "antialias": True, **CUBIC},
    "bytes": {"input": X.astype(np.int8) * 5, "sizes": (8, 12), "scales": (2, 2), "mode": "linear"},
}


# The structs.


def expected(desc, x):
    direction = getattr(desc, "rounding_direction", None)
    return oracle(
        x,
        desc.output.sizes,
        desc.scales,
        MODES[desc.interpolation_mode],
        getattr(desc, "input_pixel_offsets", 0.5),
        getattr(desc, "output_pixel_offsets", -0.5),
        None if direction is None else DIRECTIONS[direction],
    )


HALF, MINUS_HALF = (0.5,) * 4, (-0.5,) * 4
SHORT, LONG, FOUR, TWO = (f32(1, 1, 1, n) for n in (2, 4, 4, 2))
WIDER, SHORTER = (1, 1, 1, 2), (1, 1, 1, 0.5)
DOUBLED = ResampleDesc(SHORT, LONG, "LINEAR", WIDER)
HALVED = [ResampleDesc(FOUR, TWO, mode, SHORTER) for mode in ("NEAREST_NEIGHBOR", "LINEAR")]
# From the conformance tests of WebNN, as DirectML answered them: of 4 by 6 elements rows 1, 3 and columns 1, 3, 5.
PICKED = ResampleDesc(f32(1, 1, 4, 6), f32(1, 1, 2, 3), "NEAREST_NEIGHBOR", (1, 1, 0.5, 0.5))
# What the page of the gradient shows, read with the offsets that give it.
OF_GRADIENT = Resample1Desc(f32(1, 1, 2, 2), f32(1, 1, 1, 3), "NEAREST_NEIGHBOR", (1, 1, 0.5, 1.5), HALF, (0,) * 4)
DOUBLED_1 = Resample1Desc(SHORT, LONG, "LINEAR", WIDER, HALF, MINUS_HALF)
DOUBLED_2 = Resample2Desc(SHORT, LONG, "LINEAR", "INCREASING", WIDER, HALF, MINUS_HALF)
UP, DOWN = (
    Resample2Desc(FOUR, TWO, "NEAREST_NEIGHBOR", direction, SHORTER, HALF, MINUS_HALF)
    for direction in ("INCREASING", "DECREASING")
)
DOUBLED_3 = Resample3Desc(SHORT, LONG, "LINEAR", "INCREASING", WIDER, HALF, MINUS_HALF, True)
OF_DOUBLED = ([[1, 2]], [[1, 1.25, 1.75, 2]])
STRUCTS = (
    Struct(
        DOUBLED,
        breaks=LAW_BREAKS,
        examples=(
            Example(DOUBLED, *OF_DOUBLED),
            Example(HALVED[0], [[1, 2, 3, 4]], [[2, 4]]),
            Example(HALVED[1], [[1, 2, 3, 4]], [[1.5, 3.5]]),
            Example(PICKED, [range(24)], [[7, 9, 11, 19, 21, 23]]),
        ),
        draw=drawer(),
        expected=expected,
        leading={"scales": 1.0},
        fill=fill,
    ),
    Struct(
        DOUBLED_1,
        breaks=LAW_BREAKS | OFFSET_BREAKS,
        examples=(Example(DOUBLED_1, *OF_DOUBLED), Example(OF_GRADIENT, [[1, 2, 3, 4]], [[1, 1, 2]])),
        draw=drawer(*OFFSETS),
        expected=expected,
        leading=LEADING,
        fill=fill,
    ),
    Struct(
        DOUBLED_2,
        breaks=LAW_BREAKS | OFFSET_BREAKS,
        examples=(
            Example(DOUBLED_2, *OF_DOUBLED),
            Example(UP, [[1, 2, 3, 4]], [[2, 4]]),
            Example(DOWN, [[1, 2, 3, 4]], [[1, 3]]),
        ),
        draw=drawer("rounding_direction", *OFFSETS),
        expected=expected,
        leading=LEADING,
        fill=fill,
    ),
    Struct(
        DOUBLED_3,
        breaks=LAW_BREAKS | OFFSET_BREAKS | {"unfiltered(antialiased)": {"scales": (0.25, 1, 1, 1)}},
        examples=(Example(DOUBLED_3, *OF_DOUBLED),),
        draw=drawer("rounding_direction", *OFFSETS, "antialiased"),
        expected=expected,
        leading=LEADING,
        fill=fill,
    ),
)


test_what_the_struct_refuses = refuses(
    DOUBLED_3,
    ({"scales": (2, 1)}, ConstraintError, "Scales must have one entry per dimension of InputTensor"),
    ({"scales": (1, 1, 1, 0)}, ConstraintError, "every one of Scales must be a positive number in float32"),
    ({"scales": (1, 1, 1, 1e-60)}, ConstraintError, "every one of Scales must be a positive number in float32"),
    ({"scales": (1, 1, 1, float("nan"))}, ConstraintError, "every one of Scales must be a positive number"),
    ({"scales": 2}, DataTypeError, "Scales must be a sequence of real numbers"),
    ({"input_pixel_offsets": 0.5}, DataTypeError, "InputPixelOffsets must be a sequence of real numbers"),
    ({"output_pixel_offsets": (1, 2)}, ConstraintError, "OutputPixelOffsets must have one entry per dimension"),
    ({"interpolation_mode": "CUBIC"}, ConstraintError, "InterpolationMode must be one of NEAREST_NEIGHBOR, LINEAR"),
    ({"rounding_direction": "UP"}, ConstraintError, "RoundingDirection must be one of INCREASING, DECREASING"),
    ({"antialiased": None}, DataTypeError, "Antialiased must be True or False"),
    (
        {"scales": (0.49, 1, 1, 1)},
        ConstraintError,
        "Antialiased must be False if a scale below 0.5 .*, but there is 0.49",
    ),
)


@pytest.mark.parametrize("sizes", [(1, 5), (3, 1), (1, 1)], ids=str)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_a_single_antialiased_position(mode, sizes):
    """One index of a gather, which XLA:GPU of jaxlib 0.11 computes while it compiles."""
    x = numbered((4, 6)).astype(np.float32)
    actual = resample(x, sizes, mode=mode, antialias=True)
    np.testing.assert_allclose(actual, oracle(x, sizes, mode=mode, antialias=True), rtol=1e-5, atol=1e-5)


def test_antialiased_where_the_filter_does_nothing():
    """For nearest elements, and where at most two become one."""
    for mode, scale in (("NEAREST_NEIGHBOR", 0.25), ("LINEAR", 0.5), ("LINEAR", 3)):
        fields = DOUBLED_3.operands() | {"interpolation_mode": mode, "scales": (1, 1, 1, scale)}
        made = [Resample3Desc(**fields | {"antialiased": one}).compute(X[:1, None, None, :2]) for one in (True, False)]
        assert_same_bits(*made)


def test_the_json_has_the_counts_of_directml():
    form = desc_to_json(DOUBLED_3)["desc"]
    assert list(form)[:2] == ["InputTensor", "OutputTensor"]
    assert form["DimensionCount"] == 4
    assert form["Antialiased"] is True
    assert desc_to_json(DOUBLED)["desc"]["ScaleCount"] == 4


def test_the_documented_gradient():
    """[4, 5, 6] flows back to [[9, 6], [0, 0]], of what is read as offsets of 0.5 and 0."""
    (found,) = jax.vjp(lambda x: OF_GRADIENT.compute(x), numbered((1, 1, 2, 2)))[1](np.float32([[[[4, 5, 6]]]]))
    assert_same_bits(found, np.float32([[[[9, 6], [0, 0]]]]))


# Mistakes.


test_mistakes_are_named = refuses(
    CASE,
    ({"input": 3}, DataTypeError, "input must be an array"),
    ({"sizes": 2}, DataTypeError, "sizes must be a sequence of integers, but it is 2"),
    ({"sizes": (2, 1.5)}, DataTypeError, r"sizes\[1\] must be an integer, but it is 1.5"),
    ({"sizes": (2, 2, 2)}, ConstraintError, "sizes must have one entry per dimension of input, but there are 3 for 2"),
    ({"sizes": (2, -1)}, ConstraintError, r"every one of sizes must be at least 0, but they are \(2, -1\)"),
    ({"sizes": (2, 2**63)}, ConstraintError, r"sizes must give an array of fewer than 2\*\*63 bytes"),
    ({"sizes": (0, 2**63)}, ConstraintError, r"sizes must give an array of fewer than 2\*\*63 bytes"),
    ({"scales": 2}, DataTypeError, "scales must be a sequence of real numbers"),
    ({"scales": (2, "3")}, DataTypeError, r"scales\[1\] must be a real number"),
    ({"scales": (2,)}, ConstraintError, "scales must have one entry per dimension of input, but there are 1 for 2"),
    ({"scales": (2, -1)}, ConstraintError, "every one of scales must be a positive number in float32"),
    ({"scales": (2, np.nan)}, ConstraintError, "every one of scales must be a positive number in float32"),
    ({"scales": (2, 1e-50)}, ConstraintError, "every one of scales must be a positive number in float32"),
    ({"input_pixel_offsets": "0.5"}, DataTypeError, "must be a sequence of real numbers, or one of them"),
    ({"input_pixel_offsets": (0, None)}, DataTypeError, r"input_pixel_offsets\[1\] must be a real number"),
    ({"input_pixel_offsets": (0, 0, 0)}, ConstraintError, "one entry per dimension of input, but there are 3 for 2"),
    ({"output_pixel_offsets": np.inf}, ConstraintError, "output_pixel_offsets must be finite in float32, but it is"),
    ({"output_pixel_offsets": 1e39}, ConstraintError, "output_pixel_offsets must be finite in float32, but it is"),
    ({"mode": "area"}, ConstraintError, "mode must be one of 'nearest', 'linear', 'cubic', but it is 'area'"),
    ({"cubic_coefficient": np.nan}, ConstraintError, "cubic_coefficient must be finite in float32, but it is nan"),
    ({"cubic_coefficient": "-0.5"}, DataTypeError, "cubic_coefficient must be a real number"),
    ({"exclude_outside": 1}, DataTypeError, "exclude_outside must be True or False"),
    (
        {"scales": (1e-8, 1.5), "mode": "linear", "antialias": True},
        ConstraintError,
        r"sizes times the radius of the filter, must be below 2\*\*27 .* those of dimension 0 are 4 and 2",
    ),
    ({"rounding": "up"}, ConstraintError, "rounding must be one of None, 'increasing', 'decreasing'"),
    ({"rounding": 1}, DataTypeError, "rounding must be a string"),
    ({"antialias": 1}, DataTypeError, "antialias must be True or False"),
    ({"input": X[:0]}, ConstraintError, "input must have elements along every dimension .* but dimension 0 has none"),
    ({"input": X > 3, "mode": "linear"}, DataTypeError, "or integers of at most 16 bits"),
)


def test_traced_attributes_are_refused():
    with pytest.raises(DataTypeError, match="scales must be a sequence of real numbers"):
        jax.jit(lambda s: resample(X, (2, 9), s))(np.float32([0.5, 1.5]))
    with pytest.raises(DataTypeError, match="input_pixel_offsets must be a sequence of real numbers, or one of them"):
        jax.jit(lambda o: resample(X, (2, 9), (0.5, 1.5), input_pixel_offsets=o))(0.5)


def test_a_compiled_operator_with_strides():
    input, output = u8(2, 2, strides=(1, 2)), u8(2, 3, strides=(4, 1))
    desc = Resample2Desc(input, output, 0, AxisDirection.DECREASING, (1, 1.5), (0, 0), (0, 0))
    assert_same_bits(compile_operator(desc)(np.uint8([1, 3, 2, 4])), np.uint8([1, 1, 2, 0, 3, 3, 4]))


def test_a_long_empty_output_needs_no_tables():
    assert resample(jnp.zeros((0, 1, 1)), (0, 2**26, 1), (1, 1, 1)).shape == (0, 2**26, 1)
