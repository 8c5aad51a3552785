"""resample and RESAMPLE, 1, 2, 3: an element of the output lies at (o - output_offset) / scale - input_offset."""

import itertools
from fractions import Fraction
from functools import partial
from math import ceil, floor, prod

import jax
import jax.export
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import assert_calls_agree, assert_same_bits, spread, together
from draws import dims
from jax.sharding import PartitionSpec as P
from operator_cases import FLOATS, RANK_4, Call, Example, Struct, f32, level
from oracles import clamp, coordinates
from small_arrays import every_narrow_float, numbered, on_explicit_mesh, random_keys

from dml_jax import (
    AxisDirection,
    ConstraintError,
    DataTypeError,
    Resample1Desc,
    Resample2Desc,
    Resample3Desc,
    ResampleDesc,
    TensorDesc,
    compile_operator,
    desc_to_json,
    resample,
)

pytestmark = pytest.mark.device

FLT_MAX = float(np.finfo(np.float32).max)


def oracle(
    input,
    sizes,
    scales=None,
    mode="nearest",
    input_pixel_offsets=0.5,
    output_pixel_offsets=-0.5,
    rounding=None,
    antialias=False,
    cubic_coefficient=-0.75,
    exclude_outside=False,
):
    befores, afters = (np.broadcast_to(one, input.ndim) for one in (input_pixel_offsets, output_pixel_offsets))
    found = place if scales else exact_place
    scales = scales or [Fraction(m, n) for m, n in zip(sizes, input.shape, strict=True)]
    kernel = partial(counted, a=cubic_coefficient) if mode == "cubic" else near_counted
    output = np.empty(sizes, input.dtype)
    for c in coordinates(output.shape):
        x = [found(*row) for row in zip(c, scales, befores, afters, strict=True)]
        if mode == "nearest":
            output[c] = input[tuple(clamp(rounded(at, rounding), n) for at, n in zip(x, input.shape, strict=True))]
            continue
        parts = [
            weights(at, n, kernel, min(scale, 1) if antialias else 1, exclude_outside)
            for at, n, scale in zip(x, input.shape, scales, strict=True)
        ]
        total = weighed(input, parts)
        output[c] = clamp_to(round(total), input.dtype) if input.dtype.kind in "iu" else total
    return output


def place(o, scale, before, after):
    """Of float32 all along."""
    with np.errstate(over="ignore"):
        one = np.float32
        return (one(o) - one(after)) / one(scale) - one(before)


def exact_place(o, scale, before, after):
    return (o - Fraction(float(after))) / scale - Fraction(float(before))


def rounded(x, rounding):
    if isinstance(x, Fraction):
        return {None: floor(x + Fraction(1, 2)), "increasing": ceil(x), "decreasing": floor(x)}[rounding]
    if not np.isfinite(x):
        return int(np.copysign(2.0**62, x))
    return int({None: np.floor(x + np.float32(0.5)), "increasing": np.ceil(x), "decreasing": np.floor(x)}[rounding])


def near_counted(d):
    return max(0, 1 - d)


def counted(d, a):
    """The two cubics, as they are printed."""
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0


def weights(at, size, kernel, narrowing, excludes):
    """How much each element counts, in Python's floats: the numbers of most tests are exact in narrower ones too."""
    at = min(max(float(at), -200), size + 200)
    reach = 2 / float(narrowing) + 1
    parts = {i: kernel(abs(i - at) * narrowing) for i in range(floor(at - reach), ceil(at + reach) + 1)}
    if excludes and any(kernel(abs(i - at) * narrowing) for i in range(size)):
        parts = {i: w for i, w in parts.items() if 0 <= i < size}
    total = sum(parts.values()) if excludes or narrowing < 1 else 1
    return [(clamp(i, size), w / total) for i, w in parts.items() if w]


def weighed(input, parts):
    """Dimension by dimension."""
    if not parts:
        return float(input[()])
    return sum(of * weighed(input[i], parts[1:]) for i, of in parts[0])


