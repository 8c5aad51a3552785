"""split and SPLIT: outputs[i] = the next sizes[i] elements of input along axis."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_calls_agree, assert_is, assert_same_bits
from draws import dims
from jax.sharding import PartitionSpec as P
from operator_cases import Call, Example, Struct, f32, i8, i32, u8
from oracles import coordinates
from refusals import refuses
from small_arrays import (
    every_small_shape,
    numbered,
    on_explicit_mesh,
)

from dml_jax import ConstraintError, DataTypeError, SplitDesc, compile_operator, join, split

pytestmark = pytest.mark.device


def oracle(input, sizes, axis):
    axis %= input.ndim
    outputs, start = [], 0
    for n in sizes:
        output = np.empty([*input.shape[:axis], n, *input.shape[axis + 1 :]], input.dtype)
        for c in coordinates(output.shape):
            output[c] = input[(*c[:axis], start + c[axis], *c[axis + 1 :])]
        outputs.append(output)
        start += n
    return tuple(outputs)


X = numbered((4, 6))
CASE = Call(split, {"input": X}, {"sizes": (2, 1, 3), "axis": 1})
BREAKS = {
    "minimum_rank(input, 1)": {"input": np.float32(1)},
    "axis_of(input)": {"axis": 2},
    "some(sizes)": {"sizes": ()},
    "each_at_least(sizes, 0)": {"sizes": (7, -1)},
    "complete": {"sizes": (2, 1, 2)},
}
VARIANTS = {"whole": {"sizes": (6,)}, "first axis": {"sizes": (1, 3), "axis": -2}}


# The struct.


def draw(rng):
    sizes = dims(rng, int(rng.integers(1, 9)), 40)
    axis = int(rng.integers(0, len(sizes)))
    along = [int(n) for n in rng.integers(1, 4, int(rng.integers(1, 4)))]
    return {
        "input": [*sizes[:axis], sum(along), *sizes[axis + 1 :]],
        "outputs": [[*sizes[:axis], n, *sizes[axis + 1 :]] for n in along],
        "axis": axis,
    }


DOCUMENTED = SplitDesc(f32(1, 1, 6, 2), (f32(1, 1, 2, 2), f32(1, 1, 1, 2), f32(1, 1, 3, 2)), axis=2)
STRUCTS = (
    Struct(
        DOCUMENTED,
        breaks={"below_rank(axis)": {"axis": 4}, "parts": {"outputs": (f32(1, 1, 2, 2), f32(1, 1, 2, 2))}},
        examples=(
            Example(DOCUMENTED, [range(1, 13)], (range(1, 5), range(5, 7), range(7, 13))),
            Example(
                SplitDesc(f32(1, 1, 6, 2), (f32(1, 1, 6, 1),) * 2, axis=3),
                [range(1, 13)],
                (range(1, 13, 2), range(2, 13, 2)),
            ),
        ),
        draw=draw,
        expected=lambda desc, x: oracle(x, [one.sizes[desc.axis] for one in desc.outputs], desc.axis),
        leading={"axis": 1},
    ),
)

STRIDED = SplitDesc(i8(2, 3, strides=(1, 2)), (i8(2, 1, strides=(2, 1)), i8(2, 2)), axis=1)
BUFFER = np.int8([1, 2, 3, 4, 5, 6])


def test_outputs_have_strides_and_buffers_of_their_own():
    run = compile_operator(STRIDED)
    assert list(STRIDED.output_ports()) == ["outputs[0]", "outputs[1]"]
    assert_is(run(BUFFER), (np.int8([1, 0, 2]), np.int8([3, 5, 4, 6])))
    outs = jnp.full(4, 9, jnp.int8), jnp.full(5, 8, jnp.int8)
    made = run(BUFFER, out=outs)
    assert_is(made, (np.int8([1, 9, 2, 9]), np.int8([3, 5, 4, 6, 8])))
    assert all(one.is_deleted() for one in outs)


def test_what_is_bound_is_one_buffer_per_output():
    run, out = compile_operator(STRIDED), jnp.zeros(4, jnp.int8)
    for wrong in (out, (out,), (out, out)):
        with pytest.raises((ConstraintError, DataTypeError), match="SPLIT: "):
            run(BUFFER, out=wrong)


def test_a_single_output():
    desc = SplitDesc(u8(3), [u8(3)], axis=0)
    x = np.uint8([1, 2, 3])
    """Is a tuple too, as programs over any number of parts want."""
    (compiled,) = compile_operator(desc)(x)
    assert_same_bits(compiled, x)
    (computed,) = desc.compute(x)
    assert_same_bits(computed, x)


test_what_the_struct_refuses = refuses(
    DOCUMENTED,
    ({"outputs": ()}, ConstraintError, "OutputTensors must hold a tensor, but it is empty"),
    ({"outputs": f32(2)}, DataTypeError, "OutputTensors must be a sequence of TensorDesc"),
    ({"outputs": (f32(1, 6, 2),)}, ConstraintError, "OutputTensors.DimensionCount must equal"),
    ({"outputs": (i32(1, 1, 6, 2),)}, DataTypeError, "they are INT32 and FLOAT32"),
    ({"outputs": (f32(1, 1, 6, 3),)}, ConstraintError, r"\(1, 1, 6, 3\) of number 0 and \(1, 1, 6, 2\) differ"),
    ({"outputs": (f32(1, 1, 5, 2),)}, ConstraintError, "along Axis, where they add up to it, .* add up to 5, not 6"),
    ({"axis": 4}, ConstraintError, r"Axis must be in \[0, "),
)


# Against the oracle.


@every_small_shape
def test_every_small_shape(shapes):
    def calls():
        for shape in shapes:
            x = numbered(shape)
            for axis, n in enumerate(shape):
                for at, sizes in [(axis, (n,)), (axis - len(shape), (1, n - 1)), (axis, (0, *(1,) * n))]:
                    yield partial(split, sizes=sizes, axis=at), (x,), oracle(x, sizes, at)

    assert_calls_agree(calls())


def test_join_inverts_it():
    parts = split(X, (1, 0, 4, 1), -1)
    assert isinstance(parts, tuple)
    assert_same_bits(join(parts, -1), X)


# Empty arrays.


def test_empty_parts():
    assert [part.shape for part in split(X, (0, 6, 0), 1)] == [(4, 0), (4, 6), (4, 0)]
    assert [part.shape for part in split(X[:0], (4, 2), 1)] == [(0, 4), (0, 2)]
    assert [part.shape for part in split(X[:0].astype(jnp.bfloat16), (0, 0), 0)] == [(0, 6)] * 2


# Transformations.


def test_a_symbolic_part_is_known_not_to_be_negative():
    """Of b - 2 rows JAX knows it if it knows that there are two."""

    def two_and_others(*constraints):
        specs = jax.ShapeDtypeStruct(jax.export.symbolic_shape("b, 3", constraints=constraints), np.float32)
        return jax.export.export(jax.jit(lambda x: split(x, (2, x.shape[0] - 2), axis=0)))(specs)

    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    assert_is(two_and_others("b >= 2").call(x), [x[:2], x[2:]])
    with pytest.raises(ConstraintError, match=r"sizes must be at least 0, but a size is symbolic: .* 'b - 2' >= '0'"):
        two_and_others()


def test_gradients_are_the_cotangents_behind_each_other():
    weights = numbered((4, 6))
    ours = split(weights, (2, 1, 3), 1)
    found = jax.jit(jax.grad(lambda x: sum((a * b).sum() for a, b in zip(split(x, (2, 1, 3), 1), ours, strict=True))))(
        X
    )
    assert_same_bits(found, weights)
    one = jax.jit(jax.grad(lambda x: (split(x, (2, 1, 3), 1)[1] * ours[1]).sum()))(X)
    assert_same_bits(one, np.where(np.arange(6) == 2, weights, 0))
    (found,) = jax.vjp(lambda x: split(x, (4, 2), 1), X.astype(jnp.bfloat16))[1](
        split(weights.astype(jnp.bfloat16), (4, 2), 1)
    )
    assert_same_bits(found, weights.astype(jnp.bfloat16))


# Explicit meshes.


def test_a_sharded_axis_keeps_its_sharding_if_it_fits_every_part():
    x = on_explicit_mesh(X, None, "d")
    with pytest.raises(ConstraintError, match="dimension 1 of input is sharded over 'd', along which"):
        split(x, (1, 5), 1)
    parts = split(x, (2, 4), 1)
    assert [jax.typeof(part).sharding.spec for part in parts] == [P(None, "d")] * 2
    assert_is(parts, oracle(X, (2, 4), 1))
    with pytest.raises(ConstraintError, match="dimension 1 of the output has size 1, and 'd' has 2 devices"):
        split(x, (1, 5), 1, out_sharding=jax.typeof(x).sharding)


# Mistakes.


test_mistakes_are_named = refuses(
    CASE,
    ({"input": [1, 2]}, DataTypeError, "input must be an array"),
    ({"sizes": 2}, DataTypeError, "sizes must be a sequence of integers, but it is 2"),
    ({"sizes": (2, 4.0)}, DataTypeError, r"sizes\[1\] must be an integer, but it is 4.0"),
    ({"axis": "1"}, DataTypeError, "axis must be an integer"),
    ({"axis": -3}, ConstraintError, "it is -3 and the rank is 2"),
    ({"sizes": []}, ConstraintError, "sizes must hold a size, but there is none"),
    ({"sizes": (8, -2)}, ConstraintError, "every one of sizes must be at least 0"),
    ({"sizes": (3, 4)}, ConstraintError, r"\(3, 4\) add up to 7, not 6"),
)
