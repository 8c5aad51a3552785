"""Calls of graphs, computed and compiled: strides, owned inputs, transformations and meshes."""

import re
from dataclasses import replace

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_is, assert_same_bits
from graph_cases import (
    CHANNELS,
    EDGES,
    GRAPH,
    NODES,
    PICTURE,
    SEVERAL,
    SIX,
    WEIGHED,
    X,
    Y,
    alone,
    chain,
    composed,
    copied,
    operations,
    owned,
    without,
)
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from operator_cases import f32, u8, u32
from strided_cases import seen

import dml_jax
from dml_jax import (
    CompiledOperator,
    Constant,
    ConstraintError,
    DataTypeError,
    DepthToSpaceDesc,
    GatherDesc,
    GraphDesc,
    TensorDesc,
    compile_operator,
)

pytestmark = pytest.mark.device


# Calls.

# The tensor that is given first, then the others in the order of the edges; the tail is bytes, whatever its strides.
SEVERAL_MADE = {"tail": [3, 4, 5, 6], "sums": [3, 7, 12, 18], "head": [1, 2]}


def test_several_outputs_are_a_tuple():
    made = compile_operator(SEVERAL)(SIX)
    assert [*SEVERAL.outputs] == [*SEVERAL_MADE]
    assert_is(made, tuple(np.float32(wanted) for wanted in SEVERAL_MADE.values()))
    computed = SEVERAL.compute(SIX.reshape(1, 6))
    assert_is(computed, (np.float32([[3, 5], [4, 6]]), np.float32([[3, 7, 12, 18]]), np.float32([[1, 2]])))


def test_outputs_are_written_into_bound_buffers():
    out = tuple(jnp.full(count, 9, jnp.float32) for count in (5, 4, 2))
    addresses = [one.unsafe_buffer_pointer() for one in out]
    made = compile_operator(SEVERAL)(SIX, out=out)
    assert all(one.is_deleted() for one in out)
    assert [one.unsafe_buffer_pointer() for one in made] == addresses
    wanted = [*SEVERAL_MADE.values()]
    assert_is(made, (np.float32([*wanted[0], 9]), *map(np.float32, wanted[1:])))
    with pytest.raises(ConstraintError, match="GRAPH: out= must be a tuple of buffers for tail, sums, head, but it"):
        compile_operator(SEVERAL)(SIX, out=made[0])
    with pytest.raises(ConstraintError, match=r"out= for sums must not be bound twice: .* buffer of tail too"):
        compile_operator(SEVERAL)(SIX, out=(made[1], made[1], made[2]))


def test_strided_inputs_and_outputs():
    """Gaps of an output keep what the bound buffer holds."""
    rows, columns = f32(2, 3, strides=(4, 1)), f32(2, 3, strides=(1, 2))
    graph = chain(copied(rows, f32(2, 3)), copied(f32(2, 3), columns), outputs={"y": f32(6)})
    x = np.arange(7, dtype=np.float32)
    assert_same_bits(compile_operator(graph)(x), np.float32([0, 4, 1, 5, 2, 6]))
    padded = chain(copied(rows, f32(2, 3)), copied(f32(2, 3), rows))
    made = np.asarray(compile_operator(padded)(x, out=jnp.full(8, 9, jnp.float32)))
    assert_same_bits(made, np.float32([0, 1, 2, 9, 4, 5, 6, 9]))


def test_readers_of_one_input_see_its_buffer():
    """Also what lies between the elements of its own tensor; an array has nothing there, which is 0."""
    rows = f32(2, 3, strides=(4, 1))
    nodes = {"rows": copied(rows, f32(2, 3)), "all": copied(f32(7))}
    edges = {("rows", "input"): "x", ("all", "input"): "x", "r": ("rows", "output"), "a": ("all", "output")}
    graph, x = GraphDesc(nodes, edges), np.arange(1, 8, dtype=np.float32)
    assert graph.inputs == {"x": rows}
    assert_is(compile_operator(graph)(x), (np.delete(x, 3), x))
    computed = graph.compute(np.delete(x, 3).reshape(2, 3))
    assert_same_bits(computed[1], np.float32([1, 2, 3, 0, 5, 6, 7]))


