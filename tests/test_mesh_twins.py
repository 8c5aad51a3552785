"""Explicit meshes: every operator accepts what the function of JAX that means the same does, with the same sharding."""

import contextlib
import itertools
import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import dml_jax
from dml_jax import Activation

SIZES = (4, 8, 4)
PICTURES = (4, 4, 8, 8)
RANK = len(SIZES)
F, I = jnp.float32, jnp.int32  # noqa: E741


def at(axis, value, others):
    """A number per dimension: one along the axis, another one along the others."""
    return tuple(value if d == axis else others for d in range(RANK))


def sliced(axis, start, stop, step):
    """A window [start, stop) of one axis; a negative step begins at its end."""
    sizes = tuple(stop - start if d == axis else n for d, n in enumerate(SIZES))
    taken = slice(start, stop, step) if step > 0 else slice(stop - 1, start - 1 if start else None, step)
    return (
        lambda x: dml_jax.slice(x, at(axis, start, 0), sizes, at(axis, step, 1)),
        lambda x: x[at(axis, taken, slice(None))],
        [SIZES],
    )


def spread(axis):
    """The transpose of a slice of every second element."""
    sizes = tuple(2 * n if d == axis else n for d, n in enumerate(SIZES))
    zeros = [(0, 1, 1) if d == axis else (0, 0, 0) for d in range(RANK)]
    return (
        lambda x: dml_jax.slice_grad(x, sizes, at(axis, 0, 0), sizes, at(axis, 2, 1)),
        lambda x: lax.pad(x, jnp.zeros((), x.dtype), zeros),
        [SIZES],
    )


def padded(axis, start, end, mode):
    widths = at(axis, (start, end), (0, 0))
    starts, ends = zip(*widths, strict=True)
    numpy_mode = {"reflection": "reflect"}.get(mode, mode)
    return lambda x: dml_jax.pad(x, starts, ends, mode=mode), lambda x: jnp.pad(x, widths, mode=numpy_mode), [SIZES]


def reduced(axis, function, twin):
    return lambda x: dml_jax.reduce(x, function, (axis,)), lambda x: twin(x, axis, keepdims=True), [SIZES]


REDUCTIONS = {
    "argmax": jnp.argmax,
    "argmin": jnp.argmin,
    "average": jnp.mean,
    "l1": lambda x, *how, **options: jnp.sum(jnp.abs(x), *how, **options),
    "l2": lambda x, *how, **options: jnp.sqrt(jnp.sum(x * x, *how, **options)),
    "log_sum": lambda x, *how, **options: jnp.log(jnp.sum(x, *how, **options)),
    "log_sum_exp": jax.nn.logsumexp,
    "max": jnp.max,
    "min": jnp.min,
    "multiply": jnp.prod,
    "sum": jnp.sum,
    "sum_square": lambda x, *how, **options: jnp.sum(x * x, *how, **options),
}


def along(axis):
    """By name: the operator, the function of JAX, and the operands, of what works along one axis."""
    size, fewer = SIZES[axis], tuple(2 if d == axis else n for d, n in enumerate(SIZES))
    half = size // 2
    yield (
        "activate",
        (
            lambda x: dml_jax.activate(x, Activation("ACTIVATION_SOFTMAX1", ((axis,),))),
            partial(jax.nn.softmax, axis=axis),
            [SIZES],
        ),
    )
    yield (
        "cumulative_product",
        (partial(dml_jax.cumulative_product, axis=axis), partial(jnp.cumprod, axis=axis), [SIZES]),
    )
    yield (
        "cumulative_summation",
        (partial(dml_jax.cumulative_summation, axis=axis), partial(jnp.cumsum, axis=axis), [SIZES]),
    )
    yield (
        "gather",
        (
            partial(dml_jax.gather, axis=axis),
            lambda x, i: jnp.take(x, i, axis, mode="clip"),
            [SIZES, ((2, 4), I)],
        ),
    )
    yield (
        "gather_elements",
        (
            partial(dml_jax.gather_elements, axis=axis),
            lambda x, i: jnp.take_along_axis(x, i, axis, mode="clip"),
            [SIZES, (fewer, I)],
        ),
    )
    for others in (SIZES, fewer, at(axis, 1, 0)):
        shape = tuple(n or SIZES[d] for d, n in enumerate(others))
        yield (
            f"join {shape[axis]}",
            (lambda x, y: dml_jax.join([x, y], axis), lambda x, y: jnp.concatenate([x, y], axis), [SIZES, shape]),
        )
    # Not "edge": jnp.pad slices all dimensions there, which JAX refuses.
    for mode, width in itertools.product(("constant", "reflection", "symmetric", "wrap"), ((2, 2), (1, 0))):
        yield f"pad {mode} {width}", padded(axis, *width, mode)
    for function, twin in REDUCTIONS.items():
        yield f"reduce {function}", reduced(axis, function, twin)
    for line in ((0, size, -1), (0, size, 2), (0, size, -2), (0, half, 1), (1, size, 1), (half, size, -1)):
        yield f"slice {line}", sliced(axis, *line)
    yield "slice_grad", spread(axis)
    for first in (half, 1):
        yield (
            f"split {first}",
            (
                lambda x, first=first: dml_jax.split(x, (first, size - first), axis),
                lambda x, first=first: jnp.split(x, [first], axis),
                [SIZES],
            ),
        )
    yield "tile", (lambda x: dml_jax.tile(x, at(axis, 2, 1)), lambda x: jnp.tile(x, at(axis, 2, 1)), [SIZES])


