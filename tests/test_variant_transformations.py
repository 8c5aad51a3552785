"""Every variant under every transformation: batches, derivatives, checkify, meshes, and export of symbolic sizes."""

import re
from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_agrees
from jax.experimental import checkify
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from test_variants import FORCED
from variant_cases import calls_that_run, choices_where_forced, small_integers, sum_convolution

from dml_jax import use_form
from dml_jax.operations.programs.variant_selection import watch_choices
from dml_jax.operations.sliding_windows import Windows

pytestmark = pytest.mark.device


FLOATS = {1: "float8_e5m2", 2: "float16", 4: "float32", 8: "float64"}


@cache
def call_of(operation, name):
    """A small call that runs the variant, of an operator rather than its gradient, and of floats if there is one.

    Its data are small integers, of which derivatives are exact.
    """
    first = None
    for call in calls_that_run(operation, name, every=False, key=lambda call: call.way):  # "forward" comes first
        if call.data:
            as_floats = call.with_data(lambda x: drawn(x.shape, FLOATS[x.dtype.itemsize]))
            if (operation, name) in choices_where_forced(as_floats, name):
                return as_floats
            first = first or call
    return first.with_data(lambda x: drawn(x.shape, x.dtype))


drawn = partial(small_integers, np.random.default_rng(11))


def is_float(array):
    return jnp.issubdtype(array.dtype, jnp.floating)


def two_of(call):
    return [np.stack([array, array[::-1]]) for array in call.arrays]


def two_devices(kind):
    return jax.make_mesh((2,), ("d",), axis_types=(kind,), devices=jax.devices("cpu")[:2])


def total_of(call):
    """A function of the floats among the data, the sum of the squares of its floats, and these data."""
    floats = [number for number in call.data if is_float(call.arrays[number])]

    def total(*data):
        arrays = dict(enumerate(call.arrays)) | dict(zip(floats, data, strict=True))
        squares = [x.astype(jnp.float32) ** 2 for x in jax.tree.leaves(call.function(*arrays.values())) if is_float(x)]
        return sum(map(jnp.sum, squares), jnp.float32(0))

    return total, tuple(call.arrays[number] for number in floats)


# Transformations: of a call to its results.


def vmap(call):
    return jax.jit(jax.vmap(call.function))(*two_of(call))


def vmap_of_the_data(call):
    """Along their last dimension, with the same indices for all."""
    axes = [-1 if number in call.data else None for number in range(len(call.arrays))]
    arrays = [
        array if axis is None else np.stack([array, array[::-1]], -1)
        for array, axis in zip(call.arrays, axes, strict=True)
    ]
    return jax.jit(jax.vmap(call.function, axes))(*arrays)


def gradient_of(total):
    def gradient(*data):
        value, pull_back = jax.vjp(total, *data)
        return pull_back(jnp.ones_like(value))

    return gradient


def grad(call):
    total, data = total_of(call)
    return jax.jit(gradient_of(total))(*data)


def jvp(call):
    total, data = total_of(call)
    return jax.jit(lambda *data: jax.jvp(total, data, data))(*data)


def second_derivative(call):
    total, data = total_of(call)
    return jax.jit(lambda *data: jax.jvp(gradient_of(total), data, data)[1])(*data)


def checked(call):
    """JAX's index_checks know no scatters of batches: tests of operators have them."""
    return jax.jit(checkify.checkify(call.function, errors=checkify.user_checks))(*call.arrays)[1]


def shard_map(call):
    """The result and its derivative, by each device of one of two calls; JAX checks what varies among them."""

    def of_shard(*arrays):
        total, data = total_of(replace(call, arrays=[array[0] for array in arrays]))
        return jax.tree.map(
            lambda x: x[None], (call.function(*(array[0] for array in arrays)), gradient_of(total)(*data))
        )

    mapped = jax.shard_map(of_shard, mesh=two_devices(AxisType.Auto), in_specs=P("d"), out_specs=P("d"))
    return jax.jit(mapped)(*two_of(call))