def test_an_input_that_repeats_elements_is_read_otherwise():
    repeated = f32(2, 3, strides=(0, 1))
    nodes = {"twice": copied(repeated, f32(2, 3)), "once": copied(f32(3))}
    edges = {("twice", "input"): "x", ("once", "input"): "x", "t": ("twice", "output"), "o": ("once", "output")}
    graph = GraphDesc(nodes, edges)
    assert_is(compile_operator(graph)(X), (np.append(X[:3], X[:3]), X[:3]))
    assert_same_bits(graph.compute(np.stack([X[:3]] * 2))[1], X[:3])


def test_owned_inputs_are_bound_by_name():
    """Whatever the name is: also one that a file, or an argument, cannot have."""
    pytest.importorskip("flatbuffers")
    pick = replace(NODES["pick"], input=owned(CHANNELS))
    for name in ("table", "desc", "../a\0\ud800.npy"):
        edges = {**EDGES, ("pick", "input"): name, ("pick", "indices"): "i"}
        graph = GraphDesc(without(NODES, "order") | {"pick": pick}, edges)
        run = compile_operator(graph, **{name: X})
        assert [*run.buffers] == ["i", "y"]
        assert_same_bits(run(np.uint32([3, 2, 1, 0])), Y)
        restored = CompiledOperator.deserialize(run.serialize())
        assert restored.desc == graph
        assert_same_bits(restored(np.uint32([3, 2, 1, 0])), Y)
        with pytest.raises(ConstraintError, match="it is OWNED_BY_DML and not bound"):
            compile_operator(graph)
    with pytest.raises(ConstraintError, match="x must be bound at every call, but it is not OWNED_BY_DML"):
        compile_operator(GRAPH, x=X)
    with pytest.raises(ConstraintError, match="only inputs can be bound at compilation, but y= is none"):
        compile_operator(GRAPH, y=X)


def test_a_graph_is_serialised():
    pytest.importorskip("flatbuffers")
    restored = CompiledOperator.deserialize(compile_operator(SEVERAL).serialize())
    assert restored.desc == SEVERAL
    wanted = tuple(np.float32(one) for one in SEVERAL_MADE.values())
    assert_is(restored(SIX), wanted)
    out = tuple(jnp.zeros(one.shape, one.dtype) for one in wanted)
    assert_is(restored(SIX, out=out), wanted)


def test_wrong_arrays_are_refused():
    for given, error, match in (
        ((), ConstraintError, "GRAPH: takes arrays for x, but there are 0"),
        ((X,), ConstraintError, r"GRAPH: the array of x must have its sizes, \(1, 4, 1, 1\), but its shape is \(4,\)"),
        ((np.int32(X).reshape(1, 4, 1, 1),), DataTypeError, "the array of x must have elements of float32, but"),
    ):
        with pytest.raises(error, match=match):
            GRAPH.compute(*given)
    with pytest.raises(ConstraintError, match="GRAPH: the buffer of x must be 1-D with at least 4 elements"):
        compile_operator(GRAPH)(X[1:])


def test_a_graph_without_inputs():
    graph = GraphDesc(
        {"c": Constant(X), "op": DepthToSpaceDesc(CHANNELS, PICTURE, 2)},
        {("op", "input"): ("c", "output"), "y": ("op", "output")},
    )
    assert_same_bits(graph.compute(), X.reshape(1, 1, 2, 2))
    assert_same_bits(compile_operator(graph)(), X)
    assert_same_bits(compile_operator(graph)(out=jnp.zeros(4)), X)


def test_compute_takes_the_form_of_its_call():
    """Also one that was computed before in another."""
    lines = u8(64, 4096)
    graph = alone(GatherDesc(lines, u32(1, 64), lines, 0, 1))
    arrays = np.zeros(lines.sizes, np.uint8), np.zeros((1, 64), np.uint32)
    traced = lambda: operations(lambda *arrays: graph.compute(*arrays), *arrays)  # noqa: E731
    with dml_jax.use_form("plain"):
        plain = traced()
    with dml_jax.use_form("words"):
        assert traced() != plain
    with dml_jax.use_form("plain"):
        assert traced() == plain


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="elsewhere a flat output costs nothing more")
def test_an_output_is_made_in_its_shape_on_a_cpu():
    """XLA:CPU loops over a flat output with divisions; the last node's loop is over its dimensions instead."""
    picture, blocks = f32(1, 4, 128, 64), f32(1, 16, 64, 32)
    graph = chain(dml_jax.SpaceToDepthDesc(picture, blocks, 2), copied(blocks))
    entry = compile_operator(graph).as_text(bound=True).split("ENTRY")[1]
    assert "-> f32[16,64,32]" in entry.splitlines()[0]


