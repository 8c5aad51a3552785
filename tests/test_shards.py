"""Forms on a mesh of eight devices: each device runs the same form as a single device, if no data cross."""

import re
from collections import Counter
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import dml_jax
from benchmarks.programs import canonical

RNG = np.random.default_rng(11)
COLLECTIVE = re.compile(r" (all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter)\(")
OPERATION = re.compile(r'= "?stablehlo\.(?!convert %c)(\w+)')
MESHES = {"8": ((8,), P("a")), "2x4": ((2, 4), P(("a", "b"))), "4 of 4x2": ((4, 2), P("a"))}
INDEX = np.dtype(np.int32)


def gradient(function):
    """Of the first operand, which is of floats."""

    def back(input, *others):
        return jax.grad(lambda x: (function(x, *others).astype(jnp.float32) ** 2).sum())(input)

    return back


to_space = partial(dml_jax.depth_to_space, block_size=2, order="CRD")
to_depth = partial(dml_jax.space_to_depth, block_size=5)
in_rows = partial(dml_jax.space_to_depth, block_size=3, data_format="NHWC")
elements = partial(dml_jax.gather_elements, axis=1)
rows = partial(dml_jax.gather, axis=1)
tuples = partial(dml_jax.gather_nd, batch_dims=1)
add = partial(dml_jax.scatter_elements, axis=1, reduction="add")
pad = partial(dml_jax.pad, start_padding=(0, 0, 3, 3), end_padding=(0, 0, 3, 3))
HALVES, ODD = {"sizes": (32, 32), "axis": 1}, [((8, 64, 64, 36), np.uint8)]
WINDOW = {"input_window_offsets": (0, 0, 0, 4), "input_window_strides": (1,) * 4}
# By name: the function, its operands with eight parts along dimension 0, and a form that words or dimensions which
# eight devices share would rule out. What has no batch along dimension 0 is the same on every device.
CASES = {
    "depth_to_space": (to_space, [((8, 64, 64, 36), np.uint8)], "tiles"),
    "space_to_depth": (to_depth, [((8, 8, 160, 160), jnp.bfloat16)], "tiles"),
    "the gradient of space_to_depth": (gradient(in_rows), [((8, 192, 192, 4), jnp.bfloat16)], "isolated_transpose"),
    "gather": (rows, [((8, 1024, 36), np.uint8), ((4096,), INDEX)], "words"),
    "gather_elements": (elements, [((8, 4096, 4096), np.float32), ((8, 4096, 4096), INDEX)], "axis_last"),
    "gather_nd": (tuples, [((8, 1024, 36), np.uint8), ((8, 4096, 1), INDEX)], "words"),
    "the gradient of gather_nd": (
        gradient(tuples),
        [((8, 2**17, 256), jnp.bfloat16), ((8, 40000, 1), INDEX)],
        "sorted_segments",
    ),
    "scatter_elements": (
        add,
        [((8, 4096, 36), np.uint8), *[((8, 512, 36), t) for t in (INDEX, np.uint8)]],
        "int32_atomics",
    ),
    "pad": (partial(pad, mode="edge"), ODD, "gathered"),
    "pad with zeros": (pad, [((8, 64, 64, 38), np.uint8)], "assembled_words"),
    "tile": (partial(dml_jax.tile, repeats=(1, 1, 2, 1)), ODD, "words"),
    "join": (lambda *x: dml_jax.join(x, 3), [((8, 64, 64, 38), np.uint8)] * 2, "assembled_words"),
    "split": (lambda x: dml_jax.split(x, **HALVES)[1], ODD, "words"),
    "slice": (lambda x: dml_jax.slice(x, input_window_sizes=(*x.shape[:3], 32), **WINDOW), ODD, "words"),
    "upsample_2d": (partial(dml_jax.upsample_2d, scale_size=(2, 2)), [((8, 64, 32, 18), np.uint8)], "assembled_words"),
    "reverse_subsequences": (
        partial(dml_jax.reverse_subsequences, axis=1),
        [((8, 4096, 16388), np.uint8), ((8, 1, 16388), INDEX)],
        "axis_last",
    ),
}
every_case = pytest.mark.parametrize("case", CASES)


def mesh_of(name, kind):
    shape, spec = MESHES[name]
    axes = ("a", "b")[: len(shape)]
    return jax.make_mesh(shape, axes, axis_types=(kind,) * len(shape), devices=jax.devices("cpu")[:8]), spec


