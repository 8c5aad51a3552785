"""Every function of the catalogue beside its oracle, and under jit, vmap, derivatives, meshes, export and checkify."""

import contextlib
import subprocess
import sys
from typing import Literal, get_args, get_origin, get_type_hints

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from catalogue_cases import CASES, ORACLES, VARIANTS, WITHOUT_EFFECT
from checks import assert_is, assert_same_bits, sampled, spread, together
from jax.experimental import checkify
from jax.sharding import PartitionSpec as P
from jax.test_util import check_grads
from promise_cases import by_name, exhaustive, first_of_each, flipped

import dml_jax

pytestmark = pytest.mark.device

# Those of arrays: others are constants to vmap and shard_map.
MAPPED = {name: case for name, case in VARIANTS.items() if case.leaves}
LINEAR = {name: case for name, case in VARIANTS.items() if case.is_linear and case.floats}
every_linear_variant_and_bfloat16 = pytest.mark.parametrize(
    ("case", "dtype"),
    [
        *(pytest.param(case, jnp.float32, id=name) for name, case in LINEAR.items() if name in CASES),
        *exhaustive({name: (case, jnp.float32) for name, case in LINEAR.items() if name not in CASES}),
        *exhaustive({f"{name} bfloat16": (case, jnp.bfloat16) for name, case in LINEAR.items() if name in CASES}),
    ],
)


def stacked(leaves, axis=0, count=2):
    """A batch of data that differ."""
    return [np.stack([x + i for i in range(count)], axis) for x in leaves]


def item(tree, i):
    """In NumPy, which compiles nothing."""
    return jax.tree.map(lambda y: np.asarray(y)[i], tree)


@pytest.mark.thinned(6)
@pytest.mark.parametrize(
    ("name", "which"),
    [
        *(pytest.param(name, slice(0, None, 3), id=name) for name in CASES),
        *exhaustive({f"{name}, all": (name, slice(None)) for name in CASES}),
    ],
)
def test_the_oracle_agrees(name, which):
    """Of the operator's case and every third variant, in one program, which compiles faster; or of all."""
    variants = [(variant, call) for variant, call in VARIANTS.items() if call.function is CASES[name].function][which]
    results = together([(call, *call.leaves) for _, call in variants])
    for (variant, call), result in zip(variants, results, strict=True):
        known = {name: value for name, value in call.arguments.items() if name not in WITHOUT_EFFECT}
        try:
            assert_is(result, ORACLES[name](**known), call.arrays.get("input"))
        except AssertionError as error:
            error.add_note(variant)
            raise


FIRST, OTHERS = ({name: case for name, case in MAPPED.items() if (name in CASES) is first} for first in (True, False))


@pytest.mark.parametrize("dtype", sampled(["float32", "bfloat16"], ["bfloat16"]))
@pytest.mark.parametrize(
    "cases",
    [
        pytest.param(dict([*FIRST.items()][::6]), id="every sixth"),
        *exhaustive({"first": (FIRST,), "variants": (OTHERS,)}),
    ],
)
def test_operands_may_be_constants_of_a_program(cases, dtype):
    """XLA computes what it can while it compiles; what moves has the same bits, what is rounded may round elsewhere."""
    calls = [
        (case, *(jnp.asarray(x.astype(dtype) if x.dtype.kind == "f" else x) for x in case.leaves))
        for case in cases.values()
    ]
    given = together(calls)
    captured = together([(lambda call=call: call[0](*call[1:]),) for call in calls])
    for (name, case), *results in zip(cases.items(), captured, given, strict=True):
        for actual, wanted in zip(*map(jax.tree.leaves, results), strict=True):
            if case.is_linear and not case.is_weighted:
                assert_same_bits(actual, wanted)
            else:
                np.testing.assert_allclose(np.float64(actual), np.float64(wanted), 2**-6, err_msg=name)


@pytest.mark.thinned(16)
@first_of_each(VARIANTS)
def test_eager_is_jitted_is_exported(case):
    arrays = case.leaves
    eager = case(*arrays)
    assert_is(jax.jit(case)(*arrays), eager)
    exported = jax.export.export(jax.jit(case), platforms=("cpu", "cuda", "tpu"))(*arrays)
    if jax.default_backend() in exported.platforms:
        assert_is(exported.call(*arrays), eager)
    shapes = [(x.shape, x.dtype) for x in jax.tree.leaves(jax.eval_shape(case, *arrays))]
    assert shapes == [(x.shape, x.dtype) for x in jax.tree.leaves(eager)]


