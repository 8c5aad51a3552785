"""JAX's transformations, alone and composed, of every operator; float types that move as integers included."""

import subprocess
import sys

import chex
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits
from jax.sharding import PartitionSpec as P
from operator_cases import CASES, VARIANTS

pytestmark = pytest.mark.device

every_variant = pytest.mark.parametrize("case", VARIANTS.values(), ids=VARIANTS)
CAST = {name: (case, jnp.float32) for name, case in VARIANTS.items()} | {
    f"{name} bfloat16": (case, jnp.bfloat16) for name, case in CASES.items()
}
every_variant_and_bfloat16 = pytest.mark.parametrize(("case", "dtype"), CAST.values(), ids=CAST)


def of_floats(case, dtype=jnp.float32):
    """The case as a function of its floats, small integers, and those."""
    arrays = [(a % 7).astype(dtype) if a.dtype.kind == "f" else a for a in case.arrays.values()]

    def function(*floats):
        taken = iter(floats)
        return case(*(next(taken) if i in case.floats else a for i, a in enumerate(arrays)))

    return function, [arrays[i] for i in case.floats]


def stacked(floats, axis=0, count=2):
    """A batch of data that differ."""
    return [np.stack([x + i for i in range(count)], axis) for x in floats]


def assert_trees_have_the_same_bits(actual, expected):
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert_same_bits(a, b)


@every_variant_and_bfloat16
def test_linear_transpose(case, dtype):
    """It is the transpose: <f(x), y> = <x, f*(y)>, and what jax.vjp finds, also for each operand alone."""
    function, floats = of_floats(case, dtype)
    output = function(*floats)
    transposed = jax.linear_transpose(function, *floats)(output)
    assert_trees_have_the_same_bits(transposed, jax.vjp(function, *floats)[1](output))
    # Integers below 7 and their products are exact in float32.
    inner = [jnp.vdot(x.astype(jnp.float32), y.astype(jnp.float32)) for x, y in zip(floats, transposed, strict=True)]
    assert sum(inner) == jnp.vdot(output.astype(jnp.float32), output.astype(jnp.float32))
    for which, x in enumerate(floats):

        def of_one(x, which=which):
            return function(*(x if i == which else jnp.zeros_like(f) for i, f in enumerate(floats)))

        assert_same_bits(jax.linear_transpose(of_one, x)(output)[0], transposed[which])


@every_variant
def test_jacfwd_equals_jacrev(case):
    function, floats = of_floats(case)
    argnums = tuple(range(len(floats)))
    forward, back = (transform(function, argnums)(*floats) for transform in (jax.jacfwd, jax.jacrev))
    assert_trees_have_the_same_bits(forward, back)
    for jacobian in forward:  # of ones and zeros: what goes where
        assert set(np.unique(jacobian)) <= {0, 1}


@every_variant_and_bfloat16
def test_nested_vmap_over_any_axes(case, dtype):
    function, floats = of_floats(case, dtype)
    inner = stacked(floats, axis=-1, count=2)
    outer = stacked(inner, axis=1, count=3)
    mapped = jax.vmap(jax.vmap(function, in_axes=-1, out_axes=-1), in_axes=1, out_axes=0)(*outer)
    for i in range(3):
        for j in range(2):
            item = [x.take(i, 1).take(j, -1) for x in outer]
            assert_same_bits(mapped[i, ..., j], function(*item))


def grad(function):
    """The gradient of the sum of squares of what a function returns, in all its arguments."""
    return lambda *x: jax.grad(lambda x: (function(*x).astype(jnp.float32) ** 2).sum())(x)


def alone(function):
    return function


def tangent(function):
    return lambda *x: jax.jvp(function, x, x)[1]


def transpose(function):
    return lambda *x: jax.linear_transpose(function, *x)(function(*x))


def scanned(function):
    """Over a leading dimension of all arguments."""
    return lambda *x: jax.lax.scan(lambda carry, x: (carry, function(*x)), 0, x)[1]


def sharded(function):
    """Over a leading dimension of all arguments, one item per device."""

    def mapped(*x):
        mesh = jax.make_mesh((2,), ("d",), devices=jax.devices("cpu")[:2], axis_types=(jax.sharding.AxisType.Auto,))
        local = jax.shard_map(
            lambda *x: jax.tree.map(lambda y: y[None], function(*(y[0] for y in x))),
            mesh=mesh,
            in_specs=P("d"),
            out_specs=P("d"),
        )
        return local(*x)

    return mapped