# Transformations: those of the composed functions.

EIGHT = np.arange(1, 9, dtype=np.float32).reshape(2, 4)


def flat(x):
    """The graph on buffers."""
    return compile_operator(WEIGHED)(x.reshape(8)).reshape(3, 2)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("function", [WEIGHED.compute, flat], ids=["computed", "compiled"])
def test_transformations_are_those_of_the_composed_functions(function):
    tangent, cotangent = EIGHT[::-1].copy(), np.float32([[1, 2], [3, 4], [5, 6]])
    assert_same_bits(jax.jit(function)(EIGHT), composed(EIGHT))
    batch = np.stack([EIGHT, 2 * EIGHT])
    assert_same_bits(jax.vmap(function)(batch), np.stack([composed(EIGHT), composed(2 * EIGHT)]))
    assert_same_bits(jax.vmap(function, in_axes=1, out_axes=2)(batch.swapaxes(0, 1)), jax.vmap(composed, 0, 2)(batch))
    assert_is(jax.jvp(function, (EIGHT,), (tangent,)), jax.jvp(composed, (EIGHT,), (tangent,)))
    back = jax.vjp(composed, EIGHT)[1](cotangent)[0]
    assert_same_bits(jax.vjp(function, EIGHT)[1](cotangent)[0], back)
    assert_same_bits(jax.jit(jax.vjp(jax.checkpoint(function), EIGHT)[1])(cotangent)[0], back)
    assert_same_bits(jax.grad(lambda x: (function(x) * cotangent).sum())(EIGHT), back)
    assert_same_bits(jax.linear_transpose(function, EIGHT)(cotangent)[0], back)


def test_gradients_through_strides():
    """Elements that an edge reads twice count twice, and those that it does not read not at all."""
    graph = chain(copied(f32(4)), copied(f32(2, 3, strides=(0, 1), total_tensor_size_in_bytes=16), f32(2, 3)))
    assert_same_bits(jax.grad(lambda x: graph.compute(x).sum())(X), np.float32([2, 2, 2, 0]))


def test_no_gradient_flows_through_other_data_types():
    as_bits = chain(copied(f32(4)), copied(u32(4)), copied(f32(4)))
    assert_same_bits(as_bits.compute(X), X)
    assert_same_bits(jax.grad(lambda x: as_bits.compute(x).sum())(X), np.zeros(4, np.float32))


def test_a_graph_is_exported():
    pytest.importorskip("flatbuffers")
    exported = jax.export.export(jax.jit(WEIGHED.compute))(jax.ShapeDtypeStruct((2, 4), np.float32))
    assert_same_bits(jax.export.deserialize(exported.serialize()).call(EIGHT), composed(EIGHT))
    (b,) = jax.export.symbolic_shape("b")
    batched = jax.export.export(jax.jit(jax.vmap(WEIGHED.compute)))(jax.ShapeDtypeStruct((b, 2, 4), np.float32))
    assert_same_bits(batched.call(np.stack([EIGHT] * 3))[2], composed(EIGHT))


# Eight devices.

BATCH = f32(8, 4, 1, 2)
SHARDED = {
    "equal": BATCH,
    "other sizes": f32(8, 2, 2, 2),
    "merged": f32(8, 8),
    "the batch too": f32(16, 4),
    "other strides": f32(8, 4, 2, strides=(8, 1, 4)),
    "bytes": u8(8, 32),
    "words of bytes": TensorDesc("UINT16", (16, 8)),
}


@pytest.mark.thinned
@pytest.mark.skipif(jax.device_count() < 8, reason="needs eight devices")
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("reader", SHARDED.values(), ids=SHARDED)
def test_a_sharded_batch_stays_so(kind, reader):
    x = np.arange(64, dtype=np.float32).reshape(BATCH.sizes)
    graph, mesh = chain(copied(BATCH), copied(reader)), jax.make_mesh((8,), ("d",), axis_types=(kind,))
    with jax.set_mesh(mesh):
        sharded = jax.device_put(x, NamedSharding(mesh, P("d")))
        made = graph.compute(sharded)
        assert made.sharding.spec[0] == "d"
        assert not re.search(
            "all-gather|all-reduce|all-to-all|collective-permute",
            jax.jit(graph.compute).lower(sharded).compile().as_text(),
        )
    assert_same_bits(made, seen(x.view(reader.dtype).ravel(), reader))