def parts_of(mesh, spec):
    return int(8 // NamedSharding(mesh, spec).shard_shape((8,))[0])


def spec_of(shape, spec):
    return spec if shape[0] == 8 else P()


def cuda_operations(function, operands):
    """Operations of the program for a GPU before XLA compiles it, in whatever functions; without casts of constants."""
    lowered = jax.jit(lambda *x: function(*x)).trace(*operands).lower(lowering_platforms=("cuda",))
    return Counter(OPERATION.findall("\n".join(canonical(lowered.compiler_ir("stablehlo")))))


def described(operands, mesh, spec):
    return [
        jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec_of(shape, spec)))
        for shape, dtype in operands
    ]


def of_one_device(operands, parts):
    return [
        jax.ShapeDtypeStruct((shape[0] // parts, *shape[1:]) if shape[0] == 8 else shape, dtype)
        for shape, dtype in operands
    ]


def on_each_device(function, operands, mesh, spec):
    """As the document says it for an Auto mesh."""
    specs = tuple(spec_of(shape, spec) for shape, _ in operands)
    return jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=spec)


@pytest.mark.thinned
@pytest.mark.parametrize("name", MESHES)
@every_case
def test_an_explicit_mesh_has_the_forms_of_one_device(case, name):
    function, operands, _ = CASES[case]
    mesh, spec = mesh_of(name, AxisType.Explicit)
    expected = cuda_operations(function, of_one_device(operands, parts_of(mesh, spec)))
    with jax.set_mesh(mesh):
        assert cuda_operations(function, described(operands, mesh, spec)) == expected


@pytest.mark.thinned
@every_case
def test_an_auto_mesh_has_them_inside_of_a_shard_map_and_not_outside(case):
    function, operands, _ = CASES[case]
    mesh, spec = mesh_of("8", AxisType.Auto)
    expected = cuda_operations(function, of_one_device(operands, 8))
    sharded = described(operands, mesh, spec)
    assert cuda_operations(on_each_device(function, operands, mesh, spec), sharded) == expected
    assert cuda_operations(function, sharded) != expected


def test_views_of_a_batch_have_them_inside_of_a_shard_map_and_not_outside():
    """`jax.vmap` maps a batch of buffers; what it maps is not divided where JAX does not know the sharding."""
    view = partial(dml_jax.as_strided, sizes=(3, 224, 224), strides=(1, 672, 3))
    views, operands = jax.vmap(view), [((8, 224 * 224 * 3), np.uint8)]
    mesh, spec = mesh_of("8", AxisType.Auto)
    expected = cuda_operations(views, of_one_device(operands, 8))
    sharded = described(operands, mesh, spec)
    assert cuda_operations(on_each_device(views, operands, mesh, spec), sharded) == expected
    assert cuda_operations(views, sharded) != expected


def test_one_hot_has_them_on_an_explicit_mesh():
    """Four parts of the rows of a device are filled at once."""
    function = lambda i, values: dml_jax.one_hot(i, values, size=1024, axis=1)  # noqa: E731
    mesh, spec = mesh_of("8", AxisType.Explicit)
    rows, values = jax.ShapeDtypeStruct((8, 1), INDEX), jax.ShapeDtypeStruct((2,), np.float32)
    sharded = jax.ShapeDtypeStruct((64, 1), INDEX, sharding=NamedSharding(mesh, spec))
    whole = jax.ShapeDtypeStruct((2,), np.float32, sharding=NamedSharding(mesh, P()))
    with dml_jax.use_form("fan_out"):
        expected = cuda_operations(function, [rows, values])
        with jax.set_mesh(mesh):
            assert cuda_operations(function, [sharded, whole]) == expected
    with dml_jax.use_form("plain"):
        assert cuda_operations(function, [rows, values]) != expected


@pytest.mark.parametrize("name", MESHES)
def test_one_hot_of_each_device_and_its_gradient_are_those_of_one(name):
    mesh, spec = mesh_of(name, AxisType.Explicit)
    ids, values = RNG.integers(-40, 40, (32, 1), INDEX), np.float32([2, -0.0])
    cotangent = RNG.integers(-9, 9, (32, 33)).astype(np.float32)

    def both(ids, values, cotangent):
        output, pull_back = jax.vjp(lambda v: dml_jax.one_hot(ids, v, size=33, axis=1), values)
        return output, pull_back(cotangent)[0]

    put = [
        jax.device_put(x, NamedSharding(mesh, spec_of((8,) if x.ndim == 2 else (2,), spec)))
        for x in (ids, values, cotangent)
    ]
    with jax.set_mesh(mesh), dml_jax.use_form("fan_out"):
        results = jax.jit(both)(*put)
    for actual, expected in zip(results, both(ids, values, cotangent), strict=True):
        assert_same_bits(actual, expected)


# Of the bits, sizes that compile and run quickly; forms are forced, as CPUs have few of their own.
SMALL = {
    "depth_to_space": [((8, 8, 4, 36), np.uint8)],
    "space_to_depth": [((8, 2, 10, 80), jnp.bfloat16)],
    "the gradient of space_to_depth": [((8, 6, 6, 4), jnp.bfloat16)],
    "gather": [((8, 16, 36), np.uint8), ((24,), INDEX)],
    "gather_elements": [((8, 16, 12), np.float32), ((8, 24, 12), INDEX)],
    "gather_nd": [((8, 16, 36), np.uint8), ((8, 24, 1), INDEX)],
    "the gradient of gather_nd": [((8, 16, 32), jnp.bfloat16), ((8, 64, 1), INDEX)],
    "scatter_elements": [((8, 16, 36), np.uint8), *[((8, 24, 36), t) for t in (INDEX, np.uint8)]],
    "pad": [((8, 2, 4, 36), np.uint8)],
    "pad with zeros": [((8, 2, 4, 38), np.uint8)],
    "tile": [((8, 2, 4, 36), np.uint8)],
    "join": [((8, 2, 4, 38), np.uint8)] * 2,
    "split": [((8, 64, 2, 36), np.uint8)],
    "slice": [((8, 2, 4, 36), np.uint8)],
    "upsample_2d": [((8, 2, 4, 18), np.uint8)],
    "reverse_subsequences": [((8, 4, 36), np.uint8), ((8, 1, 36), INDEX)],
}


def drawn(shape, dtype):
    """Every bit pattern, NaNs but for bfloat16, whose gradients are compared; indices in range and below it."""
    if dtype == INDEX:
        return RNG.integers(-16, 16, shape, INDEX)
    if dtype == jnp.bfloat16:
        return RNG.integers(-4, 5, shape).astype(dtype)
    return RNG.integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8).view(dtype)[..., 0]