def clamp_to(number, dtype):
    return min(max(number, np.iinfo(dtype).min), np.iinfo(dtype).max)


X = numbered((4, 6))
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

MODES = ("nearest", "linear")
ALL_MODES = (*MODES, "cubic")
DIRECTIONS = ("increasing", "decreasing")
BYTES = FLOATS | {"INT8", "UINT8"}
RANKS = {1, 2, 3, 4}


def fill(rng, port, tensor, count):
    """Weighed and added up without an error, also in sixteen bits."""
    least = 0 if tensor.data_type.name == "UINT8" else -8
    return rng.integers(least, 8, count).astype(tensor.dtype)


def drawer(*more):
    """What `draw` is of a struct with these attributes."""

    def draw(rng):
        input = dims(rng, int(rng.integers(1, 5)), 30)
        rank, mode = len(input), int(rng.integers(0, 2))
        scales = rng.choice([0.5, 1, 1, 2, 4] if mode else [0.3, 0.5, 1, 1, 1.5, 2, 3], rank)
        found = {
            "input": input,
            "output": dims(rng, rank, 60),
            "interpolation_mode": mode,
            "rounding_direction": int(rng.integers(0, 2)),
            "scales": tuple(scales),
            "input_pixel_offsets": tuple(rng.choice([0, 0.5, 0.5, -0.25], rank)),
            "output_pixel_offsets": tuple(rng.choice([0, -0.5, -0.5, 1], rank)),
            "antialiased": bool(rng.integers(0, 2)),
        }
        return {name: found[name] for name in ("input", "output", "interpolation_mode", "scales", *more)}

    return draw


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


OFFSETS = ("input_pixel_offsets", "output_pixel_offsets")
HALF, MINUS_HALF, ONES = (0.5,) * 4, (-0.5,) * 4, (1.0,) * 4
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
LAW_BREAKS = {"one_per_dimension(scales)": {"scales": (2,)}, "positive(scales)": {"scales": (1, 1, 1, -2)}}
OFFSET_BREAKS = {
    **{f"one_per_dimension({name})": {name: (0.5,)} for name in OFFSETS},
    **{f"finite({name})": {name: (0, 0, 0, 1e39)} for name in OFFSETS},
}
TABLE = (level("6_2", RANKS, input=BYTES), level("5_1", RANKS, input=FLOATS))
OF_DOUBLED = ([[1, 2]], [[1, 1.25, 1.75, 2]])
LEADING = {"scales": 1.0, "input_pixel_offsets": 0.5, "output_pixel_offsets": -0.5}
STRUCTS = (
    Struct(
        DOUBLED,
        breaks=LAW_BREAKS,
        levels=(*TABLE, level("2_0", RANK_4, input=FLOATS)),
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
        levels=(*TABLE, level("2_1", RANK_4, input=FLOATS)),
        examples=(Example(DOUBLED_1, *OF_DOUBLED), Example(OF_GRADIENT, [[1, 2, 3, 4]], [[1, 1, 2]])),
        draw=drawer(*OFFSETS),
        expected=expected,
        leading=LEADING,
        fill=fill,
    ),
    Struct(
        DOUBLED_2,
        breaks=LAW_BREAKS | OFFSET_BREAKS,
        levels=TABLE,
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
        levels=(level("6_4", RANKS, input=BYTES),),
        examples=(Example(DOUBLED_3, *OF_DOUBLED),),
        draw=drawer("rounding_direction", *OFFSETS, "antialiased"),
        expected=expected,
        leading=LEADING,
        fill=fill,
    ),
)


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
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
    ],
)
def test_what_the_struct_refuses(change, error, match):
    with pytest.raises(error, match=match):
        Resample3Desc(**DOUBLED_3.operands() | change)


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


# The law, against the oracle.

OFFSET_PAIRS = [(0.5, -0.5), (0, 0), (0.5, 0), (-0.3, 1.7)]
SCALES = [0.1, 0.3, 0.4, 0.5, 0.75, 1, 1.1, 1.5, 2, 3, 7.3, FLT_MAX, float("inf")]
ROUNDINGS = [None, "increasing", "decreasing"]


