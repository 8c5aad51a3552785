"""`dml_jax.load_model`: model files as functions, against DirectML's documented numbers and NumPy."""

import copy
import json
import pickle
import shutil
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits
from model_building import F4, dispatch, model, reverse, saved, tensor, write, zeros
from model_cases import FOLDER, PRINTS
from operator_cases import f32, u32

import dml_jax
from dml_jax import ConstraintError, DataTypeError, load_model

X = np.float32([10, 20, 30, 40])


def loaded(folder, *commands, **resources):
    return load_model(saved(folder, model(*(commands or [dispatch()]), **resources)))


@pytest.mark.thinned(3)
@pytest.mark.parametrize("file", [name for name, wanted in PRINTS.items() if wanted])
def test_documented_numbers(file):
    with jax.enable_x64(True):
        results = load_model(FOLDER / file)()
    for name, wanted in PRINTS[file].items():
        assert np.asarray(results[name]).ravel().tolist() == [float(n) for n in wanted.split(", ")]


def test_inputs_have_the_sizes_of_their_tensors_and_initial_values():
    function = load_model(str(FOLDER / "gather_nd.json"))
    told = {spec.name: (spec.dtype, spec.sizes) for spec in function.inputs}
    assert told == {
        "1 input": (np.float32, (2, 2)),
        "1 indices": (np.uint32, (2, 1)),
        "2 input": (np.float32, (1, 2, 2, 2)),
        "2 indices": (np.uint32, (1, 1, 2, 2)),
    }
    assert function.output_names == ("1 output", "2 output")
    results = function(**{"1 indices": np.uint32([[0], [0]])})
    assert_same_bits(results["1 output"], np.float32([[0, 1], [0, 1]]))
    assert_same_bits(results["2 output"].ravel(), np.float32([2, 3, 4, 5]))
    assert "1 indices: uint32[2, 1]" in repr(function)


def test_transformations(tmp_path):
    function = loaded(tmp_path)
    assert_same_bits(jax.jit(function)(x=X)["y"], X[::-1])
    assert_same_bits(jax.vmap(lambda x: function(x=x)["y"])(np.stack([X, -X])), np.stack([X, -X])[:, ::-1])
    weights = np.float32([1, 2, 3, 4])
    slope = jax.jit(jax.grad(lambda x: function(x=x)["y"] @ weights))(X)
    assert_same_bits(slope, weights[::-1])
    assert_same_bits(jax.jvp(lambda x: function(x=x)["y"], (X,), (weights,))[1], weights[::-1])


def test_every_call_begins_with_the_initial_values(tmp_path):
    """ELEMENT_WISE_ADD writes into its own operand: x + x, in place, is an input and an output."""
    add = {"type": "DML_OPERATOR_ELEMENT_WISE_ADD", "desc": {f"{n}Tensor": tensor(4) for n in ("A", "B", "Output")}}
    form = model(
        *2 * [{"type": "dispatch", "dispatchable": "g", "bindings": dict.fromkeys(("ATensor", "OutputTensor"), "x")}],
        dispatchable=add,
    )
    for command in form["commands"]:
        command["bindings"] = command["bindings"] | {"BTensor": "y"}
    function = load_model(saved(tmp_path, form | {"resources": form["resources"] | {"y": F4}}))
    assert [spec.name for spec in function.inputs] == ["x", "y"]
    for _ in range(2):
        assert_same_bits(function(x=X)["x"], X + 2 * np.float32([1, 2, 3, 4]))
        assert_same_bits(function()["x"], 3 * np.float32([1, 2, 3, 4]))


def test_parts_of_buffers_and_gaps_between_rows(tmp_path):
    """A range in the middle is written; what no coordinate addresses keeps its initial value."""
    part = {"name": "y", "elementOffset": 1, "elementCount": 7}
    strided = reverse(OutputTensor=tensor(4, Strides=[2]))
    form = model(dispatch(OutputTensor=part), dispatchable=strided, y=zeros(9))
    form["resources"]["y"]["initialValues"]["value"] = 7
    assert_same_bits(load_model(saved(tmp_path, form))(x=X)["y"], np.float32([7, 40, 7, 30, 7, 20, 7, 10, 7]))
    whole = {"initialValuesDataType": "FLOAT32", "initialValues": [0, 1, 2, 3, 4, 5]}
    function = loaded(tmp_path, dispatch(InputTensor={"name": "x", "elementOffset": 2}), x=whole)
    assert function.inputs[0].sizes == (6,)
    assert_same_bits(function()["y"], np.float32([5, 4, 3, 2]))
    slope = jax.grad(lambda x: function(x=x)["y"][0])(np.zeros(6, np.float32))
    assert_same_bits(slope, np.float32([0, 0, 0, 0, 0, 1]))


