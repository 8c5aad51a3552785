"""Pickles and copies of what is public: names, descriptors, graphs, compiled operators and their results."""

import copy
import pickle
import subprocess
import sys
from importlib.util import find_spec

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from catalogue_cases import DESCS
from checks import assert_same_bits
from graph_cases import GRAPH, X, Y, owned
from operator_cases import f32, u32

import dml_jax
import dml_jax.batch
from dml_jax import ElementWiseIdentityDesc, GatherDesc, GraphBuilder, TensorDesc, compile_operator, use_form
from dml_jax.descs import DequantizeDesc

COPIES = {"pickle": lambda value: pickle.loads(pickle.dumps(value)), "deepcopy": copy.deepcopy, "copy": copy.copy}
every_copy = pytest.mark.parametrize("again", COPIES.values(), ids=COPIES)


@every_copy
def test_public_names_are_pickled_by_name(again):
    modules = (dml_jax, dml_jax.batch, dml_jax.layers, *([dml_jax.onnx] if find_spec("onnx") else []))
    for module in modules:
        for name in module.__all__:
            assert again(getattr(module, name)) is getattr(module, name)


def builder():
    graph = GraphBuilder()
    x = graph.input("x", f32(1, 1, 2, 2))
    return graph, 2 * x + 1


def failed():
    with pytest.raises(dml_jax.ConstraintError) as caught:
        dml_jax.tile(X, (1, 2))
    return caught.value


VALUES = {
    "TensorDesc": lambda: f32(2, 3),
    "Activation": lambda: dml_jax.Activation("ACTIVATION_ELU", (0.5,)),
    "Constant": lambda: dml_jax.Constant(X),
    "GraphDesc": lambda: GRAPH,
    "BufferSpec": lambda: compile_operator(GRAPH).buffers,
    "Memory": lambda: compile_operator(GRAPH).memory(),
    "NpyFile": lambda: dml_jax.batch.NpyFile("x.npy", "bfloat16"),
    "Progress": lambda: dml_jax.batch.Progress(1, None, 8, 0.5),
}


@every_copy
@pytest.mark.parametrize("name", VALUES)
def test_values_equal_their_copies(name, again):
    value = VALUES[name]()
    assert again(value) == value


@every_copy
def test_a_graph_that_is_being_built(again):
    graph, y = again(builder())
    desc = graph.build({"y": y})
    assert_same_bits(desc.compute(X.reshape(1, 1, 2, 2)), 2 * X.reshape(1, 1, 2, 2) + 1)


@every_copy
def test_errors(again):
    error = failed()
    assert (type(again(error)), str(again(error))) == (type(error), str(error))


# Compiled operators.


def buffers(run):
    rng = np.random.default_rng(0)
    specs = [spec for port, spec in run.buffers.items() if port in run.desc.input_ports()]
    return [rng.integers(0, 2, spec.length).astype(spec.dtype) for spec in specs]


def same_calls(run, restored, *given):
    for one, other in zip(jax.tree.leaves(run(*given)), jax.tree.leaves(restored(*given)), strict=True):
        assert_same_bits(one, other)


@pytest.mark.thinned(25)
@pytest.mark.parametrize("name", DESCS)
def test_every_operator(name):
    run = compile_operator(
        DESCS[name],
        **{
            port: np.zeros(tensor.element_span, tensor.dtype)
            for port, tensor in DESCS[name].input_ports().items()
            if dml_jax.TensorFlags.OWNED_BY_DML in tensor.flags
        },
    )
    for again in COPIES.values():
        restored = again(run)
        assert (restored.desc, repr(restored)) == (run.desc, repr(run))
        same_calls(run, restored, *buffers(run))


@every_copy
def test_a_graph_jitted_and_with_out(again):
    run = again(compile_operator(GRAPH))
    assert_same_bits(jax.jit(run)(X), Y)
    assert_same_bits(run(X, out=jnp.zeros(6, np.float32)), np.append(Y, np.float32([0, 0])))


def with_owned_table(data_type):
    """A lookup in a table of the operator's own; of INT4 the table is dequantised by a scale that is data."""
    table = owned(TensorDesc(data_type, (1, 1, 4, 1)))
    if data_type == "INT4":
        desc = DequantizeDesc(table, "SCALE", [f32(1, 1, 1, 1)], f32(1, 1, 4, 1))
        return compile_operator(desc, input=np.arange(-2, 2).astype(table.dtype)), np.float32([0.5])
    desc = GatherDesc(table, u32(1, 1, 1, 3), TensorDesc(data_type, (1, 1, 3, 1)), 2, 1)
    return compile_operator(desc, input=np.array([2**33, -1, 5, 7]).astype(table.dtype)), np.uint32([1, 3, 0])


@every_copy
@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("data_type", ["INT64", "INT4", "FLOAT32"])
def test_owned_buffers(data_type, x64, again):
    """64-bit numbers are words while x64 is off; a copy gives what the operator gave, whatever x64 is now."""
    with jax.enable_x64(x64):
        run, given = with_owned_table(data_type)
    for now in (x64, not x64):
        with jax.enable_x64(now):
            same_calls(run, again(run), given)


def test_the_form_that_was_forced():
    """Outside of `use_form`, a copy stays in the form that the operator was compiled in."""
    with use_form("plain"):
        run = compile_operator(DESCS["DEPTH_TO_SPACE1"])
    assert copy.copy(run)._form == run._form == "plain"


@every_copy
def test_an_operator_that_was_deserialized(again):
    pytest.importorskip("flatbuffers")
    desc = ElementWiseIdentityDesc(f32(1, 1, 1, 4), f32(1, 1, 1, 4))
    run = dml_jax.CompiledOperator.deserialize(compile_operator(desc).serialize())
    same_calls(run, again(run), X)


@pytest.mark.exhaustive
def test_another_process_reads_them(tmp_path):
    table = owned(f32(1, 1, 4, 1))
    run = compile_operator(GatherDesc(table, u32(1, 1, 1, 3), f32(1, 1, 3, 1), 2, 1), input=X)
    (tmp_path / "run.pickle").write_bytes(pickle.dumps(run))
    code = "import pickle, numpy as np; print(pickle.load(open('run.pickle', 'rb'))(np.uint32([3, 0, 1])))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "[4. 1. 2.]\n"