@pytest.mark.thinned(51)
@pytest.mark.parametrize("kind", [AxisType.Explicit, AxisType.Auto])
@pytest.mark.parametrize("name", MESHES)
@every_case
def test_the_bits_are_those_of_one_device_and_nothing_is_sent(case, name, kind):
    function, _, form = CASES[case]
    operands, (mesh, spec) = SMALL[case], mesh_of(name, kind)
    arrays = [drawn(*operand) for operand in operands]
    put = [
        jax.device_put(array, NamedSharding(mesh, spec_of(shape, spec)))
        for array, (shape, _) in zip(arrays, operands, strict=True)
    ]
    called = function if kind == AxisType.Explicit else on_each_device(function, operands, mesh, spec)
    expected = function(*arrays)
    with jax.set_mesh(mesh), dml_jax.use_form(form):
        compiled = jax.jit(lambda *x: called(*x)).lower(*put).compile()
        result = compiled(*put)
    assert not COLLECTIVE.findall(compiled.as_text())
    assert result.sharding.is_equivalent_to(NamedSharding(mesh, spec), result.ndim)
    assert_same_bits(result, expected)


@pytest.mark.parametrize("outer", ["a", pytest.param(None, marks=pytest.mark.exhaustive)])
def test_a_mapped_dimension_may_be_sharded_over_other_axes_than_those_of_the_operator(outer):
    mesh, _ = mesh_of("2x4", AxisType.Explicit)
    x, i = drawn((8, 4, 16, 6), np.float32), drawn((8, 4, 24, 6), INDEX)
    with jax.set_mesh(mesh), dml_jax.use_form("axis_last"):
        put = [jax.device_put(array, NamedSharding(mesh, P(outer, "b"))) for array in (x, i)]
        compiled = jax.jit(jax.vmap(elements)).lower(*put).compile()
        result = compiled(*put)
    assert not COLLECTIVE.findall(compiled.as_text())
    assert_same_bits(result, jax.vmap(elements)(x, i))


