"""pad, PADDING and PADDING1: output[c] = input[source(c - start_padding)], or a number around input."""

import itertools
from functools import partial

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_calls_agree, assert_same_bits
from draws import dims
from operator_cases import Call, Example, Struct, f32
from oracles import coordinates
from refusals import refuses
from small_arrays import FEW, every_small_shape, numbered

from dml_jax import ConstraintError, DataType, DataTypeError, Padding1Desc, PaddingDesc, PaddingMode, pad

pytestmark = pytest.mark.device


def source(at, size, mode):
    """The element that is copied to a coordinate, counted from the first one; None for a number."""
    if mode == "edge":
        return min(max(at, 0), size - 1)
    if mode == "wrap":
        return at % size
    if mode == "symmetric":
        return min(at % (2 * size), 2 * size - 1 - at % (2 * size))
    if mode == "reflection":
        return min(at % (2 * size - 2), 2 * size - 2 - at % (2 * size - 2)) if at not in range(size) else at
    return at if at in range(size) else None


def oracle(input, start_padding, end_padding, mode="constant", value=0):
    sizes = [s + n + e for s, n, e in zip(start_padding, input.shape, end_padding, strict=True)]
    output = np.full(sizes, value, input.dtype)
    for c in coordinates(sizes):
        at = tuple(source(i - s, n, mode) for i, s, n in zip(c, start_padding, input.shape, strict=True))
        if None not in at:
            output[c] = input[at]
    return output


MODES = ("constant", "edge", "reflection", "symmetric", "wrap")
COPIES = MODES[1:]
X = numbered((4, 6))
CASE = Call(pad, {"input": X}, {"start_padding": (1, 2), "end_padding": (3, 0), "mode": "reflection"})
BREAKS = {
    "one_per_dimension(start_padding)": {"start_padding": (1,)},
    "one_per_dimension(end_padding)": {"end_padding": (1, 2, 3)},
    "each_at_least(start_padding, 0)": {"start_padding": (-1, 2)},
    "each_at_least(end_padding, 0)": {"end_padding": (3, -2)},
    "one_of(mode)": {"mode": "mirror"},
    "representable": {"start_padding": (1, 2**59)},
    "enough_to_copy": {"input": X[:1]},
}
VARIANTS = {
    **{mode: {"mode": mode} for mode in MODES},
    **{f"far {mode}": {"mode": mode, "start_padding": (9, 0), "end_padding": (0, 17)} for mode in COPIES},
    "nothing": {"start_padding": (0, 0), "end_padding": (0, 0)},
    "integers": {"input": X.astype(np.int16), "mode": "constant", "value": -7},
}


# By example.


ROW_OF_3 = {
    "constant": [0, 0, 1, 2, 3, 0, 0, 0],
    "edge": [1, 1, 1, 2, 3, 3, 3, 3],
    "reflection": [3, 2, 1, 2, 3, 2, 1, 2],
    "symmetric": [2, 1, 1, 2, 3, 3, 2, 1],
    "wrap": [2, 3, 1, 2, 3, 1, 2, 3],
}


def test_two_elements_before_a_row_and_three_behind_it():
    for mode, wanted in ROW_OF_3.items():
        assert_same_bits(pad(np.int32([1, 2, 3]), (2,), (3,), mode=mode), np.int32(wanted))


# Against the oracle.


def calls(shapes, *borders):
    for shape, mode, border in itertools.product(shapes, MODES, borders):
        x, ends = numbered(shape), [border[: len(shape)], border[::-1][: len(shape)]]
        if mode == "reflection":
            ends = [[0 if n == 1 else b for n, b in zip(shape, border, strict=True)] for border in ends]
        call = partial(pad, start_padding=ends[0], end_padding=ends[1], mode=mode)
        yield call, (x,), oracle(x, *ends, mode)


@every_small_shape
def test_every_small_shape(shapes):
    """Borders shorter and longer than the array; of few shapes every fourth call, which has every mode and border."""
    every = calls(shapes, (1, 0, 2), (3, 2, 0), (0, 7, 4))
    assert_calls_agree(itertools.islice(every, 0, None, 4 if shapes is FEW else 1))