@pytest.mark.thinned(6)
@pytest.mark.parametrize("rounding", ROUNDINGS, ids=str)
@pytest.mark.parametrize("offsets", OFFSET_PAIRS, ids=str)
def test_every_scale_of_nearest(offsets, rounding):
    x, law = numbered((5,)), dict(zip(OFFSETS, offsets, strict=True)) | {"rounding": rounding}

    def calls():
        for scale in SCALES:
            for size in (int(min(5 * scale, 30)), int(min(5 * scale, 30)) + 3):
                sizes, scales = (size,), (scale,)
                yield partial(resample, sizes=sizes, scales=scales, **law), (x,), oracle(x, sizes, scales, **law)

    assert_calls_agree(calls())


@pytest.mark.thinned(2)
@pytest.mark.parametrize("offsets", OFFSET_PAIRS, ids=str)
def test_every_scale_of_linear(offsets):
    """Within the last bits of float32."""
    x, law = numbered((5,)) % 4, dict(zip(OFFSETS, offsets, strict=True)) | {"mode": "linear"}
    laws = [{"sizes": (int(min(5 * scale, 30)) + 3,), "scales": (scale,), **law} for scale in SCALES]
    for made, of in zip(together([(partial(resample, **of), x) for of in laws]), laws, strict=True):
        np.testing.assert_allclose(made, oracle(x, **of), rtol=2e-6, atol=1e-6)


FILTERS = [
    {"mode": mode, "antialias": antialias, "exclude_outside": excludes, **more}
    for mode, more in (("linear", {}), ("cubic", {}), ("cubic", {"cubic_coefficient": -0.6}))
    for antialias in (False, True)
    for excludes in (False, True)
]


@pytest.mark.parametrize(("offsets", "which"), spread(OFFSET_PAIRS, OFFSET_PAIRS, 4))
def test_every_scale_of_every_filter(offsets, which, exhaustive):
    """Of few and of many elements that make one, given as scales and as sizes."""
    x, law = numbered((11, 2)) % 4, dict(zip(OFFSETS, offsets, strict=True))
    laws = [
        {"sizes": (int(min(11 * scale, 30)) + more, 2), "scales": scales, **law, **one}
        for one in FILTERS[which]
        for scale, more in ((0.05, 2), (0.3, 3), (0.75, 1), (1, 2), (1.1, 0), (2, 3), (float("inf"), 1))
        for scales in ((scale, 1), None)
    ][:: 1 if exhaustive else 3]
    for made, of in zip(together([(partial(resample, **of), x) for of in laws]), laws, strict=True):
        wanted = oracle(x.astype(np.float64), **of)
        np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=5e-6, err_msg=str(of))