def test_what_every_device_has_whole_is_moved_in_the_forms_of_one():
    function, operands, _ = CASES["space_to_depth"]
    mesh, _ = mesh_of("8", AxisType.Explicit)
    with jax.set_mesh(mesh):
        assert cuda_operations(function, described(operands, mesh, P())) == cuda_operations(
            function, [jax.ShapeDtypeStruct(*operand) for operand in operands]
        )


def test_a_table_that_every_device_has_is_read_in_the_forms_of_one_and_its_gradient_is_added_up_once():
    """What flows back is added up in float32 and rounded after the all-reduce, so in the form that XLA divides."""
    mesh, spec = mesh_of("8", AxisType.Explicit)
    table, ids = drawn((16, 36), jnp.bfloat16), drawn((64,), INDEX)
    read = partial(dml_jax.gather, axis=0)
    with jax.set_mesh(mesh):
        put = jax.device_put(table, NamedSharding(mesh, P())), jax.device_put(ids, NamedSharding(mesh, spec))
        forward = jax.jit(lambda *x: read(*x)).lower(*put).compile()
        back = jax.jit(gradient(read)).lower(*put).compile()
        results = forward(*put), back(*put)
    assert not COLLECTIVE.findall(forward.as_text())
    assert COLLECTIVE.findall(back.as_text()) == ["all-reduce"]
    for result, expected in zip(results, (read(table, ids), gradient(read)(table, ids)), strict=True):
        assert_same_bits(result, expected)


DRAWN = RNG.normal(size=(8, 6, 4, 4)).astype(np.float32), RNG.normal(size=(2, 6, 3, 3)).astype(np.float32)
# Of pictures, and of filters that every device has; each keeps something else for the gradient.
OF_PICTURES = {
    "gather": lambda x, w: dml_jax.gather(x, np.array([[5, 0], [0, 0]]), axis=1),
    "gather, filled": lambda x, w: dml_jax.gather(x, np.array([5, 6]), axis=1, mode="fill"),
    "scatter_elements": lambda x, w: dml_jax.scatter_elements(
        x, np.zeros((len(x), 2, 4, 4), INDEX), x[:, :2], axis=1, reduction="max"
    ),
    "average_pooling": lambda x, w: dml_jax.average_pooling(x, (2, 2), strides=(2, 2)),
    "convolution": dml_jax.convolution,
}


@pytest.mark.thinned(6)
@pytest.mark.parametrize("axes", ["ab", "a"])
@pytest.mark.parametrize("name", OF_PICTURES)
def test_gradients_through_a_shard_map_over_all_axes_and_over_some(name, axes):
    mesh, _ = mesh_of("2x4", AxisType.Explicit)
    local = jax.shard_map(OF_PICTURES[name], mesh=mesh, in_specs=(P("a"), P()), out_specs=P("a"), axis_names=set(axes))
    of = lambda function: jax.jit(jax.grad(lambda *x: (function(*x) ** 2).sum(), (0, 1)))  # noqa: E731
    put = [jax.device_put(x, NamedSharding(mesh, spec)) for x, spec in zip(DRAWN, (P("a"), P()), strict=True)]
    with jax.set_mesh(mesh):
        actual = jax.device_get(of(local)(*put))
    for one, expected in zip(actual, of(OF_PICTURES[name])(*DRAWN), strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.thinned
@pytest.mark.parametrize("spec", [P("a"), P("a", "b"), P(("a", "b"))])
def test_the_greatest_are_found_where_they_are(spec):
    """XLA gathers what `jax.lax.top_k` searches, however it is sharded."""
    mesh, _ = mesh_of("2x4", AxisType.Explicit)
    found = partial(dml_jax.top_k, axis=2, k=3)
    x = RNG.normal(size=(8, 4, 16)).astype(np.float32)

    def both_ways(x):
        (values, indices), pull_back = jax.vjp(found, x)
        return values, indices, *pull_back((values, np.zeros(indices.shape, jax.dtypes.float0)))

    with jax.set_mesh(mesh):
        put = jax.device_put(x, NamedSharding(mesh, spec))
        compiled = jax.jit(both_ways).lower(put).compile()
        results = compiled(put)
    assert not COLLECTIVE.findall(compiled.as_text())
    for result, expected in zip(results, jax.jit(both_ways)(x), strict=True):
        assert_same_bits(result, expected)
