"""Memory of model files and graphs: counted before it is allocated, and nothing is allocated in vain."""

import io
import tracemalloc
from contextlib import contextmanager

import jax
import numpy as np
import pytest
from checks import assert_same_bits
from documented_models import dml_jax_command
from graph_cases import alone, chain, copied, owned
from model_building import lines_of, model, saved, show, write, zeros
from operator_cases import f32, i8, u32

from dml_jax import (
    CastDesc,
    Constant,
    ElementWiseAddDesc,
    GatherDesc,
    GraphDesc,
    ReduceDesc,
    ScatterDesc,
    TensorDesc,
    compile_operator,
    desc_to_json,
)
from dml_jax.array_models.npy_inputs_and_outputs import write_arrays
from dml_jax.core import memory_checks
from dml_jax.dxdispatch.faults import ModelError
from dml_jax.dxdispatch.model_file import read_model
from dml_jax.dxdispatch.nchw_images import ENCODING_BYTES, encode_picture
from dml_jax.dxdispatch.resources import read_buffer
from dml_jax.dxdispatch.run import run_model
from dml_jax.graphs.working_set import working_set

# What a test of megabytes may take beside them.
LITTLE = 2**19


def single(desc, bindings, **owned_inputs):
    """A model of one dispatchable, which writes into `y`."""
    dispatchable = desc_to_json(desc) | {"bindings": owned_inputs}
    return model(dispatch_of("g", bindings), show(), dispatchable=dispatchable)


def dispatch_of(name, bindings):
    return {"type": "dispatch", "dispatchable": name, "bindings": bindings}


def fault_of(folder, form):
    with pytest.raises(ModelError) as caught:
        read_model(saved(folder, form))
    (fault,) = caught.value.faults
    return str(fault)


def has(monkeypatch, available):
    """Lets the machine have so many bytes, and messages show bytes."""
    monkeypatch.setattr(memory_checks, "_available", lambda: available)
    monkeypatch.setattr(memory_checks, "gib", str)