@pytest.mark.thinned(2)
@pytest.mark.parametrize("mode", MODES)
def test_numpy_agrees(mode):
    """WRAP is documented nowhere; it is NumPy's."""
    x = numbered((3, 4))
    wanted = np.pad(x, [(5, 2), (0, 9)], mode={"reflection": "reflect"}.get(mode, mode))
    assert_same_bits(pad(x, (5, 0), (2, 9), mode=mode), wanted)


def test_reflect_is_reflection():
    """As NumPy, jax.numpy and torch call it."""
    x = numbered((3, 4))
    for ends in (((1, 0), (2, 3)), ((7, 0), (0, 9))):
        wanted = np.pad(x, [*zip(*ends, strict=True)], mode="reflect")
        assert_same_bits(pad(x, *ends, mode="reflect"), wanted)
        assert_same_bits(pad(x, *ends, mode="reflection"), wanted)


# The structs.


def draw(rng):
    """A few dimensions are padded, some by more than their size."""
    input = dims(rng, int(rng.integers(1, 9)), 12)
    mode = MODES[rng.integers(0, 5)]
    start, end = (np.where(rng.random(len(input)) < 0.3, rng.integers(0, 8, len(input)), 0) for _ in range(2))
    if mode == "reflection":
        start, end = (np.where(np.array(input) > 1, border, 0) for border in (start, end))
    while np.prod(output := start + input + end) > 1000:
        start[np.argmax(start)] = end[np.argmax(end)] = 0
    return {
        "input": input,
        "output": [int(n) for n in output],
        "padding_mode": mode.upper(),
        "padding_value": int(rng.integers(0, 128)),
        "start_padding": [int(n) for n in start],
        "end_padding": [int(n) for n in end],
    }


def draw_float(rng):
    """Numbers that some types do not hold."""
    numbers = (0.0, -0.0, 2.9, -2.9, 300.5, 65520.0, 1e20, -1e20, np.inf, -np.inf, np.nan)
    return {**draw(rng), "padding_value": float(rng.choice(numbers))}


def element(value, dtype):
    """A FLOAT as an element: of integers its whole part, or the nearest number, and 0 for NaN."""
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return np.float32(value).astype(dtype)
    limits = np.iinfo(dtype)
    whole = 0 if np.isnan(value) else limits.max if value > limits.max else limits.min if value < limits.min else value
    return dtype.type(int(whole))


def expected(desc, x):
    value = element(float(np.float32(desc.padding_value)), x.dtype)
    return oracle(x, desc.start_padding, desc.end_padding, desc.padding_mode.name.lower(), value)


def expected1(desc, x):
    return oracle(x, desc.start_padding, desc.end_padding, desc.padding_mode.name.lower(), desc.padding_value)


IN, OUT = (1, 1, 4, 4), (1, 1, 8, 10)
BORDER = {"start_padding": (0, 0, 1, 2), "end_padding": (0, 0, 3, 4)}
ROWS = [1, 2, 3, 4, 5, 6, 7, 8] * 2
NINES = [9] * 10
FIRST, SECOND = [9, 9, 1, 2, 3, 4, 9, 9, 9, 9], [9, 9, 5, 6, 7, 8, 9, 9, 9, 9]
EDGE = [1, 1, 1, 2, 3, 4, 4, 4, 4, 4], [5, 5, 5, 6, 7, 8, 8, 8, 8, 8]
REFLECTED = [7, 6, 5, 6, 7, 8, 7, 6, 5, 6], [3, 2, 1, 2, 3, 4, 3, 2, 1, 2]
MIRRORED = [2, 1, 1, 2, 3, 4, 4, 3, 2, 1], [6, 5, 5, 6, 7, 8, 8, 7, 6, 5]


def rows(pair, order):
    """The rows of a picture, by 0 and 1."""
    return [number for row in order for number in pair[row]]


