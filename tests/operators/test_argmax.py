"""ARGMAX and ARGMIN: indices of extremes, counted along all reduced dimensions."""

import jax
import numpy as np
import pytest
from checks import assert_same_bits
from draws import dims
from operator_cases import Example, Struct, f32, i64, u32, u64
from oracles import coordinates

from dml_jax import AxisDirection, compile_operator
from dml_jax.descs import ArgmaxDesc, ArgminDesc

pytestmark = pytest.mark.device

BETTER = {"ARGMAX": lambda x, y: x > y or (x != x and y == y), "ARGMIN": lambda x, y: x < y or (x != x and y == y)}


def expected(desc, input):
    """Element by element, in the order in which the index counts."""
    better, is_last = BETTER[desc.operator_type], desc.axis_direction == AxisDirection.DECREASING
    output = np.zeros(desc.output.sizes, desc.output.dtype)
    for at in coordinates(output.shape):
        along = coordinates([n if d in desc.axes else 1 for d, n in enumerate(input.shape)])
        numbers = [input[tuple(np.add(at, one))] for one in along]
        best = 0
        for i, x in enumerate(numbers):
            if better(x, numbers[best]) or (is_last and not better(numbers[best], x)):
                best = i
        output[at] = best
    return output


def draw(rng):
    sizes = dims(rng, int(rng.integers(1, 9)))
    axes = [int(d) for d in rng.permutation(len(sizes))[: rng.integers(1, len(sizes) + 1)]]
    output = [1 if d in axes else n for d, n in enumerate(sizes)]
    return {"input": sizes, "output": output, "axes": axes, "axis_direction": AxisDirection(int(rng.integers(0, 2)))}


def fill(rng, port, tensor, count):
    """Few different numbers, so that many are equal; floats with NaNs."""
    values = [-1, 2, 2.5, np.nan] if tensor.dtype.kind == "f" else [-3, 5, 2**62]
    return rng.choice(np.array(values).astype(tensor.dtype), count)


IMAGE = f32(1, 1, 3, 3)
TABLE = [1, 2, 3, 3, 0, 4, 2, 5, 2]
DOCUMENTED = {
    ArgmaxDesc: [((2,), (1, 1, 1, 3), [1, 2, 1]), ((3,), (1, 1, 3, 1), [2, 2, 1]), ((2, 3), (1, 1, 1, 1), [7])],
    ArgminDesc: [((2,), (1, 1, 1, 3), [0, 1, 2]), ((3,), (1, 1, 3, 1), [0, 1, 0]), ((2, 3), (1, 1, 1, 1), [4])],
}
TIES = f32(1, 1, 1, 5)


def struct_of(cls):
    desc = cls(f32(1, 1, 3, 4), u32(1, 1, 3, 4), (0,), "INCREASING")
    return Struct(
        desc,
        breaks={"axes_within(axes)": {"axes": (0, 0)}, "sizes_follow(output)": {"output": u32(1, 1, 3, 1)}},
        examples=[
            *(Example(cls(IMAGE, u32(*sizes), axes, 0), [TABLE], [output]) for axes, sizes, output in DOCUMENTED[cls]),
            *(
                Example(cls(TIES, u32(1, 1, 1, 1), (3,), way), [[3, 2, 1, 2, 3]], [[at]])
                for way, at in enumerate({ArgmaxDesc: (0, 4), ArgminDesc: (2, 2)}[cls])
            ),
        ],
        draw=draw,
        expected=expected,
        fill=fill,
    )


STRUCTS = tuple(map(struct_of, (ArgmaxDesc, ArgminDesc)))


@pytest.mark.parametrize("cls", [ArgmaxDesc, ArgminDesc])
def test_several_dimensions_with_others_between_them(cls):
    """In whatever order they are named; ties and NaNs."""
    rng = np.random.default_rng(1)
    x = rng.choice(np.float32([-1, 2, np.nan, np.inf]), (3, 2, 4), p=[0.4, 0.3, 0.1, 0.2])
    for axes, sizes in (((0, 2), (1, 2, 1)), ((2, 0), (1, 2, 1)), ((1,), (3, 1, 4)), ((0, 1, 2), (1, 1, 1))):
        for direction in AxisDirection:
            desc = cls(f32(3, 2, 4), u32(*sizes), axes, direction)
            assert_same_bits(desc.compute(x), expected(desc, x))


def test_64_bit_numbers_are_compared_as_such(x64):
    x = np.int64([2**53, 2**53 + 1, -(2**63), 2**53 + 1])
    desc = ArgmaxDesc(i64(1, 4), u64(1, 1), (1,), "DECREASING")
    made = np.asarray(compile_operator(desc)(x if x64 else x.view(np.uint32)))
    assert_same_bits(made.view(np.uint64), np.uint64([3]))


def test_an_index_has_no_gradient():
    desc = ArgmaxDesc(f32(2, 3), u32(2, 1), (1,), "INCREASING")
    back = jax.grad(lambda x: desc.compute(x).astype(np.float32).sum())(np.float32([[1, 2, 3], [3, 2, 1]]))
    assert_same_bits(back, np.zeros((2, 3), np.float32))