def test_positions_of_sizes_are_exact():
    """Where they lie halfway or on an element, which float32 misses in some of these pairs. A call takes four."""
    pairs = [*itertools.product((1, 14, 20, 21, 25, 26, 28, 36), (1, 2, 6, 7, 12, 15, 39))]
    edges = {"input_pixel_offsets": 0, "output_pixel_offsets": 0, "rounding": "decreasing"}
    laws = [({}, lambda o, n, m: (2 * o + 1) * n // (2 * m)), (edges, lambda o, n, m: o * n // m)]
    calls, wanted = [], []
    for (more, law), four in itertools.product(laws, zip(*[iter(pairs)] * 4, strict=True)):
        before, after = zip(*four, strict=True)
        x = np.arange(prod(before), dtype=np.int32).reshape(before)
        calls.append((partial(resample, sizes=after, **more), x))
        wanted.append(x[np.ix_(*([law(o, n, m) for o in range(m)] for n, m in four))])
    for made, expected in zip(together(calls), wanted, strict=True):
        assert_same_bits(made, expected)


def test_the_edge_where_no_element_is_inside():
    for mode in ("linear", "cubic"):
        for antialias in (False, True):
            more = {"mode": mode, "antialias": antialias, "exclude_outside": True}
            made = resample(np.float32([3, 5]), (9,), (0.5,), input_pixel_offsets=4, **more)
            assert made[0] == 3
            assert_same_bits(made[-3:], np.float32([5, 5, 5]))


@pytest.mark.parametrize("mode", MODES)
def test_several_dimensions(mode):
    def calls():
        for shape in [(1,), (3,), (2, 3), (1, 3, 2), (3, 1, 2, 2)]:
            rank = len(shape)
            for scales in ((2,) * rank, (0.5, 1, 4, 1)[:rank], (1, 2, 0.5, 4)[-rank:]):
                for sizes in ((3,) * rank, (5, 1, 4, 2)[:rank]):
                    x = numbered(shape) % 7
                    yield partial(resample, sizes=sizes, scales=scales, mode=mode), (x,), oracle(x, sizes, scales, mode)

    assert_calls_agree(calls())


def test_halves_go_up_unless_a_rounding_is_named():
    x = numbered((4,))
    assert_same_bits(resample(x, (2,), (0.5,)), np.float32([2, 4]))  # at 0.5 and 2.5
    assert_same_bits(resample(x, (2,), (0.5,), rounding="increasing"), np.float32([2, 4]))
    assert_same_bits(resample(x, (2,), (0.5,), rounding="decreasing"), np.float32([1, 3]))


@pytest.mark.thinned
@pytest.mark.parametrize("scale", [0.4, 0.5, 1, 1.5, 2, 3])
def test_the_nearest_is_a_rounding_of_shifted_offsets(scale):
    """RESAMPLE1 by RESAMPLE2: the halves are taken off the offset of the input, not of the output."""
    x, size = numbered((10,)), int(10 * scale)
    shifted = resample(x, (size,), (scale,), input_pixel_offsets=0, rounding="decreasing")
    assert_same_bits(resample(x, (size,), (scale,)), shifted)


def test_the_rounding_means_nothing_to_linear():
    for rounding in ROUNDINGS:
        assert_same_bits(
            resample(X, (8, 3), (2, 0.5), mode="linear", rounding=rounding), oracle(X, (8, 3), (2, 0.5), "linear")
        )


def test_a_corner_lies_on_a_corner():
    """As ONNX's align_corners: no offsets, (sizes - 1) / (shape - 1), and FLT_MAX where one element is left."""
    corners = {"input_pixel_offsets": 0, "output_pixel_offsets": 0}
    x = np.float32([[1, 2], [3, 4]])
    assert_same_bits(resample(x, (1, 3), (FLT_MAX, 2), mode="linear", **corners), np.float32([[1, 1.5, 2]]))
    assert_same_bits(resample(x, (3, 1), (2, FLT_MAX), mode="linear", **corners), np.float32([[1], [2], [3]]))


def test_far_beyond_the_edges():
    """What no integer holds is clamped before it becomes one."""
    x = numbered((3,))
    assert_same_bits(resample(x, (3,), (1e-38,)), np.float32([3, 3, 3]))
    for offset, edge in ((3e38, 1), (-3e38, 3)):
        for mode in MODES:
            made = resample(x, (2,), (1,), mode=mode, input_pixel_offsets=offset)
            assert_same_bits(made, np.full(2, edge, np.float32))
    assert_same_bits(resample(x, (2,), (1e-38,), mode="linear", output_pixel_offsets=3), np.float32([1, 1]))


def test_a_dimension_that_stays_is_left_alone_however_large():
    """Positions in float32 would not tell these elements apart."""
    count = 2**24 + 3
    x = np.arange(count, dtype=np.int32)
    assert_same_bits(jax.jit(lambda x: resample(x, (count,), (1,))[-3:])(x), x[-3:])
    shape = jax.eval_shape(lambda x: resample(x, (2**40, 4), (1, 2)), jax.ShapeDtypeStruct((2**40, 2), np.int8)).shape
    assert shape == (2**40, 4)


def test_a_shift_by_whole_elements():
    x = numbered((4,))
    assert_same_bits(resample(x, (4,), (1,), input_pixel_offsets=0, output_pixel_offsets=1), np.float32([1, 1, 2, 3]))
    made = resample(x, (4,), (1,), mode="linear", input_pixel_offsets=-1, output_pixel_offsets=0)
    assert_same_bits(made, np.float32([2, 3, 4, 4]))


# Bits and types.


@pytest.mark.thinned(2)
@every_narrow_float
def test_bits_of_narrow_floats(dtype):
    """NaN payloads, subnormals and -0.0, also where other operations follow in one program."""
    x = np.arange(256**dtype.itemsize).astype(f"uint{8 * dtype.itemsize}").view(dtype)
    count = x.size
    assert_same_bits(resample(x, (2 * count,), (2,)), x.repeat(2))
    assert_same_bits(resample(x, (count // 2,), (0.5,)), x[1::2])
    wanted = x[np.minimum((np.arange(count) * 2 + 1) // 3, count - 1)]
    assert_same_bits(
        jax.jit(lambda x: resample(resample(x, (count,), (1.5,))[None], (1, count), (1, 1)))(x), wanted[None]
    )


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", ["bool", "complex64", "float32", "float16", "int4"])
def test_bits_of_other_types(name):
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    if name in ("bool", "int4"):
        x = np.arange(12).reshape(3, 4).astype(dtype)
    else:
        x = np.random.default_rng(1).integers(0, 256, (3, 4 * dtype.itemsize), dtype=np.uint8).view(dtype)
        x[0] = np.array([-0.0, np.nan, np.inf, 1e-45]).astype(dtype)
    assert_same_bits(resample(x, (2, 6), (0.5, 1.5)), oracle(x, (2, 6), (0.5, 1.5)))


def test_random_keys():
    keys = random_keys(2)
    data = np.asarray(jax.random.key_data(keys))
    assert_same_bits(jax.random.key_data(resample(keys, (3,), (1.5,))), data[[0, 1, 1]])


def test_narrow_types_are_computed_in_float32_and_rounded_once():
    for dtype, numbers in (
        (jnp.bfloat16, [[1, 256, 512], [3, 255, 511]]),
        (np.float16, [[60000, 65504, 1], [0, 2049, 3]]),
    ):
        x = np.float32(numbers).astype(dtype)
        wide = oracle(x.astype(np.float32), (4, 6), (2, 2), "linear")
        assert_same_bits(resample(x, (4, 6), (2, 2), mode="linear"), wide.astype(dtype))


@pytest.mark.thinned(2)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
def test_integers_become_the_nearest_ones(dtype):
    """Halves the even ones."""
    assert_same_bits(resample(np.array([0, 1, 2, 3], dtype), (2,), (0.5,), mode="linear"), np.array([0, 2], dtype))
    limits = np.iinfo(dtype)
    x = np.array([[limits.min, limits.max, 3], [1, 2, limits.max]], dtype)
    assert_same_bits(resample(x, (4, 12), (2, 4), mode="linear"), oracle(x, (4, 12), (2, 4), "linear"))


def test_an_infinite_element_stays_where_it_is():
    """Where a neighbour counts nothing it adds no NaN; where it counts, it wins."""
    x = np.float32([1, np.inf, 2, 3])
    edges = {"input_pixel_offsets": 0, "output_pixel_offsets": 0, "mode": "linear"}
    made = resample(x, (8,), (2,), **edges)
    assert_same_bits(made, np.float32([1, np.inf, np.inf, np.inf, 2, 2.5, 3, 3]))
    zero = resample(np.float32([-0.0, 1]), (2,), (2,), **edges)
    assert_same_bits(zero, np.float32([-0.0, 0.5]))


def test_elements_that_count_nothing():
    """On an element, cubic convolution copies it: its bits where every element is one, and beside infinities."""
    edges = {"input_pixel_offsets": 0, "output_pixel_offsets": 0, "mode": "cubic", "cubic_coefficient": -0.6}
    x = np.array([1, -0.0, np.nan, 2, 5, np.inf], np.float16).view(np.uint16)
    x[2] += 3  # a NaN of other bits
    assert_same_bits(resample(x.view(np.float16), (3,), (0.5,), **edges).view(np.uint16), x[::2])
    made = resample(np.float32([1, np.inf, 2, 3, 4, 6]), (12,), (2,), **edges)
    assert_same_bits(made[::2], np.float32([1, np.inf, 2, 3, 4, 6]))
    assert np.isfinite(made[7:]).all()
    # 40 elements are read at once, of which infinities outside the filter are none.
    far = np.float32([*[1] * 40, np.inf, *[1] * 39])
    made = resample(far, (4,), mode="linear", antialias=True, exclude_outside=True)
    assert_same_bits(np.isinf(made), np.array([False, True, True, False]))
    np.testing.assert_allclose(made[::3], 1, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
def test_cubic_integers_stay_within_their_type(dtype):
    limits = np.iinfo(dtype)
    x = np.array([limits.min, limits.min, limits.max, limits.max, limits.min, 3], dtype)
    made = resample(x, (24,), mode="cubic")
    assert {limits.min, limits.max} <= {*made.tolist()}
    assert_same_bits(made, oracle(x, (24,), mode="cubic"))


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16, jnp.float8_e4m3fn])
@pytest.mark.parametrize("sizes", [(10,), (2,)], ids=str)
def test_narrow_floats_are_weighed_in_float32(dtype, sizes):
    x = (np.random.default_rng(0).normal(size=20)).astype(dtype)
    more = {"mode": "cubic", "antialias": True}
    wide = resample(x.astype(np.float32), sizes, **more)
    assert_same_bits(resample(x, sizes, **more), np.asarray(wide).astype(dtype))


def test_64_bit_data(x64):
    x = np.float64([1, 1 + 2.0**-40])
    if x64:
        assert_same_bits(resample(x, (4,), (2,)), oracle(x, (4,), (2,)))
        assert_same_bits(resample(x, (4,), (2,), mode="linear"), oracle(x, (4,), (2,), "linear"))
    else:
        with pytest.raises(DataTypeError, match="input of type float64 needs 64-bit types"):
            resample(x, (4,), (2,))


@pytest.mark.parametrize("mode", ALL_MODES)
def test_empty_arrays(mode):
    for x, sizes in ((X, (0, 3)), (X[:0], (0, 3)), (X[:, :0], (2, 0))):
        made = resample(x, sizes, (0.5, 0.5), mode=mode)
        assert made.shape == sizes
        back = jax.jit(jax.grad(lambda x, sizes=sizes: resample(x, sizes, (0.5, 0.5), mode=mode).sum()))(x)
        assert_same_bits(back, np.zeros_like(x))
    assert_same_bits(resample(np.float32(3), (), (), mode=mode), np.float32(3))


# Transformations.


def matrix(input_size, *args, **kwargs):
    """What a call does to one dimension, a row per element of the input."""
    return np.stack([oracle(one, *args, **kwargs) for one in np.eye(input_size, dtype=np.float32)])


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("sizes", "scales", "more"),
    [
        ((3,), (0.5,), {}),
        ((12,), (2,), {}),
        ((9,), (1.5,), {"rounding": "increasing"}),
        ((40,), (2,), {}),
        ((120,), (20,), {}),
        ((12,), (2,), {"mode": "linear"}),
        ((3,), (0.5,), {"mode": "linear"}),
        ((60,), (4,), {"mode": "linear"}),
        ((96,), (16,), {"mode": "linear"}),
        ((4,), (1,), {"mode": "linear", "input_pixel_offsets": -0.75}),
    ],
    ids=str,
)
def test_the_gradient_is_the_transpose(sizes, scales, more):
    """Of few and of many elements made of one."""
    weights = numbered(sizes) % 5
    found = jax.jit(jax.grad(lambda x: (resample(x, sizes, scales, **more) * weights).sum()))(numbered((6,)))
    assert_same_bits(found, matrix(6, sizes, scales, **more) @ weights)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("more", FILTERS[:8], ids=lambda more: "-".join(map(str, more.values())))
def test_the_gradient_of_every_filter_is_the_transpose(more):
    """Of few and of many elements that make one, against float64."""

    def gradient(x, sizes):
        return jax.grad(lambda x: (resample(x, sizes, **more) * (numbered(sizes) % 5)).sum())(x)

    shapes = [((23, 3), (2, 5)), ((6, 4), (13, 4)), ((5,), (1,)), ((1,), (7,))]
    found = together([(partial(gradient, sizes=sizes), numbered(shape)) for shape, sizes in shapes])
    for made, (shape, sizes) in zip(found, shapes, strict=True):
        each = np.eye(prod(shape)).reshape(-1, *shape)
        wanted = [(oracle(one, sizes, **more) * (numbered(sizes) % 5)).sum() for one in each]
        np.testing.assert_allclose(made, np.reshape(wanted, shape), rtol=1e-5, atol=1e-5)


def test_the_documented_gradient():
    """[4, 5, 6] flows back to [[9, 6], [0, 0]], of what is read as offsets of 0.5 and 0."""
    (found,) = jax.vjp(lambda x: OF_GRADIENT.compute(x), numbered((1, 1, 2, 2)))[1](np.float32([[[[4, 5, 6]]]]))
    assert_same_bits(found, np.float32([[[[9, 6], [0, 0]]]]))


@pytest.mark.thinned(2)
@pytest.mark.parametrize("count", [5, 64])
@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16], ids=lambda dtype: np.dtype(dtype).name)
def test_narrow_sums_are_rounded_once(dtype, count):
    """Of 1 and many halves of its last bit: added one by one, each is lost."""
    cotangents = np.full(count, float(ml_dtypes.finfo(dtype).eps) / 2, np.float32)
    cotangents[0] = 1
    for scale in (count, 1.5):  # of which the second repeats the edge
        (found,) = jax.vjp(lambda x, s=scale: resample(x, (count,), (s,)), np.ones(1, dtype))[1](
            cotangents.astype(dtype)
        )
        assert_same_bits(found, cotangents.sum(dtype=np.float64, keepdims=True).astype(np.float32).astype(dtype))


def test_vmap_of_any_axis():
    batch = numbered((2, 5, 3))
    mapped = jax.jit(jax.vmap(lambda x: resample(x, (4, 2), (2, 0.5)), in_axes=1, out_axes=2))(batch)
    for i in range(5):
        assert_same_bits(mapped[:, :, i], oracle(batch[:, i], (4, 2), (2, 0.5)))


def test_symbolic_sizes_of_what_is_left():
    (n,) = jax.export.symbolic_shape("n")
    spec = jax.ShapeDtypeStruct((n, 6), np.float32)
    for scales in ((1, 1.5), None):
        exported = jax.export.export(jax.jit(lambda x, s=scales: resample(x, (x.shape[0], 9), s)))(spec)
        assert_same_bits(exported.call(X), oracle(X, (4, 9), scales))
    with pytest.raises(ConstraintError, match="must be known while tracing where they are resampled, but those of dim"):
        jax.export.export(jax.jit(lambda x: resample(x, (2 * x.shape[0], 6), (2, 1))))(spec)


# Explicit meshes.


@pytest.mark.parametrize("mode", ALL_MODES)
def test_a_dimension_that_is_left_keeps_its_sharding_without_communication(mode):
    x = on_explicit_mesh(X, "d", None)
    function = partial(resample, sizes=(4, 9), scales=(1, 1.5), mode=mode)
    made = function(x)
    assert jax.typeof(made).sharding.spec == P("d", None)
    np.testing.assert_allclose(made, oracle(X, (4, 9), (1, 1.5), mode), rtol=1e-6)
    assert not communicates(function, x)


def communicates(function, x):
    text = jax.jit(function).lower(x).compile().as_text()
    return any(word in text for word in ("all-gather", "all-reduce", "collective-permute", "all-to-all"))


def test_a_repeated_dimension_keeps_its_sharding():
    function, x = partial(resample, sizes=(8, 6), scales=(2, 1)), on_explicit_mesh(X, "d", None)
    assert jax.typeof(function(x)).sharding.spec == P("d", None)
    assert_same_bits(function(x), X.repeat(2, 0))
    assert not communicates(function, x)


@pytest.mark.parametrize("mode", ALL_MODES)
def test_another_sharded_dimension_needs_an_out_sharding(mode):
    x = on_explicit_mesh(X, None, "d")
    with pytest.raises(ConstraintError, match="dimension 1 of input is sharded over 'd', along which"):
        resample(x, (4, 3), (1, 0.5), mode=mode)
    made = resample(x, (4, 4), (1, 0.5), mode=mode, out_sharding=P(None, "d"))
    assert jax.typeof(made).sharding.spec == P(None, "d")
    assert_same_bits(made, oracle(X, (4, 4), (1, 0.5), mode))


def test_signs_of_zeros_that_devices_read_for_each_other():
    x = np.full((4, 6), -0.0, np.float32)
    made = resample(on_explicit_mesh(x, None, "d"), (4, 8), (1, 1.25), out_sharding=P(None, "d"))
    assert_same_bits(made, np.full((4, 8), -0.0, np.float32))


# Mistakes.


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"input": 3}, DataTypeError, "input must be an array"),
        ({"sizes": 2}, DataTypeError, "sizes must be a sequence of integers, but it is 2"),
        ({"sizes": (2, 1.5)}, DataTypeError, r"sizes\[1\] must be an integer, but it is 1.5"),
        (
            {"sizes": (2, 2, 2)},
            ConstraintError,
            "sizes must have one entry per dimension of input, but there are 3 for 2",
        ),
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
        (
            {"input_pixel_offsets": (0, 0, 0)},
            ConstraintError,
            "one entry per dimension of input, but there are 3 for 2",
        ),
        (
            {"output_pixel_offsets": np.inf},
            ConstraintError,
            "output_pixel_offsets must be finite in float32, but it is",
        ),
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
        (
            {"input": X[:0]},
            ConstraintError,
            "input must have elements along every dimension .* but dimension 0 has none",
        ),
        ({"input": X > 3, "mode": "linear"}, DataTypeError, "or integers of at most 16 bits"),
    ],
)
def test_mistakes_are_named(change, error, match):
    with pytest.raises(error, match=f"^resample: .*{match}"):
        resample(**CASE.arguments | change)