@pytest.mark.thinned(8)
@first_of_each(MAPPED)
def test_eager_is_vmapped(case):
    batch = [np.stack([a, flipped(a)]) for a in case.leaves]
    mapped = jax.vmap(case)(*batch)
    for i in range(2):
        assert_is(item(mapped, i), case(*(s[i] for s in batch)))


@pytest.mark.thinned(2)
@first_of_each(MAPPED)
def test_vmap_of_any_axis(case):
    """Batches are at the end of the first array, in the middle of the next, and so on; results get them at the end."""
    axes = [(which % 2 or -1) if array.ndim else 0 for which, array in enumerate(case.leaves)]
    items = [[array, flipped(array), np.roll(array, 1)] for array in case.leaves]
    batch = [np.stack(arrays, axis) for arrays, axis in zip(items, axes, strict=True)]
    mapped = jax.jit(jax.vmap(case, in_axes=axes, out_axes=-1))(*batch)
    for i, of_item in enumerate(zip(*items, strict=True)):
        assert_is(jax.tree.map(lambda y, i=i: np.asarray(y)[..., i], mapped), case(*of_item))


@pytest.mark.thinned(9)
@first_of_each(MAPPED)
def test_vmap_over_one_operand(case):
    arrays = case.leaves
    for which, array in enumerate(arrays):
        batch = np.stack([array, flipped(array)])
        in_axes = [0 if i == which else None for i in range(len(arrays))]
        mapped = jax.vmap(case, in_axes=in_axes)(*arrays[:which], batch, *arrays[which + 1 :])
        for i in range(2):
            assert_is(item(mapped, i), case(*arrays[:which], batch[i], *arrays[which + 1 :]))


def of_floats(case, dtype=jnp.float32):
    """The case as a function of its floats, small integers, and those."""
    arrays = [(a % 7).astype(dtype) if a.dtype.kind == "f" else a for a in case.leaves]

    def function(*floats):
        taken = iter(floats)
        return case(*(next(taken) if i in case.floats else a for i, a in enumerate(arrays)))

    return function, [arrays[i] for i in case.floats]