# Each makes a function of batches; beside it, what that does to each item.
COMPOSITIONS = {
    "vmap grad": (lambda f: jax.vmap(grad(f)), grad),
    "jit vmap grad checkpoint": (lambda f: jax.jit(jax.vmap(grad(jax.checkpoint(f)))), grad),
    "vmap checkpoint jvp": (lambda f: jax.vmap(jax.checkpoint(tangent(f))), alone),
    "vmap linear_transpose": (lambda f: jax.vmap(transpose(f)), transpose),
    "linear_transpose vmap": (lambda f: transpose(jax.vmap(f)), transpose),
    "scan": (scanned, alone),
    "scan grad": (lambda f: scanned(grad(f)), grad),
    "grad scan": (lambda f: grad(scanned(f)), grad),
    "linear_transpose scan": (lambda f: transpose(scanned(f)), transpose),
    "jvp vmap jit": (lambda f: tangent(jax.vmap(jax.jit(f))), alone),
    "grad vmap": (lambda f: grad(jax.vmap(f)), grad),
    "shard_map": (sharded, alone),
    "jit shard_map grad": (lambda f: jax.jit(sharded(grad(f))), grad),
    "grad shard_map checkpoint": (lambda f: grad(sharded(jax.checkpoint(f))), grad),
    "vmap vmap jvp grad": (
        lambda f: lambda *x: jax.vmap(jax.vmap(tangent(grad(f))))(*(y[:, None] for y in x)),
        grad,
    ),  # linear
}


@every_variant_and_bfloat16
def test_compositions(case, dtype):
    """Over a batch, each equals its last function item by item. They share one program, which compiles faster."""
    function, floats = of_floats(case, dtype)

    def composed(*batch):
        results = {name: compose(function)(*batch) for name, (compose, _) in COMPOSITIONS.items()}
        results["vmap vmap jvp grad"] = jax.tree.map(lambda y: y[:, 0], results["vmap vmap jvp grad"])
        return results

    def single(*x):
        return {last.__name__: last(function)(*x) for _, last in COMPOSITIONS.values()}

    batch = stacked(floats)
    actual = jax.jit(composed)(*batch)
    expected = [jax.jit(single)(*item) for item in zip(*batch, strict=True)]
    for name, (_, last) in COMPOSITIONS.items():
        for i, item in enumerate(expected):
            of_item = jax.tree.map(lambda y, i=i: y[i], actual[name])
            try:
                assert_trees_have_the_same_bits(of_item, item[last.__name__])
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from None


@every_variant_and_bfloat16
def test_operands_are_mapped_one_by_one_under_shard_map(case, dtype):
    """Where one operand differs from device to device and the others do not."""
    arrays = [a.astype(dtype) if a.dtype.kind == "f" else a for a in case.arrays.values()]
    mesh = jax.make_mesh((2,), ("d",), devices=jax.devices("cpu")[:2], axis_types=(jax.sharding.AxisType.Auto,))
    batches = [np.stack([np.roll(array, i, -1) for i in range(2)]) for array in arrays]

    def mapped(*batches):
        results = []
        for which, batch in enumerate(batches):
            local = lambda x, k=which: case(*(x[0] if i == k else a for i, a in enumerate(arrays)))[None]  # noqa: E731
            results.append(jax.shard_map(local, mesh=mesh, in_specs=P("d"), out_specs=P("d"))(batch))
        return results

    for which, result in enumerate(jax.jit(mapped)(*batches)):
        for i in range(2):
            assert_same_bits(result[i], case(*(batches[k][i] if k == which else a for k, a in enumerate(arrays))))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_second_call_traces_nothing(case):
    arrays = list(case.arrays.values())
    chex.clear_trace_counter()
    traced_once = jax.jit(chex.assert_max_traces(lambda *x: case(*x), n=1))
    traced_once(*arrays)
    traced_once(*(a[::-1] for a in arrays))


RUN_ARTIFACTS = """
import sys
import jax.export, numpy as np
for name in sys.argv[1:]:
    with np.load(name + ".npz") as saved:
        arrays = [saved[f"arr_{i}"] for i in range(len(saved.files))]
    with open(name, "rb") as file:
        result = jax.export.deserialize(bytearray(file.read())).call(*arrays[:-1])
    np.testing.assert_array_equal(np.asarray(result), arrays[-1])
assert "dml_jax" not in sys.modules
print(len(sys.argv) - 1)
"""


def test_artifacts_run_in_a_fresh_process_without_dml_jax(tmp_path):
    """One artifact of each operator, for cpu, cuda and tpu."""
    pytest.importorskip("flatbuffers")
    names = []
    for name, case in CASES.items():
        arrays = list(case.arrays.values())
        exported = jax.export.export(jax.jit(case), platforms=("cpu", "cuda", "tpu"))(*arrays)
        assert exported.platforms == ("cpu", "cuda", "tpu")
        (tmp_path / name).write_bytes(exported.serialize())
        np.savez(tmp_path / f"{name}.npz", *arrays, np.asarray(case(*arrays)))
        names.append(str(tmp_path / name))
    ran = subprocess.run([sys.executable, "-c", RUN_ARTIFACTS, *names], capture_output=True, text=True, cwd=tmp_path)
    assert ran.stdout.strip() == str(len(CASES)), ran.stderr


@every_variant
def test_a_symbolic_batch_is_exported(case):
    arrays = list(case.arrays.values())
    (b,) = jax.export.symbolic_shape("b")
    specs = [jax.ShapeDtypeStruct((b, *a.shape), a.dtype) for a in arrays]
    exported = jax.export.export(jax.jit(jax.vmap(case)))(*specs)
    for count in (1, 3):
        batch = [np.stack([a] * count) for a in arrays]
        assert_same_bits(exported.call(*batch), jax.vmap(case)(*batch))