def test_traced_attributes_are_refused():
    with pytest.raises(DataTypeError, match="scales must be a sequence of real numbers"):
        jax.jit(lambda s: resample(X, (2, 9), s))(np.float32([0.5, 1.5]))
    with pytest.raises(DataTypeError, match="input_pixel_offsets must be a sequence of real numbers, or one of them"):
        jax.jit(lambda o: resample(X, (2, 9), (0.5, 1.5), input_pixel_offsets=o))(0.5)


def test_numbers_of_numpy_are_accepted():
    made = resample(
        X,
        np.int64([2, 9]),
        np.float32([0.5, 1.5]),
        input_pixel_offsets=np.float16(0.5),
        output_pixel_offsets=np.full(2, -0.5),
    )
    assert_same_bits(made, CASE(X))


def test_a_compiled_operator_with_strides():
    input, output = TensorDesc("UINT8", (2, 2), (1, 2)), TensorDesc("UINT8", (2, 3), (4, 1))
    desc = Resample2Desc(input, output, 0, AxisDirection.DECREASING, (1, 1.5), (0, 0), (0, 0))
    assert_same_bits(compile_operator(desc)(np.uint8([1, 3, 2, 4])), np.uint8([1, 1, 2, 0, 3, 3, 4]))


def test_a_long_empty_output_needs_no_tables():
    assert resample(jnp.zeros((0, 1, 1)), (0, 2**26, 1), (1, 1, 1)).shape == (0, 2**26, 1)
