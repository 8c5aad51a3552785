"""ONNX models as dispatchables: buffers bound by tensor name, free dimensions, outputs of dynamic size."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from model_building import faults, lines_of, show, write
from onnx_building import IR_VERSION, TensorProto, helper, onnx

from dml_jax import ConstraintError
from dml_jax.array_models.onnx_model import read_onnx_file
from dml_jax.core import memory_checks
from dml_jax.dxdispatch.faults import ModelError

DEFERRED = {"initialValuesDataType": "FLOAT32", "initialValues": "deferred"}


def value(name, sizes, data_type=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, data_type, sizes)


def save(folder, nodes, inputs, outputs, name="m.onnx"):
    graph = helper.make_graph(nodes, "graph", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=IR_VERSION)
    (folder / name).write_bytes(model.SerializeToString())


@pytest.fixture
def concat(tmp_path):
    """y = the rows of a, then those of b: as many as each binding says."""
    inputs = [value("a", ["rows", 2]), value("b", ["more", 2])]
    save(tmp_path, [helper.make_node("Concat", ["a", "b"], ["y"], axis=0)], inputs, [value("y", [None, None])])
    return tmp_path


def resource(values, data_type="FLOAT32"):
    return {"initialValuesDataType": data_type, "initialValues": values}


RESOURCES = {
    "a": resource([1, 2, 3, 4, 5, 6]),
    "b": resource([7, 8, 9, 10]),
    "c": resource({"valueCount": 6, "value": 0}),
    "later": DEFERRED,
}


def dispatch(**bindings):
    return {"type": "dispatch", "dispatchable": "m", "bindings": {"a": "a", "b": "b", "y": "c", **bindings}}


def model(*commands, resources=RESOURCES, **fields):
    dispatchable = {"type": "onnx", "sourcePath": "m.onnx", **fields}
    return {"resources": resources, "dispatchables": {"m": dispatchable}, "commands": list(commands)}


# Sizes.


def test_free_sizes_are_1(concat):
    assert lines_of(concat, model(dispatch(), show("c"))) == ["Resource 'c': 1, 2, 7, 8, 0, 0"]


def test_bindings_say_the_shape(concat):
    three = dispatch(a={"name": "a", "shape": [2, 2]}, y={"name": "c", "shape": [3, 2]})
    assert lines_of(concat, model(three, show("c"))) == ["Resource 'c': 1, 2, 3, 4, 7, 8"]


def test_overrides_by_name(concat):
    form = model(dispatch(), show("c"), freeDimensionNameOverrides={"more": 2})
    assert lines_of(concat, form) == ["Resource 'c': 1, 2, 7, 8, 9, 10"]


def test_overrides_by_denotation(concat):
    proto = onnx.load(concat / "m.onnx")
    for tensor in proto.graph.input:
        tensor.type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    onnx.save(proto, concat / "m.onnx")
    form = model(dispatch(y="later"), show("later"), freeDimensionDenotationOverrides={"DATA_BATCH": 2})
    assert lines_of(concat, form) == ["Resource 'later': 1, 2, 3, 4, 7, 8, 9, 10"]


def test_sizes_of_one_name_are_equal(tmp_path):
    inputs = [value(name, ["n"]) for name in "ab"]
    save(tmp_path, [helper.make_node("Add", ["a", "b"], ["y"])], inputs, [value("y", ["n"])])
    (fault,) = faults(tmp_path, model(dispatch(a={"name": "a", "shape": [3]}), show("c")))
    assert fault == (
        "command 0 (dispatch): dispatchable 'm': input 'b': its binding: its sizes must be [n=3], but they are [1]"
    )


def test_sizes_below_0(tmp_path):
    save(tmp_path, [helper.make_node("Relu", ["a"], ["y"])], [value("a", [-2, 2])], [value("y", None)])
    command = {"type": "dispatch", "dispatchable": "m", "bindings": {"a": "a", "y": "c"}}
    (fault,) = faults(tmp_path, model(command))
    assert fault.endswith("input 'a': every size must be at least 0, but the model says [-2, 2]")


def test_a_model_that_needs_more_than_there_is_does_not_run(tmp_path, monkeypatch):
    """The command that runs the model alone says it too."""
    sizes = onnx.numpy_helper.from_array(np.array([2**20]), "sizes")
    graph = ([helper.make_node("Expand", ["a", "sizes"], ["y"])], "graph", [value("a", [1])], [value("y", [2**20])])
    proto = helper.make_model(helper.make_graph(*graph, [sizes]), opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(proto, tmp_path / "m.onnx")
    monkeypatch.setattr(memory_checks, "_available", lambda: 2**20)
    monkeypatch.setattr(memory_checks, "gib", str)
    words = r"the model needs 41943\d\d for its tensors, and the machine has 1048576"
    command = {"type": "dispatch", "dispatchable": "m", "bindings": {"a": "a", "y": "later"}}
    with pytest.raises(ModelError, match=f"command 0: {words}"):
        lines_of(tmp_path, model(command))
    with jax.enable_x64(True), pytest.raises(ConstraintError, match=words):
        read_onnx_file(tmp_path / "m.onnx", {}, {}, ()).prepare([jnp.zeros(1, jnp.float32)])


# Outputs.


def test_a_deferred_resource_takes_type_and_shape_from_the_run(concat):
    """Each time anew: what a dispatch gives is printed and written in its own shape."""
    more = dispatch(a={"name": "a", "shape": [3, 2]}, b={"name": "b", "shape": [2, 2]}, y="later")
    form = model(more, show("later"), write("five.npy", "later"), dispatch(y="later"), show("later"))
    assert [line for line in lines_of(concat, form) if "written" not in line] == [
        "Resource 'later': 1, 2, 3, 4, 5, 6, 7, 8, 9, 10",
        "Resource 'later': 1, 2, 7, 8",
    ]
    assert np.load(concat / "five.npy").tolist() == [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]]


def non_zero(folder):
    """Where an input is not 0: as many columns as its data say, in 64-bit integers."""
    inputs, outputs = [value("a", [2, 3], TensorProto.BOOL)], [value("y", [2, None], TensorProto.INT64)]
    save(folder, [helper.make_node("NonZero", ["a"], ["y"])], inputs, outputs)


def test_sizes_that_the_data_decide(tmp_path):
    non_zero(tmp_path)
    resources = {"a": resource([0, 1, 2, 0, 0, 255], "UINT8"), "y": DEFERRED}
    command = {"type": "dispatch", "dispatchable": "m", "bindings": {"a": "a", "y": "y"}}
    form = model(command, show("y"), write("y.npy"), resources=resources)
    assert lines_of(tmp_path, form)[0] == "Resource 'y': 0, 0, 1, 1, 2, 2"
    assert np.load(tmp_path / "y.npy").dtype == np.int64
    assert np.load(tmp_path / "y.npy").tolist() == [[0, 0, 1], [1, 2, 2]]


def test_a_buffer_that_the_run_finds_too_small(tmp_path):
    non_zero(tmp_path)
    resources = {"a": resource([1] * 6, "UINT8"), "y": resource([0] * 11, "INT64")}
    command = {"type": "dispatch", "dispatchable": "m", "bindings": {"a": "a", "y": "y"}}
    with pytest.raises(ModelError, match=r"command 0: output 'y': INT64\[2, 6\] needs 96 bytes, but 'y' has 88"):
        lines_of(tmp_path, model(command, show(), resources=resources))


def test_booleans_are_bytes_of_0_and_1(tmp_path):
    inputs, outputs = [value("a", [3])], [value("y", [3], TensorProto.BOOL)]
    save(tmp_path, [helper.make_node("Cast", ["a"], ["y"], to=TensorProto.BOOL)], inputs, outputs)
    resources = {"a": resource([0, 0.5, -2]), "y": DEFERRED}
    command = {"type": "dispatch", "dispatchable": "m", "bindings": {"a": "a", "y": "y"}}
    assert lines_of(tmp_path, model(command, show(), resources=resources)) == ["Resource 'y': 0, 1, 1"]


def test_outputs_that_are_not_bound_are_not_kept(tmp_path):
    nodes = [helper.make_node("Split", ["a"], ["first", "y"], axis=0)]
    save(tmp_path, nodes, [value("a", [6])], [value("first", [3]), value("y", [3])])
    command = {"type": "dispatch", "dispatchable": "m", "bindings": {"a": "a", "y": "c"}}
    assert lines_of(tmp_path, model(command, show("c"))) == ["Resource 'c': 4, 5, 6, 0, 0, 0"]


# Faults.


@pytest.mark.parametrize(
    ("bindings", "found"),
    [
        ({"a": None}, "input 'a': it is not bound"),
        ({"a": "later"}, "input 'a': 'later' is deferred: only an output can be bound to it"),
        ({"a": "d"}, "input 'a': no resource is named 'd'"),
        ({"a": ["a", "b"]}, "input 'a': one buffer is bound to one tensor, but there are 2"),
        ({"a": {"name": "a", "elementOffset": 1}}, "input 'a': 'elementOffset' must be 0"),
        ({"a": {"name": "a", "shape": [4, 2]}}, "input 'a': FLOAT32[4, 2] needs 32 bytes, but 'a' has 24"),
        ({"a": {"name": "a", "shape": [2, 3]}}, "input 'a': its binding: its sizes must be [rows=2, 2], but they are"),
        ({"a": {"name": "a", "shape": [0, 2]}}, "input 'a': 'shape' must be at most 32 sizes of at least 1"),
        ({"a": {"name": "a", "counter": "b"}}, "input 'a': unknown field 'counter'"),
        ({"x": "a"}, "unknown field 'x'; known are a, b, y"),
        ({"y": {"name": "c", "shape": [3, 2]}}, "output 'y': 'shape' must equal that of the model, [2, 2], but it is"),
        ({"a": {"name": "a", "shape": [3, 2]}}, "output 'y': FLOAT32[4, 2] needs 32 bytes, but 'c' has 24"),
    ],
)
def test_bindings_at_fault(concat, bindings, found):
    (fault,) = faults(concat, model(dispatch(**bindings), show("c")))
    assert fault.startswith(f"command 0 (dispatch): dispatchable 'm': {found}")


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"sourcePath": "none.onnx"}, 'no file "none.onnx" in the model\'s folder'),
        ({"sourcePath": "model.json"}, "'model.json': is not an ONNX model"),
        ({"bindings": {}}, "unknown field 'bindings'"),
        ({"loggingLevel": "high"}, "'loggingLevel' must be an integer"),
        ({"sessionOptionsConfigEntries": {"key": 1}}, "'sessionOptionsConfigEntries': 'key' must be a string"),
        (
            {"freeDimensionNameOverrides": {"row": 2}},
            "'m.onnx': 'freeDimensionNameOverrides': no free size of an input is called 'row'; did you mean 'rows'?",
        ),
        (
            {"freeDimensionDenotationOverrides": {"row": 2}},
            "'m.onnx': 'freeDimensionDenotationOverrides': no free size of an input is called 'row'; there are none",
        ),
        (
            {"freeDimensionNameOverrides": {"rows": 0}},
            "'m.onnx': 'freeDimensionNameOverrides': 'rows' must be in [1, 2**32 - 1], but it is 0",
        ),
    ],
)
def test_fields_of_the_dispatchable(concat, fields, found):
    assert faults(concat, model(dispatch(), **fields))[0].startswith(f"dispatchable 'm': {found}")


def test_what_is_for_onnx_runtime_is_read(concat):
    fields = {"graphOptimizationLevel": 0, "loggingLevel": 4, "sessionOptionsConfigEntries": {"ep.x": "1"}}
    assert lines_of(concat, model(dispatch(), show("c"), **fields)) == ["Resource 'c': 1, 2, 7, 8, 0, 0"]


def test_operators_that_are_missing_are_listed(tmp_path):
    save(
        tmp_path, [helper.make_node("StringNormalizer", ["a"], ["y"], name="n")], [value("a", [2, 2])], [value("y", [])]
    )
    (fault,) = faults(tmp_path, model(dispatch()))
    assert fault.startswith("dispatchable 'm': 'm.onnx': the model must have only operators that are supported here")
    assert fault.endswith("\n  StringNormalizer (node 'n')")


@pytest.mark.parametrize("read", [show("later"), write("later.npy", "later")])
def test_a_deferred_resource_is_empty_before_it_is_an_output(concat, read):
    assert faults(concat, model(read, dispatch(y="later"))) == [
        "command 0: 'later' is deferred, and no dispatch before this command gives it an output"
    ]


def test_a_deferred_resource_has_the_dimensions_of_the_run(concat):
    form = model(dispatch(y="later"), write("later.npy", "later", dimensions=[4]))
    assert "'dimensions' must be left out: 'later' is deferred" in faults(concat, form)[0]


def test_operators_take_no_deferred_resource(tmp_path):
    tensor = {"DataType": "FLOAT32", "Sizes": [6]}
    desc = {"InputTensor": tensor, "OutputTensor": tensor}
    form = model({"type": "dispatch", "dispatchable": "m", "bindings": {"InputTensor": "a", "OutputTensor": "later"}})
    form["dispatchables"]["m"] = {"type": "DML_OPERATOR_ELEMENT_WISE_IDENTITY", "desc": desc}
    assert faults(tmp_path, form) == [
        "command 0 (dispatch): dispatchable 'm': OutputTensor: 'later' is deferred: only an output of an ONNX model "
        "can be bound to it"
    ]


def test_two_outputs_of_one_buffer(tmp_path):
    nodes = [helper.make_node("Split", ["a"], ["first", "y"], axis=0)]
    save(tmp_path, nodes, [value("a", [6])], [value("first", [3]), value("y", [3])])
    command = {"type": "dispatch", "dispatchable": "m", "bindings": {"a": "a", "y": "c", "first": "c"}}
    assert "a buffer of its own, but 'c' is bound to several" in faults(tmp_path, model(command))[0]


def test_the_model_is_not_written_over(concat):
    (fault,) = faults(concat, model(dispatch(), write("m.onnx", "c")))
    assert "would overwrite a file that the model is read from" in fault


def test_weights_beside_the_model_are_not_written_over(tmp_path):
    weights = helper.make_tensor("w", TensorProto.FLOAT, [2], np.float32([1, 2]).tobytes(), raw=True)
    onnx.external_data_helper.set_external_data(weights, "w.bin")
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    nodes = [helper.make_node("Constant", [], ["w"], value=weights), helper.make_node("Add", ["a", "w"], ["y"])]
    save(tmp_path, nodes, [value("a", [2])], [value("y", [2])])
    np.float32([1, 2]).tofile(tmp_path / "w.bin")
    command = {"type": "dispatch", "dispatchable": "m", "bindings": {"a": "a", "y": "c"}}
    (fault,) = faults(tmp_path, model(command, write("w.bin", "c")))
    assert "'targetPath' 'w.bin' would overwrite a file that the model is read from" in fault
    lines_of(tmp_path, model(command, write("c.bin", "c")))
    assert np.fromfile(tmp_path / "w.bin", np.float32).tolist() == [1, 2]
    assert np.fromfile(tmp_path / "c.bin", np.float32).tolist() == [2, 4, 0, 0, 0, 0]


def test_the_extra_is_named_where_it_is_missing(concat, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "onnx" or "dml_jax.onnx" in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("dml_jax.onnx", raising=False)
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert faults(concat, model(dispatch())) == [
        "dispatchable 'm': dml_jax.onnx needs onnx; install it in a clone: pip install '.[onnx]'"
    ]