def explicit_mesh(call):
    mesh = two_devices(AxisType.Explicit)
    with jax.set_mesh(mesh):
        return jax.jit(jax.vmap(call.function))(*jax.device_put(two_of(call), NamedSharding(mesh, P("d"))))


def explicit_mesh_of_one(call):
    """Variants run there on arrays that are over an axis of the mesh, as JAX's types say."""
    mesh = jax.make_mesh((1,), ("d",), axis_types=(AxisType.Explicit,), devices=jax.devices("cpu")[:1])
    with jax.set_mesh(mesh):
        return jax.jit(jax.vmap(call.function))(*jax.device_put(two_of(call), NamedSharding(mesh, P("d"))))


def export(call):
    """Of a batch of the first array, whose size is known when it is called."""
    (size,), (first, *others) = jax.export.symbolic_shape("size"), call.arrays
    shapes = [jax.ShapeDtypeStruct((size, *first.shape), first.dtype), *others]
    function = jax.jit(jax.vmap(call.function, (0, *[None] * len(others))))
    exported = jax.export.export(function, platforms=["cpu", "cuda", "tpu"])(*shapes)
    with jax.default_device(jax.devices("cpu")[0]):
        return jax.export.deserialize(exported.serialize()).call(two_of(call)[0], *others)


RUNNING = (vmap, vmap_of_the_data, checked, shard_map)  # the variant always; derivatives may need its transpose alone
WAYS = (*RUNNING[:3], grad, jvp, second_derivative, explicit_mesh, explicit_mesh_of_one, export)
EVERY = [(*variant, way) for variant in FORCED for way in WAYS]


@pytest.mark.thinned(4)
@pytest.mark.parametrize(("operation", "name"), FORCED)
def test_a_variant_in_shard_map_is_equal_to_plain(operation, name):
    """A loop of a variant fails there if what it begins with does not vary as what it computes does."""
    test_a_transformed_variant_is_equal_to_plain(operation, name, shard_map)


@pytest.mark.thinned(9)
@pytest.mark.parametrize(("operation", "name", "transformation"), EVERY, ids=lambda x: getattr(x, "__name__", x))
def test_a_transformed_variant_is_equal_to_plain(operation, name, transformation):
    """Also where it gives way: to a size that is not known, or to devices that could tear its words."""
    call = call_of(operation, name)
    with jax.enable_x64(call.is_wide):
        with use_form("plain"):
            expected = transformation(call)
        with use_form(name), watch_choices() as seen:
            results = transformation(call)
    if transformation in RUNNING:
        assert (operation, name) in {(choice.operation, choice.name) for choice in seen}
    assert jax.tree.structure(results) == jax.tree.structure(expected)
    for actual, plain in zip(*map(jax.tree.leaves, (results, expected)), strict=True):
        if actual.dtype != jax.dtypes.float0:
            assert_agrees(actual, plain, call.units)


@pytest.mark.parametrize(("axes", "groups"), [((0, 0), 1), ((None, 0), 1), ((0, None), 1), (None, 2)])
def test_bytes_in_floats_have_no_groups(axes, groups):
    """XLA:GPU computes two groups of bytes wrongly (openxla/xla#49123), and jax.vmap of both arrays makes groups."""
    windows = [Windows(n, 3, 1, 1, 0, 0) for n in (7, 6)]
    function = partial(sum_convolution, windows=windows, zero_points=False, groups=groups)
    arrays = [np.ones((1, 4, 7, 6), np.int8), np.ones((6, 4 // groups, 3, 3), np.int8)]
    if axes:
        arrays = [array if axis is None else np.stack([array] * 2) for array, axis in zip(arrays, axes, strict=True)]
        function = jax.vmap(function, axes)
    with use_form("float_products"):
        text = jax.jit(function).trace(*arrays).lower(lowering_platforms=("cuda",)).as_text()
    assert set(re.findall(r"feature_group_count = (\d+)", text)) == ({"1"} if axes else set())