PICTURES = {
    "CONSTANT": NINES + FIRST + SECOND + FIRST + SECOND + NINES * 3,
    "EDGE": rows(EDGE, (0, 0, 1, 0, 1, 1, 1, 1)),
    "REFLECTION": rows(REFLECTED, (0, 1, 0, 1, 0, 1, 0, 1)),
    "SYMMETRIC": rows(MIRRORED, (0, 0, 1, 0, 1, 1, 0, 1)),
}
DOCUMENTED = {mode: PaddingDesc(f32(*IN), f32(*OUT), mode, 9, **BORDER) for mode in PICTURES}
DOCUMENTED1 = {mode: Padding1Desc(f32(*IN), f32(*OUT), mode, "FLOAT32", 9, **BORDER) for mode in PICTURES}
BREAKS_OF_BOTH = {
    "one_per_dimension(start_padding)": {"start_padding": (0, 1, 2)},
    "one_per_dimension(end_padding)": {"end_padding": ()},
    "sizes_follow(output)": {"output": f32(1, 1, 10, 8)},
    "enough_to_copy": {"start_padding": (1, 0, 1, 2), "output": f32(2, 1, 8, 10)},
}
STRUCTS = (
    Struct(
        DOCUMENTED["REFLECTION"],
        breaks=BREAKS_OF_BOTH,
        examples=[Example(desc, [ROWS], [PICTURES[mode]]) for mode, desc in DOCUMENTED.items()],
        draw=draw_float,
        expected=expected,
        leading={"start_padding": 0, "end_padding": 0},
    ),
    Struct(
        DOCUMENTED1["REFLECTION"],
        breaks={
            "type_of(padding_value_data_type, output)": {"padding_value_data_type": DataType.INT32},
            "held(padding_value, padding_value_data_type)": {"padding_value": 1e39},
            **BREAKS_OF_BOTH,
        },
        examples=[Example(desc, [ROWS], [PICTURES[mode]]) for mode, desc in DOCUMENTED1.items()],
        draw=draw,
        expected=expected1,
        leading={"start_padding": 0, "end_padding": 0},
    ),
)


test_what_the_struct_refuses = refuses(
    DOCUMENTED["REFLECTION"],
    ({"start_padding": (0, 0, -1, 2)}, r"StartPadding\[2\] must be in \[0, 2\*\*32 - 1\]"),
    ({"padding_mode": "REFLECT"}, "PaddingMode must be one of CONSTANT, EDGE, REFLECTION, SYMMETRIC, WRAP"),
    ({"padding_mode": 5}, "PaddingMode must be one of CONSTANT"),
    ({"padding_value": "9"}, "PaddingValue must be a real number"),
    ({"end_padding": (0, 0, 3)}, "EndPadding must have one entry per dimension of InputTensor, but there are 3"),
    ({"output": f32(1, 1, 4, 4)}, r"EndPadding, but \(1, 1, 4, 4\) is not \(1, 1, 8, 10\)"),
    (
        {"start_padding": (0, 1, 1, 2), "output": f32(1, 2, 8, 10)},
        "every dimension padded with copies, two to reflect, but dimension 1 has 1",
    ),
)


def test_modes_that_need_a_feature_level():
    made = {mode: PaddingDesc(f32(*IN), f32(*OUT), mode, 0, **BORDER) for mode in PaddingMode}
    for first, refused in {"1_0": (3, 4), "2_1": (3, 4), "3_0": (4,), "6_3": (4,), "6_4": ()}.items():
        for mode, desc in made.items():
            if mode in refused:
                match = f"PaddingMode must not be {mode.name} below feature level ., but it is {mode.name}"
                with pytest.raises(ConstraintError, match=match.replace(" .", " ._.")):
                    desc.validate(first)
            else:
                desc.validate(first)
    with pytest.raises(ConstraintError, match="must not be WRAP below feature level 6_4"):
        Padding1Desc(f32(*IN), f32(*OUT), "WRAP", "FLOAT32", 0, **BORDER).validate("5_0")


# Transformations.