def inner(one, other):
    """The inner product of two trees, in NumPy."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return sum(np.vdot(np.float64(x), np.float64(y)) for x, y in pairs)


@pytest.mark.thinned(12)
@by_name({name: case for name, case in LINEAR.items() if name in CASES})
def test_derivatives(case):
    """Exact in both directions: data movement is linear in its data."""
    function, floats = of_floats(case)
    function = jax.jit(function)
    if {y.dtype for y in jax.tree.leaves(function(*floats))} == {
        np.dtype(np.float32)
    }:  # narrower ones lose differences
        check_grads(function, floats, order=2, atol=0.05, rtol=0.05)
    output, tangent = jax.jvp(function, tuple(floats), tuple(floats))
    assert_is(output, tangent)
    cotangents = jax.vjp(function, *floats)[1](output)
    assert inner(output, output) == inner(floats, cotangents)


@pytest.mark.thinned(10)
@every_linear_variant_and_bfloat16
def test_linear_transpose(case, dtype):
    """It is the transpose: <f(x), y> = <x, f*(y)>, and what jax.vjp finds, also for each operand alone."""
    function, floats = of_floats(case, dtype)
    output = function(*floats)
    transposed = jax.linear_transpose(function, *floats)(output)
    assert_is(transposed, jax.vjp(function, *floats)[1](output))
    assert inner(floats, transposed) == inner(output, output)
    for which, x in enumerate(floats):

        def of_one(x, which=which):
            return function(*(x if i == which else np.zeros_like(f) for i, f in enumerate(floats)))

        assert_same_bits(jax.linear_transpose(of_one, x)(output)[0], transposed[which])


@pytest.mark.thinned(6)
@first_of_each(LINEAR)
def test_jacfwd_equals_jacrev(case):
    function, floats = of_floats(case)
    argnums = tuple(range(len(floats)))
    forward, back = together([(transform(function, argnums), *floats) for transform in (jax.jacfwd, jax.jacrev)])
    # One is of the output's type, the other of the input's.
    assert_is(*(jax.tree.map(lambda x: x.astype(jnp.float32), jacobian) for jacobian in (forward, back)))
    for jacobian in jax.tree.leaves(forward):  # of ones and zeros: what goes where
        assert case.is_weighted or {*np.unique(jacobian)} <= {0, 1}


@pytest.mark.thinned(6)
@every_linear_variant_and_bfloat16
def test_nested_vmap_over_any_axes(case, dtype):
    function, floats = of_floats(case, dtype)
    twice = stacked(stacked(floats, axis=-1, count=2), axis=1 if min(x.ndim for x in floats) else 0, count=3)
    outer = 1 if min(x.ndim for x in floats) else 0
    mapped = jax.vmap(jax.vmap(function, in_axes=-1, out_axes=-1), in_axes=outer, out_axes=0)(*twice)
    for i in range(3):
        for j in range(2):
            of_item = function(*(x.take(i, outer).take(j, -1) for x in twice))
            assert_is(jax.tree.map(lambda y, i=i, j=j: np.asarray(y)[i, ..., j], mapped), of_item)


def grad(function):
    """The gradient of the sum of squares of what a function returns, in all its arguments."""

    def total(*x):
        return sum((y.astype(jnp.float32) ** 2).sum() for y in jax.tree.leaves(function(*x)))

    return lambda *x: jax.grad(lambda x: total(*x))(x)


def alone(function):
    return function


def tangent(function):
    return lambda *x: jax.jvp(function, x, x)[1]


def transpose(function):
    return lambda *x: jax.linear_transpose(function, *x)(function(*x))


def scanned(function):
    """Over a leading dimension of all arguments."""
    return lambda *x: jax.lax.scan(lambda carry, x: (carry, function(*x)), 0, x)[1]


def two_devices():
    return jax.make_mesh((2,), ("d",), devices=jax.devices("cpu")[:2], axis_types=(jax.sharding.AxisType.Auto,))


def sharded(function):
    """Over a leading dimension of all arguments, one item per device."""

    def mapped(*x):
        local = jax.shard_map(
            lambda *x: jax.tree.map(lambda y: y[None], function(*(y[0] for y in x))),
            mesh=two_devices(),
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


@pytest.mark.thinned(20)
@pytest.mark.parametrize(
    ("case", "dtype"),
    [
        *(pytest.param(case, jnp.float32, id=name) for name, case in LINEAR.items() if name in CASES),
        *exhaustive({name: (case, jnp.float32) for name, case in LINEAR.items() if name not in CASES}),
        *exhaustive({f"{name} bfloat16": (case, jnp.bfloat16) for name, case in LINEAR.items() if name in CASES}),
    ],
)
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
    one = jax.jit(single)
    expected = [one(*of_item) for of_item in zip(*batch, strict=True)]
    for name, (_, last) in COMPOSITIONS.items():
        for i, of_item in enumerate(expected):
            try:
                assert_is(item(actual[name], i), of_item[last.__name__])
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from None


@pytest.mark.parametrize(("dtype", "which"), spread(["bfloat16", "float8_e5m2", "float32"], ["bfloat16"], 2))
def test_derivatives_of_gradients(dtype, which):
    """The gradient of squares of what is linear is linear: at x, along x, its derivative is itself, in every bit.

    Gradients of narrow floats move bits, which have no derivative that JAX could find.
    """
    names = [name for name in LINEAR if name in CASES][which]
    calls = {name: of_floats(LINEAR[name], jnp.dtype(dtype)) for name in names}
    derivatives = together([(tangent(grad(function)), *x) for function, x in calls.values()])
    gradients = together([(grad(function), *x) for function, x in calls.values()])
    for name, actual, expected in zip(calls, derivatives, gradients, strict=True):
        try:
            assert_is(actual, expected)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None


every_case_and_exhaustive_variant = pytest.mark.parametrize(
    "case",
    [
        *(pytest.param(case, id=name) for name, case in MAPPED.items() if name in CASES),
        *exhaustive({name: (case,) for name, case in MAPPED.items() if name not in CASES}),
    ],
)


@pytest.mark.thinned(6)
@every_case_and_exhaustive_variant
def test_operands_are_mapped_one_by_one_under_shard_map(case):
    """Where one operand differs from device to device and the others do not."""
    arrays = case.leaves
    batches = [np.stack([np.roll(array, i, -1) if array.ndim else array for i in range(2)]) for array in arrays]

    def mapped(*batches):
        results = []
        for which, batch in enumerate(batches):

            def local(x, which=which):
                output = case(*(x[0] if i == which else a for i, a in enumerate(arrays)))
                return jax.tree.map(lambda y: y[None], output)

            results.append(jax.shard_map(local, mesh=two_devices(), in_specs=P("d"), out_specs=P("d"))(batch))
        return results

    # Fetched first: JAX adds up the devices' parts of what it indexes, and -0.0 + 0.0 is 0.0.
    for which, result in enumerate(jax.device_get(jax.jit(mapped)(*batches))):
        for i in range(2):
            expected = case(*(batches[k][i] if k == which else a for k, a in enumerate(arrays)))
            assert_is(item(result, i), expected)


@pytest.mark.thinned(12)
@first_of_each(MAPPED)
def test_a_symbolic_batch_is_exported(case):
    arrays = case.leaves
    (b,) = jax.export.symbolic_shape("b")
    specs = [jax.ShapeDtypeStruct((b, *a.shape), a.dtype) for a in arrays]
    if not case.has_symbolic_batches:  # nor has what XLA makes of it; a form for CPUs may
        with dml_jax.use_form("plain"), pytest.raises(NotImplementedError, match="non-static"):
            jax.export.export(jax.jit(jax.vmap(case)))(*specs)
        return
    exported = jax.export.export(jax.jit(jax.vmap(case)))(*specs)
    for count in (1, 3):
        batch = [np.stack([a] * count) for a in arrays]
        assert_is(exported.call(*batch), jax.tree.map(lambda y, count=count: np.stack([y] * count), case(*arrays)))


@first_of_each(MAPPED)
def test_symbolic_sizes_pass_or_break_a_rule(case):
    """Of two symbolic sizes JAX may not know which is greater, and raises an error of its own."""
    scope = jax.export.SymbolicScope()
    shapes = [jax.export.symbolic_shape(",".join(f"size{n}" for n in a.shape) or "1", scope=scope) for a in case.leaves]
    specs = [jax.ShapeDtypeStruct(s if a.ndim else (), a.dtype) for a, s in zip(case.leaves, shapes, strict=True)]
    with contextlib.suppress(dml_jax.ConstraintError):
        jax.eval_shape(case, *specs)


RUN_ARTIFACTS = """
import sys
import jax, jax.export, numpy as np
for name in sys.argv[1:]:
    with np.load(name + ".npz") as saved:
        arrays = {kind: [saved[f] for f in saved.files if f.startswith(kind)] for kind in ("input", "output")}
    with open(name, "rb") as file:
        results = jax.export.deserialize(bytearray(file.read())).call(*arrays["input"])
    for result, output in zip(jax.tree.leaves(results), arrays["output"], strict=True):
        np.testing.assert_array_equal(np.asarray(result), output)