@pytest.mark.parametrize("data_type", ["UINT8", "UINT16", "INT16", "FLOAT16", "INT64", "FLOAT64"])
def test_the_bytes_of_a_buffer_as_another_type(tmp_path, data_type):
    """The operator moves elements of another type than the buffer's; NumPy's view says which bytes these are."""
    dtype = np.dtype(data_type.lower())
    data = np.random.default_rng(0).integers(0, 2**32, 4 * dtype.itemsize // 4 or 1, np.uint32)
    words = {"initialValuesDataType": "UINT32", "initialValues": data.tolist()}
    resources = {"x": words, "y": {**words, "initialValues": [9] * len(data)}}
    form = model(dispatch(), dispatchable=reverse(data_type=data_type), **resources)
    results = load_model(saved(tmp_path, form))()["y"]
    assert_same_bits(results, data.view(dtype)[:4][::-1].copy().view(np.uint32))


def test_four_bits_and_padding(tmp_path):
    form = model(
        dispatch(),
        dispatchable={
            "type": "DML_OPERATOR_QUANTIZE",
            "desc": {
                "InputTensor": tensor(1, 1, 1, 3),
                "QuantizationType": "SCALE",
                "QuantizationTensorCount": 1,
                "QuantizationTensors": [tensor(1, 1, 1, 1)],
                "OutputTensor": tensor(1, 1, 1, 3, data_type="INT4"),
            },
        },
        x={**F4, "initialValues": [1, -2, 30]},
        s={**F4, "initialValues": [2]},
        y={**zeros(12, "INT4"), "initialValues": [5] * 12},
    )
    part = {"name": "y", "elementOffset": 2}
    form["commands"][0]["bindings"] = {"InputTensor": "x", "QuantizationTensors": ["s"], "OutputTensor": part}
    form["resources"].pop("i")
    results = load_model(saved(tmp_path, form))()["y"]
    assert results.dtype == jnp.int4
    np.testing.assert_array_equal(results.astype(int), [5, 5, 0, -1, 7, *[5] * 7])


def test_more_bytes_than_values(tmp_path):
    """What lies behind the initial values is no part of an input, and 0; a tensor that begins there is flat."""
    long = {"initialValuesDataType": "FLOAT32", "initialValues": [1, 2], "sizeInBytes": 24}
    function = loaded(tmp_path, x=long)
    assert function.inputs[0].sizes == (2,)
    assert_same_bits(function(x=X[:2])["y"], np.float32([0, 0, 20, 10]))
    rows = {f"{name}Tensor": tensor(1, 2) for name in ("Input", "Output")}
    pair = {"type": "DML_OPERATOR_ELEMENT_WISE_IDENTITY", "desc": rows}
    bindings = {"InputTensor": {"name": "x", "elementOffset": 1}, "OutputTensor": {"name": "y", "elementOffset": 2}}
    form = model({"type": "dispatch", "dispatchable": "g", "bindings": bindings}, dispatchable=pair, x=long, y=long)
    function = load_model(saved(tmp_path, form))
    assert function.inputs[0].sizes == (2,)
    assert_same_bits(function()["y"], np.float32([1, 2]))


def test_a_tensor_in_another_order_is_flat():
    function = load_model(FOLDER / "strides_column_major.json")
    assert {spec.name: spec.sizes for spec in function.inputs}["columns"] == (6,)


def test_owned_inputs_are_inputs_with_gradients(tmp_path):
    """A table that is OWNED_BY_DML is what it was before the first command."""
    owned = reverse(InputTensor=tensor(4, Flags="OWNED_BY_DML")) | {"bindings": {"InputTensor": "x"}}
    command = {"type": "dispatch", "dispatchable": "g", "bindings": {"IndicesTensor": "i", "OutputTensor": "x"}}
    function = load_model(saved(tmp_path, model(command, command, dispatchable=owned)))
    assert_same_bits(function(x=X)["x"], X[::-1])
    assert_same_bits(jax.grad(lambda x: function(x=x)["x"][0])(X), np.float32([0, 0, 0, 1]))


def test_64_bits_need_x64(tmp_path):
    wide = {"x": {**F4, "initialValuesDataType": "INT64"}, "y": zeros(4, "INT64")}
    form = model(dispatch(), dispatchable=reverse(data_type="INT64"), **wide)
    function = load_model(saved(tmp_path, form))
    with pytest.raises(
        DataTypeError, match=r"model.json: resource 'x' of int64 needs 64-bit types, but jax_enable_x64 is off"
    ):
        function()
    with jax.enable_x64(True):
        assert_same_bits(function(x=np.int64([1, 2, 2**40, 4]))["y"], np.int64([4, 2**40, 2, 1]))


@pytest.mark.parametrize(
    "again", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))], ids=["copy", "pickle"]
)
@pytest.mark.parametrize("file", ["graph.json", "gather.json", "scatter.json"])
def test_copies_need_no_file(tmp_path, file, again):
    path = shutil.copy(FOLDER / file, tmp_path / file)
    function = load_model(path)
    path.unlink()
    restored = again(function)
    assert repr(restored) == repr(function)
    for name, result in function().items():
        assert_same_bits(restored()[name], result)