WINDOW, STRIDES = (1, 1, 2, 2), (1, 1, 2, 2)
WHOLE = {
    "add": (dml_jax.add, jnp.add, [SIZES] * 2),
    "average_pooling": (
        lambda x: dml_jax.average_pooling(x, (2, 2), strides=(2, 2)),
        lambda x: lax.reduce_window(x, np.float32(0), lax.add, WINDOW, STRIDES, "VALID") / 4,
        [PICTURES],
    ),
    "cast": (lambda x: dml_jax.cast(x, "int32"), lambda x: x.astype(I), [SIZES]),
    "clip": (lambda x: dml_jax.clip(x, 2, 3), lambda x: jnp.clip(x, 2, 3), [SIZES]),
    "convolution": (
        lambda x, w: dml_jax.convolution(x, w, start_padding=(1, 1), end_padding=(1, 1)),
        lambda x, w: lax.conv(x, w, (1, 1), "SAME"),
        [PICTURES, (4, 4, 3, 3)],
    ),
    "gemm": (dml_jax.gemm, jnp.matmul, [(2, 2, 4, 8), (2, 2, 8, 4)]),
    "identity": (dml_jax.identity, lambda x: x + 0, [SIZES]),
    "max_pooling": (
        lambda x: dml_jax.max_pooling(x, (2, 2), strides=(2, 2))[0],
        lambda x: lax.reduce_window(x, np.float32(-np.inf), lax.max, WINDOW, STRIDES, "VALID"),
        [PICTURES],
    ),
    "one_hot": (
        lambda i: dml_jax.one_hot(i, np.float32([0, 1]), 8, 1),
        lambda i: jax.nn.one_hot(i[:, 0], 8, dtype=F),
        [((4, 1), I)],
    ),
    "scatter_nd": (
        lambda x, i, u: dml_jax.scatter_nd(x, i, u, reduction="add"),
        lambda x, i, u: x.at[i[:, 0]].add(u),
        [SIZES, ((2, 1), I), (2, *SIZES[1:])],
    ),
    "select": (dml_jax.select, jnp.where, [(SIZES, bool), SIZES, SIZES]),
    "top_k": (lambda x: dml_jax.top_k(x, RANK - 1, 2), lambda x: lax.top_k(x, 2), [SIZES]),
}
TWINS = WHOLE | {f"{name}, axis {axis}": twin for axis in range(RANK) for name, twin in along(axis)}


def typed(operand):
    """The shape and the type of an operand."""
    return operand if isinstance(operand[0], tuple) else (operand, F)


def specs_of(operands):
    """Every sharding: one dimension of one operand, one dimension of all alike, two of all."""
    shapes = [typed(operand)[0] for operand in operands]
    most = range(max(map(len, shapes)))
    one = [
        [{d: "a"} if i == j else {} for j in range(len(shapes))] for i, s in enumerate(shapes) for d in range(len(s))
    ]
    alike = [[{d: "a"}] * len(shapes) for d in most if len(shapes) > 1]
    two = [[{d: "a", e: "b"}] * len(shapes) for d, e in itertools.permutations(most, 2)]
    for axes_of in (*one, *alike, *two):
        rows = [[axes.get(d) for d in range(len(s))] for axes, s in zip(axes_of, shapes, strict=True)]
        if all(n % 2 == 0 for row, s in zip(rows, shapes, strict=True) for axis, n in zip(row, s, strict=True) if axis):
            yield [PartitionSpec(*row) for row in rows]


def explicit_mesh():
    kinds = (AxisType.Explicit,) * 2
    return jax.make_mesh((2, 2), ("a", "b"), axis_types=kinds, devices=jax.devices("cpu")[:4])