@pytest.mark.thinned(12)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, jnp.bfloat16])
@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_all_copies_are_added(mode, dtype):
    """In float32, and rounded once; a border of more periods than are put together one by one too."""
    for ends, most in [(((1, 2), (3, 0)), 251), (((0, 700), (90, 3)), 2)]:
        weights = numbered(oracle(X, *ends, mode).shape) % most
        of_each = oracle(np.arange(24).reshape(4, 6), *ends, mode, -1)
        wanted = np.array([weights[of_each == i].sum() for i in range(24)]).reshape(4, 6)
        back = jax.vjp(lambda x, ends=ends: pad(x, *ends, mode=mode), X.astype(dtype))[1]
        assert_same_bits(back(weights.astype(dtype))[0], wanted.astype(dtype))


def test_the_gradient_beside_another_number():
    assert_same_bits(jax.jit(jax.grad(lambda x: (pad(x, (1, 2), (3, 0), value=5) ** 2).sum()))(X), 2 * X)
    narrow = jax.jit(jax.grad(lambda x: pad(x, (1, 2), (3, 0), value=5).sum()))(X.astype(jnp.bfloat16))
    assert_same_bits(narrow, np.ones((4, 6), jnp.bfloat16))


@pytest.mark.parametrize("mode", COPIES)
def test_nothing_is_gathered_or_scattered(mode):
    back = jax.make_jaxpr(lambda x, y: jax.vjp(lambda x: pad(x, (9, 2), (3, 70), mode=mode), x)[1](y))
    for text in (jax.make_jaxpr(lambda x: pad(x, (9, 2), (3, 70), mode=mode))(X), back(X, numbered((16, 78)))):
        assert not any(name in str(text) for name in ("gather", "scatter"))


# Mistakes.


test_mistakes_are_named = refuses(
    CASE.changed(mode="constant"),
    ({"input": [1, 2]}, DataTypeError, "input must be an array"),
    ({"start_padding": 1}, DataTypeError, "start_padding must be a sequence of integers, but it is 1"),
    ({"start_padding": ((1, 2), (3, 0))}, DataTypeError, r"start_padding\[0\] must be an integer"),
    ({"end_padding": (1, 0.5)}, DataTypeError, r"end_padding\[1\] must be an integer, but it is 0.5"),
    ({"end_padding": (1, np.nan)}, DataTypeError, r"end_padding\[1\] must be an integer"),
    ({"end_padding": (1,)}, ConstraintError, "one entry per dimension of input, but there are 1 for 2"),
    ({"start_padding": (-1, 0)}, ConstraintError, r"every one of start_padding must be at least 0"),
    ({"start_padding": (2**63, 0)}, ConstraintError, r"must give an array of fewer than 2\*\*63 bytes"),
    ({"start_padding": (2**40, 0), "end_padding": (0, 2**40)}, ConstraintError, r"fewer than 2\*\*63 bytes"),
    (
        {"mode": "mirror"},
        ConstraintError,
        "mode must be one of 'constant', 'edge', 'reflection', 'reflect', 'symmetric', 'wrap', but it is 'mirror'",
    ),
    ({"input": X[:, :1], "mode": "reflect"}, ConstraintError, "two to reflect, but dimension 1 has 1"),
    ({"mode": 3}, DataTypeError, "mode must be a string"),
    ({"mode": "edge", "value": 1}, ConstraintError, "value needs mode=\"constant\", but mode is 'edge'"),
    ({"value": "1"}, DataTypeError, "value must be a number .*, known while tracing, that float32 holds"),
    ({"value": 1e39}, DataTypeError, "that float32 holds, but it is 1e"),
    ({"value": 1j}, DataTypeError, "that float32 holds"),
    ({"input": X.astype(np.uint8), "value": -1}, DataTypeError, "that uint8 holds, but it is -1"),
    ({"input": X.astype(np.uint8), "value": 0.5}, DataTypeError, "that uint8 holds, but it is 0.5"),
    ({"input": X[:, :1], "mode": "reflection"}, ConstraintError, "two to reflect, but dimension 1 has 1"),
)