assert "dml_jax" not in sys.modules
print(len(sys.argv) - 1)
"""


@pytest.mark.parametrize(
    "which", [slice(0, None, 12), *exhaustive({"all": (slice(None),)})], ids=["every twelfth", None]
)
def test_artifacts_run_in_a_fresh_process_without_dml_jax(which, tmp_path):
    """One artifact of each operator, for cpu, cuda and tpu."""
    pytest.importorskip("flatbuffers")
    names = []
    for name, case in [*CASES.items()][which]:
        arrays = case.leaves
        exported = jax.export.export(jax.jit(case), platforms=("cpu", "cuda", "tpu"))(*arrays)
        assert exported.platforms == ("cpu", "cuda", "tpu")
        (tmp_path / name).write_bytes(exported.serialize())
        outputs = jax.tree.leaves(case(*arrays))
        saved = {
            f"{kind}{i:02}": np.asarray(a)
            for kind, of in (("input", arrays), ("output", outputs))
            for i, a in enumerate(of)
        }
        np.savez(tmp_path / f"{name}.npz", **saved)
        names.append(str(tmp_path / name))
    ran = subprocess.run([sys.executable, "-c", RUN_ARTIFACTS, *names], capture_output=True, text=True, cwd=tmp_path)
    assert ran.stdout.strip() == str(len(names)), ran.stderr


INDEXED = {name: case for name, case in CASES.items() if case.indexed is not None}


@pytest.mark.thinned(4)
@by_name(INDEXED)
@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jitted"])
def test_checkify_reports_an_index_out_of_range(case, jit):
    hints = get_type_hints(case.function)
    modes = names_in(hints["mode"]) - {"promise_in_bounds"} if "mode" in hints else ()
    assert len(modes) != 1
    for chosen in [{"mode": mode} for mode in modes] or [{}]:

        def call(indices, chosen=chosen):
            return case.function(**{**case.arguments, "indices": indices, **chosen})

        checked = checkify.checkify(jax.jit(call) if jit else call, errors=checkify.index_checks)
        good = jnp.clip(case.arrays["indices"], -4, 3)
        assert checked(good)[0].get() is None
        for bad in (case.indexed, -case.indexed - 1, 2**31 - 1):
            error, _ = checked(good.at[(0,) * good.ndim].set(bad))
            assert "out-of-bounds" in error.get()


def names_in(hint):
    """The strings that an annotation accepts."""
    parts = (hint, *get_args(hint))
    return {name for part in parts if get_origin(part) is Literal for name in get_args(part)}