def test_a_serialized_graph_with_constants(tmp_path):
    """Constants lie in files beside the graph, and are read once."""
    pytest.importorskip("flatbuffers")
    table = f32(1, 1, 1, 4, flags="OWNED_BY_DML")
    indices, out = u32(1, 1, 1, 4), f32(1, 1, 1, 4)
    graph = dml_jax.GraphDesc(
        {"pick": dml_jax.GatherDesc(table, indices, out, 3, 1)},
        {("pick", "input"): "table", ("pick", "indices"): "i", "y": ("pick", "output")},
    )
    (tmp_path / "g.bin").write_bytes(graph.to_bytes())
    X.tofile(tmp_path / "table.bin")
    form = model(dispatch(), dispatchable={"type": "dmlSerializedGraph", "sourcePath": "g.bin"})
    form["commands"][0]["bindings"] = {"i": "i", "y": "y"}
    function = load_model(saved(tmp_path, form))
    (tmp_path / "table.bin").unlink()
    assert_same_bits(pickle.loads(pickle.dumps(function))()["y"].ravel(), X[::-1])


def test_an_onnx_model_between_operators(tmp_path):
    """y = tanh(x reversed), of a deferred size; booleans are bytes."""
    onnx = pytest.importorskip("onnx")
    helper, kinds = onnx.helper, onnx.TensorProto
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Tanh", ["a"], ["t"]), helper.make_node("Greater", ["a", "b"], ["above"])]
    inputs = [value("a", kinds.FLOAT, ["n"]), value("b", kinds.FLOAT, [1])]
    outputs = [value("t", kinds.FLOAT, ["n"]), value("above", kinds.BOOL, ["n"])]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    form = model(
        dispatch(),
        {
            "type": "dispatch",
            "dispatchable": "m",
            "bindings": {"a": {"name": "y", "shape": [4]}, "b": "b", "t": "later", "above": "flags"},
        },
        b={**F4, "initialValues": [15]},
        later={**F4, "initialValues": "deferred"},
        flags=zeros(4, "UINT8"),
    )
    form["dispatchables"]["m"] = {"type": "onnx", "sourcePath": "m.onnx"}
    function = load_model(saved(tmp_path, form))
    assert [spec.name for spec in function.inputs] == ["x", "i", "b"]
    for run in (function, jax.jit(function), pickle.loads(pickle.dumps(function))):
        results = run(x=X)
        np.testing.assert_allclose(results["later"], np.tanh(X[::-1]), rtol=1e-6)
        assert_same_bits(results["flags"], np.uint8([1, 1, 1, 0]))
    small = np.float32([0.5, 1, 0, -1])
    slope = jax.grad(lambda x: function(x=x)["later"].sum())(small)
    np.testing.assert_allclose(slope, 1 - np.tanh(small) ** 2, rtol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"X": X}, ConstraintError, "model.json: no input is named 'X'; did you mean 'x'"),
        ({"y": X}, ConstraintError, "no input is named 'y'"),
        ({"x": X[:3]}, ConstraintError, r"input 'x' must have the shape \(4,\), but it is \(3,\)"),
        ({"x": X.astype(np.int32)}, DataTypeError, "input 'x' must be of type float32, but it is int32"),
        ({"x": X.astype(np.float64)}, DataTypeError, r"astype\(np.float32\)"),
        ({"x": [1, 2, 3, 4]}, DataTypeError, "must be an array"),
    ],
)
def test_wrong_arguments(tmp_path, arguments, error, match):
    with pytest.raises(error, match=match):
        loaded(tmp_path)(**arguments)


def test_inputs_have_names(tmp_path):
    with pytest.raises(ConstraintError, match=r"model\.json: inputs must be given by name, 'x', 'i', but"):
        loaded(tmp_path)(X)


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("m.onnx", "", "dml_jax.onnx.to_jax"),
        ("m.bin", "", "GraphDesc.from_bytes"),
        ("m.json", json.dumps(model(dispatch(InputTensor="z"))), "m.json:1: .*no resource is named 'z'"),
        ("none.json", None, "none.json: .*cannot be read|none.json: .*No such file"),
    ],
)
def test_wrong_files(tmp_path, name, content, match):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(ConstraintError, match=match):
        load_model(tmp_path / name)


def test_pictures_need_pillow(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ConstraintError, match=r"resource 'photo': 'grace_hopper\.jpg' is a picture, which needs"):
        load_model(FOLDER / "photo.json")


def test_nothing_is_written(tmp_path, monkeypatch):
    """So the folder need not be writable."""
    monkeypatch.setattr("os.access", lambda *_: False)
    function = loaded(tmp_path, dispatch(), write("y.npy"))
    function()
    assert [path.name for path in tmp_path.iterdir()] == ["model.json"]