@contextmanager
def at_most(count):
    """Python and NumPy take no more bytes meanwhile."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] <= count
    finally:
        tracemalloc.stop()


# Constants.

# Below and beyond what a buffer of this machine, or of any, can have.
TOTALS = [2**33, 2**63, 2**64 - 4]


def reader_of(total):
    """A graph that copies a constant of 4 floats, which its reader says to be longer."""
    read = TensorDesc("FLOAT32", (4,), total_tensor_size_in_bytes=total)
    edges = {("copy", "input"): ("c", "output"), "y": ("copy", "output")}
    return GraphDesc({"c": Constant(np.float32([1, 2, 3, 4])), "copy": copied(read, f32(4))}, edges)


@pytest.mark.parametrize("total", TOTALS)
def test_a_constant_takes_what_its_tensor_spans(tmp_path, total):
    graph = reader_of(total)
    with at_most(100 * LITTLE):  # of XLA's compiler
        assert lines_of(tmp_path, single(graph, {"y": "y"})) == ["Resource 'y': 1, 2, 3, 4"]


@pytest.mark.parametrize("total", TOTALS)
def test_constants_of_a_serialized_graph_take_what_their_tensors_span(tmp_path, total):
    """In the file, and in a file of its own."""
    pytest.importorskip("flatbuffers")
    named = alone(copied(owned(TensorDesc("FLOAT32", (4,), total_tensor_size_in_bytes=total)), f32(4)))
    np.float32([1, 2, 3, 4]).tofile(tmp_path / "input.bin")
    for graph, output in ((reader_of(total), "y"), (named, "output")):
        (tmp_path / "graph.bin").write_bytes(graph.to_bytes())
        for command in ("check", "run"):
            result = dml_jax_command(command, tmp_path / "graph.bin")
            assert (result.exit_code, result.stderr) == (0, "")
        assert np.load(tmp_path / f"{output}.npy").tolist() == [1, 2, 3, 4]


def test_a_constant_that_is_repeated_is_not_written_out_before_it_is_compiled():
    """64 MiB, in the sum of which XLA reads the one number."""
    repeated = f32(1, 2**24, strides=(0, 0))
    nodes = {"c": Constant(np.float32([0.5])), "sum": ReduceDesc("SUM", repeated, f32(1, 1), (1,))}
    graph = GraphDesc(nodes, {("sum", "input"): ("c", "output"), "y": ("sum", "output")})
    with at_most(2**25):
        run = compile_operator(graph)
        run.prepare()
    assert run.memory().temporary < LITTLE
    assert run().tolist() == [2.0**23]


# Operators.


@pytest.mark.parametrize(
    ("desc", "bindings", "needed"),
    [
        # 2**40 floats and a sum, there and back, beside three resources of 16 bytes.
        (
            ReduceDesc("MULTIPLY", f32(2**20, 2**20, strides=(0, 0)), f32(1, 1), (0, 1)),
            {"InputTensor": "x", "OutputTensor": "y"},
            2 * (4 * 2**40 + 4),
        ),
        # As many updates and indices.
        (
            ScatterDesc(f32(4), u32(2**31, strides=(0,)), f32(2**31, strides=(0,)), f32(4), 0),
            {"InputTensor": "x", "IndicesTensor": "i", "UpdatesTensor": "x", "OutputTensor": "y"},
            2 * (16 + 2 * 4 * 2**31 + 16),
        ),
    ],
    ids=["REDUCE", "SCATTER"],
)
def test_elements_that_a_stride_repeats_are_counted(tmp_path, monkeypatch, desc, bindings, needed):
    has(monkeypatch, 2**34)
    fault = fault_of(tmp_path, single(desc, bindings))
    fact = f"the model needs {3 * 16 + needed} for its buffers and tensors, and the machine has {2**34}"
    assert fault == f"{fact}: {needed} are for tensors of dispatchable 'g'"


def test_every_dispatchable_has_a_copy_of_what_it_owns(tmp_path, monkeypatch):
    """8 copies of a table of 4,000 bytes, beside it, the output, and the tensors of one of them."""
    desc = GatherDesc(owned(f32(1000)), u32(4), f32(4), 0, 1)
    form = single(desc, {"IndicesTensor": "i", "OutputTensor": "y"}, InputTensor="table")
    form["resources"]["table"] = zeros(1000)
    form["dispatchables"] = {f"g{n}": form["dispatchables"]["g"] for n in range(8)}
    form["commands"] = [dispatch_of("g7", {"IndicesTensor": "i", "OutputTensor": "y"}), show()]
    # Of the table, which is there, no more is copied; a gather of 4 elements reads no more of it.
    needed = 3 * 16 + 4000 + 8 * 4000 + 2 * (16 + 16)
    has(monkeypatch, needed)
    assert lines_of(tmp_path, form) == ["Resource 'y': 0, 0, 0, 0"]
    has(monkeypatch, needed - 1)
    fact = f"the model needs {needed} for its buffers and tensors, and the machine has {needed - 1}"
    assert fault_of(tmp_path, form).startswith(f"{fact}: 4000 are for ")


@pytest.fixture
def argmax(tmp_path):
    """A model that finds the greatest of a million bytes, for which XLA takes five million: by way of wider numbers."""
    count = 2**20
    desc = ReduceDesc("ARGMAX", i8(1, count), u32(1, 1), (1,))
    form = single(desc, {"InputTensor": "b", "OutputTensor": "y"})
    form["resources"]["b"] = zeros(count, "INT8")
    form["commands"].insert(0, write("before.npy"))
    return saved(tmp_path, form)


def refused_when_compiled(path):
    read = read_model(path)
    with pytest.raises(ModelError) as caught:
        run_model(read, jax.devices()[0], lambda line: pytest.fail("it runs"))
    assert [file.name for file in path.parent.iterdir()] == ["model.json"]
    (fault,) = caught.value.faults
    return str(fault)


def test_temporary_arrays_of_the_compiled_operator_are_counted_before_anything_runs(argmax, monkeypatch):
    available = 3 * 16 + 2**20 + 2 * (2**20 + 4)
    has(monkeypatch, available)
    fault = refused_when_compiled(argmax)
    assert f"for its buffers and tensors, and the machine has {available}: " in fault
    assert fault.endswith(" are for temporary arrays of dispatchable 'g'")


def test_temporary_arrays_are_compared_with_the_memory_of_a_device_that_has_its_own(argmax, monkeypatch):
    has(monkeypatch, 2**40)
    monkeypatch.setattr("dml_jax.dxdispatch.memory_checks.device_limit", lambda _: 2**21)
    assert f"for its tensors, and the device has {2**21}: " in refused_when_compiled(argmax)


def test_resources_and_dispatchables_whose_long_names_begin_alike_are_all_counted(tmp_path, monkeypatch):
    names = ["x" * 100 + end for end in "abc"]
    desc = GatherDesc(owned(f32(4)), u32(4), f32(4), 0, 1)
    form = single(desc, {}, InputTensor="x")
    form["commands"] = [show()]
    form["resources"] |= {name: zeros(1000) for name in names}
    form["dispatchables"] = dict.fromkeys(names, form["dispatchables"]["g"])
    has(monkeypatch, 0)
    needed = 3 * 16 + 3 * 4000 + 3 * 16 + 2 * (16 + 16)
    fault = fault_of(tmp_path, form)
    assert fault.startswith(
        f"the model needs {needed} for its buffers and tensors, and the machine has 0: 4000 are for "
    )
    assert len(fault) < 250


# Graphs.

BYTES, FLOATS, LONGS = (TensorDesc(name, (8,)) for name in ("UINT8", "FLOAT32", "INT64"))


def test_a_value_lives_until_its_last_reader_has_run():
    """x, 32 bytes -> 64 -> 8 -> y, 32: 64 and 8 live at once, beside x and y."""
    graph = chain(CastDesc(FLOATS, LONGS), CastDesc(LONGS, BYTES), CastDesc(BYTES, FLOATS))
    assert working_set(graph) == {"tensors": 2 * (32 + 32), "intermediates at node 'n1'": 64 + 8}


def test_a_value_that_is_read_twice_lives_until_the_second_reader():
    nodes = {
        "wide": CastDesc(FLOATS, LONGS),
        "narrow": CastDesc(LONGS, BYTES),
        "again": CastDesc(BYTES, LONGS),
        "sum": ElementWiseAddDesc(LONGS, LONGS, LONGS),
    }
    edges = {
        ("wide", "input"): "x",
        ("narrow", "input"): ("wide", "output"),
        ("again", "input"): ("narrow", "output"),
        ("sum", "a"): ("wide", "output"),
        ("sum", "b"): ("again", "output"),
        "y": ("sum", "output"),
    }
    assert working_set(GraphDesc(nodes, edges)) == {
        "tensors": 2 * (32 + 64),
        "intermediates at node 'again'": 64 + 8 + 64,
    }


def test_operators_and_graphs_without_intermediates():
    assert working_set(CastDesc(FLOATS, BYTES)) == {"tensors": 2 * (32 + 8)}
    assert working_set(alone(CastDesc(FLOATS, BYTES))) == {"tensors": 2 * (32 + 8), "intermediates": 0}
    assert working_set(CastDesc(FLOATS, BYTES), owned=["input"]) == {"tensors": 2 * 8}


COUNT = 2**32 - 1
# One float, as many as a tensor can have, and their product.
ONE, ALL = f32(1, 1), f32(1, COUNT)
PRODUCT = chain(copied(f32(1, COUNT, strides=(0, 0)), ALL), ReduceDesc("MULTIPLY", ALL, ONE, (1,)), inputs={"x": ONE})


def test_intermediates_of_a_graph_in_a_model_file_are_counted(tmp_path, monkeypatch):
    """The float is repeated as the node reads it, and as it writes it."""
    has(monkeypatch, 2**33)
    fault = fault_of(tmp_path, single(PRODUCT, {"x": "x", "y": "y"}))
    repeated = 2 * 4 * COUNT - 4
    fact = f"the model needs {3 * 16 + 2 * (4 + 4) + repeated} for its buffers and tensors, and the machine has {2**33}"
    assert fault == f"{fact}: {repeated} are for intermediates at node 'n0' of dispatchable 'g'"


@pytest.mark.parametrize("command", ["check", "run"])
def test_intermediates_of_a_serialized_graph_are_counted(tmp_path, monkeypatch, command):
    pytest.importorskip("flatbuffers")
    content = chain(copied(ALL), ReduceDesc("MULTIPLY", ALL, ONE, (1,))).to_bytes()
    (tmp_path / "graph.bin").write_bytes(content)
    has(monkeypatch, 2**33)
    result = dml_jax_command(command, tmp_path / "graph.bin")
    assert result.exit_code == 1
    needed = 2 * (4 * COUNT + 4) + 4 * COUNT
    fact = (
        f"the model needs {needed} for its tensors, and the machine has {2**33}: {2 * (4 * COUNT + 4)} are for tensors"
    )
    assert result.stderr.strip().endswith(fact)
    assert [path.name for path in tmp_path.iterdir()] == ["graph.bin"]


# Files.


@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_files_are_read_into_the_buffer(tmp_path, order):
    count, numbers = 2**20, np.arange(2**20, dtype=np.float32).reshape(2**10, 2**10)
    np.save(tmp_path / "x.npy", np.asarray(numbers, order=order))
    buffer = read_buffer({"initialValues": {"sourcePath": "x.npy"}}, tmp_path)
    with at_most(4 * count + LITTLE):
        made = buffer.make()
    assert_same_bits(made.view(np.float32), numbers.ravel())


def test_npy_and_raw_files_are_written_from_the_buffer(tmp_path):
    count = 2**20
    ones = {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": count, "value": 1}}
    form = model(write("a.npy", "x"), write("b.npy", "x", dimensions=[2, count // 2]), write("c.dat", "x"), x=ones)
    form["dispatchables"] = {}
    read = read_model(saved(tmp_path, form))
    with at_most(4 * count + LITTLE):
        run_model(read, jax.devices()[0], lambda line: None)
    for name, shape in (("a.npy", (count,)), ("b.npy", (2, count // 2))):
        assert_same_bits(np.load(tmp_path / name), np.ones(shape, np.float32))
    assert (tmp_path / "c.dat").read_bytes() == np.ones(count, np.float32).tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.bool_, np.int64, "V2"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2**10, 2**10)])
def test_arrays_are_written_as_numpy_writes_them(tmp_path, dtype, shape):
    array = np.zeros(shape, dtype)
    with at_most(LITTLE):
        write_arrays({tmp_path / "a.npy": array})
    expected = io.BytesIO()
    np.save(expected, array)
    assert (tmp_path / "a.npy").read_bytes() == expected.getvalue()


@pytest.mark.parametrize(("data_type", "channels"), [("FLOAT32", 1), ("FLOAT16", 3), ("UINT8", 4)])
def test_a_picture_takes_what_is_counted_for_it(tmp_path, data_type, channels):
    """NumPy tells what it takes, and Pillow takes no more than a byte of an element beside that."""
    elements = np.zeros((channels, 512, 512), data_type.lower())
    encode_picture(elements[:, :1, :1], "PNG")  # which imports Pillow
    with at_most((ENCODING_BYTES + 1) * elements.size):
        encode_picture(elements, "PNG")


def test_a_picture_that_is_written_is_counted(tmp_path, monkeypatch):
    """A quarter more than its buffer of floats."""
    has(monkeypatch, 4 * 2**20 + 5 * 2**20 - 1)
    form = model(write("p.png", dimensions=[1, 1, 2**10, 2**10]), y=zeros(2**20))
    assert fault_of(tmp_path, form).endswith(f": {5 * 2**20} are for writing 'p.png'")


# The machine.


def test_a_limit_of_the_process_counts(tmp_path, monkeypatch):
    """That of `ulimit -v`."""
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", {resource.RLIMIT_AS: (100, 2**40)}.get)
    assert "the machine has 0.0 GiB" in fault_of(tmp_path, model())
    monkeypatch.setattr(resource, "getrlimit", {resource.RLIMIT_AS: (resource.RLIM_INFINITY,) * 2}.get)
    read_model(saved(tmp_path, model()))


GROUP = "/docker/1234"


@pytest.mark.parametrize(
    ("own", "file"),
    [
        ("", "memory.max"),
        ("0::/", "memory.max"),
        (f"0::{GROUP}", "memory.max"),
        (f"0::{GROUP}", "docker/1234/memory.max"),
        (f"0::{GROUP}", "docker/memory.max"),
        ("", "memory/memory.limit_in_bytes"),
        (f"4:cpu,memory:{GROUP}\n0::/", "memory/memory.limit_in_bytes"),
        (f"4:cpu,memory:{GROUP}\n0::/", "memory/docker/1234/memory.limit_in_bytes"),
        (f"4:cpu,memory:{GROUP}\n0::/", "memory/docker/memory.limit_in_bytes"),
    ],
)
def test_a_container_limit_counts(tmp_path, monkeypatch, own, file):
    """Control groups of both versions: the one that the process is in, and those around it."""
    monkeypatch.setattr(memory_checks, "OWN_GROUPS", tmp_path / "own")
    monkeypatch.setattr(memory_checks, "CONTROL_GROUPS", tmp_path / "groups")
    (tmp_path / "own").write_text(own)
    limit = tmp_path / "groups" / file
    limit.parent.mkdir(parents=True)
    limit.write_text("100\n")
    assert "the machine has 0.0 GiB" in fault_of(tmp_path, model())
    for none in ("max\n", f"{2**63 - 4096}\n", "\xb2"):
        limit.write_text(none)
        read_model(saved(tmp_path, model()))