def described(mesh, operands, specs):
    return [
        jax.ShapeDtypeStruct(*typed(one), sharding=NamedSharding(mesh, spec))
        for one, spec in zip(operands, specs, strict=True)
    ]


def specs_of_outputs(call, operands):
    return [output.sharding.spec for output in jax.tree.leaves(jax.eval_shape(call, *operands))]


def inferred(twin, operands):
    """What JAX infers for its function, or None where it refuses: not all of its errors are public."""
    try:
        return specs_of_outputs(twin, operands)
    except Exception as error:
        if re.search("shard|Incompatible types", str(error)):
            return None
        raise


def is_lost(name, specs):
    """JAX 0.10 gives no sharding to the batches of a product whose second operand has one; 0.12 refuses it."""
    return name == "gemm" and any(specs[1][:2]) and specs[0][:2] != specs[1][:2]


@pytest.mark.thinned(8)
@pytest.mark.parametrize("name", TWINS)
def test_what_jax_accepts_is_accepted_with_the_same_sharding(name):
    """Nothing runs."""
    call, twin, operands = TWINS[name]
    mesh, accepted = explicit_mesh(), 0
    with jax.set_mesh(mesh):
        for specs in specs_of(operands):
            given = described(mesh, operands, specs)
            expected = inferred(twin, given)
            if expected is not None and not is_lost(name, specs):
                assert specs_of_outputs(call, given) == expected, specs
                accepted += 1
                continue
            with contextlib.suppress(dml_jax.ConstraintError):  # more is accepted where nothing need be sent
                specs_of_outputs(call, given)
    assert accepted


def drawn(operand, rng):
    """Small positive integers, whose sums and products are exact."""
    shape, dtype = typed(operand)
    return rng.integers(0, 2, shape).astype(dtype) if dtype != F else rng.integers(1, 3, shape).astype(dtype)


@pytest.mark.thinned(40)
@pytest.mark.parametrize("name", TWINS)
def test_the_values_are_those_of_the_function_of_jax(name):
    """Every sharding in one program, which compiles faster."""
    call, twin, operands = TWINS[name]
    mesh, arrays = explicit_mesh(), [drawn(operand, np.random.default_rng(3)) for operand in operands]
    expected = jax.tree.leaves(twin(*map(jnp.asarray, arrays)))
    with jax.set_mesh(mesh):
        taken = [specs for specs in specs_of(operands) if inferred(twin, described(mesh, operands, specs))]
        put = [
            [jax.device_put(x, NamedSharding(mesh, spec)) for x, spec in zip(arrays, specs, strict=True)]
            for specs in taken
        ]
        for results in jax.jit(lambda every: [call(*given) for given in every])(put):
            for one, other in zip(jax.tree.leaves(results), expected, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-6)


DIVIDED = {
    name: TWINS[f"{name}, axis 1"] for name in ("join 8", "pad constant (2, 2)", "reduce sum", "slice (0, 8, -2)")
}


@pytest.mark.parametrize("name", DIVIDED)
def test_gradients_along_a_sharded_axis(name):
    call, twin, operands = DIVIDED[name]
    mesh, arrays = explicit_mesh(), [drawn(operand, np.random.default_rng(4)) for operand in operands]

    def squares(function):
        return jax.jit(jax.grad(lambda x: (function(*x) ** 2).sum()))

    expected = squares(twin)(arrays)
    with jax.set_mesh(mesh):
        sharded = [jax.device_put(x, NamedSharding(mesh, PartitionSpec(None, "a"))) for x in arrays]
        gradients = squares(call)(sharded)
    for one, other in zip(gradients, expected, strict=True):
        assert one.sharding.spec == PartitionSpec(None, "a", None)
        np.testing.assert_array_equal(one, other)


def test_where_jax_refuses_out_sharding_says_it():
    mesh = explicit_mesh()
    with jax.set_mesh(mesh):
        x = jax.device_put(np.ones((4, 2), np.float32), NamedSharding(mesh, PartitionSpec("a")))
        rule = "but dimension 0 of input is sharded over 'a', along which the devices must communicate"
        with pytest.raises(dml_jax.ConstraintError, match=f"or out_sharding must say it, {rule}"):
            dml_jax.pad(x, (1, 0), (0, 0))
        asked = dml_jax.pad(x, (1, 0), (0, 0), out_sharding=PartitionSpec(None, "b"))
    assert asked.sharding.spec == PartitionSpec(None, "b")
    np.testing.assert_array_equal(asked, np.pad(np.ones((4, 2), np.float32), ((1, 0), (0, 0))))
