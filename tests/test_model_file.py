"""Model files: syntax, references, bindings, memory, and buffers after a run."""

import os

import jax
import numpy as np
import pytest
from model_building import F4, dispatch, faults, lines_of, model, reverse, saved, show, tensor, write, zeros
from operator_cases import f32, u32
from PIL import Image

from dml_jax import GatherDesc
from dml_jax.dxdispatch import json_text as text
from dml_jax.dxdispatch import memory_checks
from dml_jax.dxdispatch.commands import Dispatchable
from dml_jax.dxdispatch.faults import ModelError
from dml_jax.dxdispatch.model_file import read_model
from dml_jax.dxdispatch.resources import read_buffer
from dml_jax.dxdispatch.run import run_model
from dml_jax.dxdispatch.timing import Timing, measure, report
from dml_jax.errors import ConstraintError

# Syntax.


def test_comments_and_trailing_commas(tmp_path):
    lenient = """// a model
    { "$schema": "./_schema.json", /* nothing
      of it */ "resources": { "x": { "initialValuesDataType": "INT8", "initialValues": [1, 2, 3,], }, },
      "commands": [ { "type": "PRINT", "resource": "x", }, ] // done
    }"""
    assert lines_of(tmp_path, lenient) == ["Resource 'x': 1, 2, 3"]
    assert text.parse('{"a//b": "/* c */,]", "d": "\\"//,}"}') == {"a//b": "/* c */,]", "d": '"//,}'}


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("", "not JSON: Expecting value, in line 1, column 1"),
        ("// nothing\n{\n  1: 2}", "not JSON: .*, in line 3, column 3"),
        ("{'a': 1}", "not JSON"),
        ('{"commands": [NaN]}', 'write the string "nan"'),
        ('{"commands": [-Infinity]}', 'write the string "-inf"'),
        ('{"commands": [], "commands": []}', "'commands' appears twice"),
        ('{"commands": [' + "9" * 5000 + "]}", "not JSON: Exceeds the limit"),
        ("[" * 100_000, "nested too deeply|not JSON"),
        ("[]", "a model must be a JSON object"),
        ("{}", "'commands' is missing or empty"),
        ('{"commands": {}}', "'commands' must be an array"),
        ('{"Commands": []}', "unknown field 'Commands'; did you mean 'commands'"),
        ('{"resources": [], "commands": [1]}', "'resources' must be a JSON object"),
    ],
)
def test_what_is_no_model_is_refused(tmp_path, content, match):
    with pytest.raises(ModelError, match=match):
        read_model(saved(tmp_path, content))


def test_unreadable_files(tmp_path):
    with pytest.raises(ModelError, match="cannot be read: No such file"):
        read_model(tmp_path / "none.json")
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(ModelError, match="cannot be read: Not a regular file"):
        read_model(tmp_path / "pipe.json")
    with pytest.raises(ModelError, match="cannot be read: Is a directory"):
        read_model(tmp_path)
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00{")
    with pytest.raises(ModelError, match=r"it is not UTF-8 text; `dml-jax run` takes \.json, \.onnx and \.bin files"):
        read_model(tmp_path / "binary.json")


# References and bindings.


@pytest.mark.parametrize(
    ("command", "match"),
    [
        ({"type": "dispatch", "dispatchable": "G"}, "no dispatchable is named 'G'; did you mean 'g'"),
        ({"type": "dispatch"}, "'dispatchable' is missing"),
        ({**dispatch(), "threadGroupCount": [1, 1]}, "'threadGroupCount' must be three integers of at least 1"),
        (
            {**dispatch(), "bindings": {"InputTensor": "x", "IndicesTensor": "i"}},
            "dispatchable 'g': OutputTensor: it is not bound",
        ),
        (dispatch(inputTensor="x"), "unknown field 'inputTensor'; did you mean 'InputTensor'"),
        (dispatch(InputTensor="X"), "InputTensor: no resource is named 'X'; did you mean 'x'"),
        (dispatch(InputTensor=["x", "x"]), "one buffer is bound to one tensor, but there are 2"),
        (dispatch(InputTensor=3), "InputTensor: a binding must be a JSON object"),
        (dispatch(InputTensor={"name": "x", "offset": 4}), "unknown field 'offset'"),
        (dispatch(InputTensor={"name": "x", "elementOffset": 1}), "needs 16 bytes, but 12 of 'x' are bound"),
        (dispatch(InputTensor={"name": "x", "elementCount": 5}), r"bytes \[0, 20\) lie outside 'x', which has 16"),
        (dispatch(InputTensor={"name": "x", "elementOffset": 4}), r"lie outside 'x'"),
        (dispatch(InputTensor={"name": "x", "elementOffset": 2**63}), r"lie outside 'x'"),
        (dispatch(InputTensor={"name": "x", "elementOffset": -1}), "'elementOffset' must be in"),
        (dispatch(InputTensor={"name": "x", "elementCount": 1.5}), "'elementCount' must be an integer"),
        (dispatch(InputTensor={"name": "big", "elementOffset": 1, "elementSizeInBytes": 2}), "a multiple of 4 bytes"),
        (dispatch(OutputTensor="x"), "GATHER does not execute in place, but InputTensor and OutputTensor share"),
        (show("Y"), "no resource is named 'Y'; did you mean 'y'"),
        (show(verbose="yes"), "'verbose' must be true or false"),
        (show("mixed"), "'mixed' holds values of different types"),
        (write("a.npy", "mixed"), "can only be written as raw bytes"),
        (write("a.jpg", "y", dimensions=[1, 4, 1, 1]), "a JPEG picture has no transparency: write a.png"),
        (write("a.npy", dimensions=[5]), r"'dimensions' \[5\] take 20 bytes of 16"),
        (write("a.npy", dimensions=[0]), "'dimensions' must be at most 8 sizes of at least 1"),
        (write("a.npy", dimensions=4), "'dimensions' must be an array"),
        (write("a.png"), r"a picture needs 'dimensions' \[1, C, H, W\]"),
        (write("a.png", dimensions=[1, 2, 1, 2]), "a picture needs 'dimensions'"),
        (write("a.png", "i", dimensions=[1, 1, 2, 2]), "a picture's data type must be one of"),
        (write("../a.npy"), "lies outside .*; --output-dir chooses another folder"),
        (write("/a.npy"), "lies outside"),
        (write("model.json.npy/../x.npy"), "would overwrite a file that the model is read from"),
        (write("folder.npy"), "is a folder"),
        ({"type": "present"}, "'type' must be one of dispatch, print, writeFile, but it is 'present'"),
        ({}, "'type' is missing"),
        ("print", "a command must be a JSON object"),
    ],
)
def test_bad_commands_are_refused(tmp_path, command, match):
    np.save(tmp_path / "x.npy", np.float32([1, 2, 3, 4]))
    (tmp_path / "folder.npy").mkdir()
    mixed = {"initialValuesDataType": "UNKNOWN", "initialValues": [{"type": "INT8", "value": 1}]}
    source = {"initialValues": {"sourcePath": "x.npy"}}
    with pytest.raises(ModelError, match=match) as caught:
        read_model(saved(tmp_path, model(show(), command, mixed=mixed, big=zeros(9), source=source)))
    (fault,) = caught.value.faults
    assert fault.where.startswith("command 1")
    assert str(caught.value).startswith(str(tmp_path / "model.json"))


def test_every_fault_is_listed_once_and_only_where_it_is(tmp_path):
    found = faults(
        tmp_path,
        model(
            dispatch(),
            show("x"),
            show("nothing"),
            {"type": "dispatch", "dispatchable": "h", "bindings": {}},
            x={"initialValuesDataType": "FLOAT32", "initialValues": []},
            dispatchable={**reverse(), "desc": {**reverse()["desc"], "Axis": 1, "IndexDimensions": 2}},
        ),
    )
    assert [fault.split(",")[0] for fault in found] == [
        "resource 'x': 'initialValues' must not be empty",
        "dispatchable 'g': GATHER: Axis must be in [0",
        "dispatchable 'g': GATHER: IndexDimensions must be in [0",
        "command 2 (print): no resource is named 'nothing'; known are x",
        "command 3 (dispatch): no dispatchable is named 'h'; known are g",
    ]


OWNED = reverse(IndicesTensor=tensor(4, data_type="UINT32", Flags="OWNED_BY_DML"))


def test_owned_inputs_are_bound_once_and_copied(tmp_path):
    owner = {**OWNED, "bindings": {"IndicesTensor": "i"}}
    without = {"type": "dispatch", "dispatchable": "g", "bindings": {"InputTensor": "x", "OutputTensor": "y"}}
    # The second dispatchable overwrites `i`; the first keeps the indices of its initialisation.
    overwrite = reverse(data_type="UINT32")
    commands = [
        {
            "type": "dispatch",
            "dispatchable": "h",
            "bindings": {"InputTensor": "k", "IndicesTensor": "k", "OutputTensor": "i"},
        },
        show("i"),
        without,
        show(),
    ]
    json_model = model(*commands, dispatchable=owner, k=zeros(4, "UINT32"))
    json_model["dispatchables"]["h"] = overwrite
    assert lines_of(tmp_path, json_model) == ["Resource 'i': 0, 0, 0, 0", "Resource 'y': 4, 3, 2, 1"]


def test_owned_inputs_are_bound_in_the_right_place(tmp_path):
    owner = {**OWNED, "bindings": {"IndicesTensor": "i"}}
    assert (
        "IndicesTensor: it is OWNED_BY_DML, and bound in 'bindings' of its dispatchable"
        in faults(tmp_path, model(dispatch(), dispatchable=owner))[0]
    )
    assert faults(tmp_path, model(show(), dispatchable=OWNED)) == ["dispatchable 'g': IndicesTensor: it is not bound"]
    misplaced = {**reverse(), "bindings": {"IndicesTensor": "i"}}
    assert (
        "IndicesTensor: it is not OWNED_BY_DML, and bound in the dispatch command"
        in faults(tmp_path, model(show(), dispatchable=misplaced))[0]
    )
    output = reverse(OutputTensor=tensor(4, Flags="OWNED_BY_DML"))
    assert "OutputTensor.Flags must be NONE" in faults(tmp_path, model(show(), dispatchable=output))[0]


# Running.


def test_offsets_counts_and_other_types(tmp_path):
    """The bytes count, not the initial type; a range may start and end anywhere in its buffer."""
    ranges = {
        "InputTensor": {"name": "x", "elementOffset": 8, "elementCount": 4, "elementSizeInBytes": 4},
        "OutputTensor": [{"name": "y", "elementOffset": 1}],
    }
    x = {"initialValuesDataType": "UINT8", "initialValues": {"valueCount": 100, "valueStart": 0, "valueDelta": 1}}
    printed = lines_of(tmp_path, model(dispatch(**ranges), show(), x=x, y=zeros(6, "UINT32")))
    words = np.arange(100, dtype=np.uint8).view(np.uint32)[8:12]
    assert printed == [f"Resource 'y': 0, {', '.join(map(str, words[::-1]))}, 0"]


def test_commands_run_in_order_and_their_effects_stay(tmp_path):
    back = dispatch(InputTensor="y", OutputTensor="x")
    again = [dispatch(), show("y"), back, show("x"), dispatch(), show("y")]
    assert lines_of(tmp_path, model(*again)) == [
        "Resource 'y': 4, 3, 2, 1",
        "Resource 'x': 1, 2, 3, 4",
        "Resource 'y': 4, 3, 2, 1",
    ]


def test_iterations_give_the_same_buffers(tmp_path):
    timing = Timing(iterations=3, repeat=2)
    assert lines_of(tmp_path, model(), timing=timing) == ["Resource 'y': 4, 3, 2, 1"]


def test_narrow_types_with_padding(tmp_path):
    narrow = {"x": {"initialValuesDataType": "FLOAT16", "initialValues": [1, 2, 3]}, "y": zeros(3, "FLOAT16")}
    three = {"initialValuesDataType": "UINT32", "initialValues": [2, 1, 0]}
    json_model = model(dispatchable=reverse(3, "FLOAT16"), i=three, **narrow)
    assert lines_of(tmp_path, json_model) == ["Resource 'y': 3, 2, 1"]


def test_strided_descriptors_are_run(tmp_path):
    """Every other element is read; the output's gaps keep what the buffer held."""
    strided = reverse(InputTensor=tensor(4, Strides=[2]))
    x = {"initialValuesDataType": "FLOAT32", "initialValues": [1, 0, 2, 0, 3, 0, 4]}
    assert lines_of(tmp_path, model(dispatchable=strided, x=x)) == ["Resource 'y': 4, 3, 2, 1"]
    strided = reverse(OutputTensor=tensor(4, Strides=[2]))
    y = {"initialValuesDataType": "FLOAT32", "initialValues": [9, 9, 9, 9, 9, 9, 9, 9]}
    assert lines_of(tmp_path, model(dispatchable=strided, y=y)) == ["Resource 'y': 4, 9, 3, 9, 2, 9, 1, 9"]


def test_strided_outputs_that_overlap_are_faults(tmp_path):
    (fault,) = faults(tmp_path, model(dispatchable=reverse(OutputTensor=tensor(4, Strides=[0]))))
    assert "OutputTensor.Strides must give every coordinate an element of its own" in fault


def test_feature_level(tmp_path):
    (fault,) = faults(tmp_path, model(), feature_level="2_1")
    assert "dispatchable 'g': GATHER: InputTensor.DimensionCount must be 4 at feature level 2_1" in fault


# Memory.


def test_a_model_larger_than_memory_is_refused_before_anything_is_made(tmp_path):
    huge = {"initialValuesDataType": "UINT8", "initialValues": {"valueCount": 2**50, "value": 0}}
    (fault,) = faults(tmp_path, model(x=huge))
    assert "the model needs 1048576.0 GiB for its buffers and tensors, and the machine has" in fault
    (fault,) = faults(tmp_path, model(x={**F4, "sizeInBytes": 2**63}))
    assert "the model needs" in fault


def test_tensors_are_counted_by_what_they_span():
    wide = f32(2**31, 2**20, strides=(0, 1))
    row = f32(1, 2**20)
    gather = Dispatchable(GatherDesc(wide, u32(1, 1), row, 0, 1), {})
    memory_checks.check_memory({}, {"g": gather}, limit=2 * (4 * 2**20 + 4 + 4 * 2**20))
    with pytest.raises(ConstraintError, match="the model needs"):
        memory_checks.check_memory({}, {"g": gather}, limit=2 * (4 * 2**20 + 4 + 4 * 2**20) - 1)


def test_memory_is_not_judged_where_it_is_unknown(monkeypatch, tmp_path):
    monkeypatch.delattr(os, "sysconf")
    memory_checks.check_memory({}, {})
    with pytest.raises(ConstraintError, match=r"needs 0\.0 GiB"):
        memory_checks.check_memory({"x": read_buffer(F4, tmp_path)}, {}, limit=15)


# Files.


def test_files_are_written_whole_with_the_values_that_were_meant(tmp_path):
    half = {"initialValuesDataType": "FLOAT16", "initialValues": [1, 2, 3, 4, 5]}
    grey = {"initialValuesDataType": "FLOAT32", "initialValues": [0, 0.5, 1, 2, -1, "nan"]}
    colour = {"initialValuesDataType": "UINT8", "initialValues": {"valueCount": 24, "valueStart": 0, "valueDelta": 1}}
    mixed = {"initialValuesDataType": "UNKNOWN", "initialValues": [{"type": "UINT8", "value": 7}]}
    printed = lines_of(
        tmp_path,
        model(
            write("new/folder/h.npy", "h"),
            write("shaped.npy", "h", dimensions=[2, 2]),
            write("h.dat", "h"),
            write("whole.raw", "h", dimensions=[3]),
            write("grey.jpg", "grey", dimensions=[1, 1, 2, 3]),
            write("grey.png", "grey", dimensions=[1, 1, 2, 3]),
            write("colour.PNG", "colour", dimensions=[1, 4, 2, 3]),
            write("mixed.dat", "mixed"),
            h=half,
            grey=grey,
            colour=colour,
            mixed=mixed,
        ),
    )
    assert printed[0] == f"Resource 'h' written to {str(tmp_path / 'new/folder/h.npy')!r}"
    np.testing.assert_array_equal(np.load(tmp_path / "new/folder/h.npy"), np.float16([1, 2, 3, 4, 5]))
    np.testing.assert_array_equal(np.load(tmp_path / "shaped.npy"), np.float16([[1, 2], [3, 4]]))
    assert (tmp_path / "h.dat").read_bytes() == np.float16([1, 2, 3, 4, 5, 0]).tobytes()
    assert (tmp_path / "whole.raw").read_bytes() == np.float16([1, 2, 3, 4, 5, 0]).tobytes()
    with Image.open(tmp_path / "grey.jpg") as image:
        assert (image.format, image.mode, image.size) == ("JPEG", "L", (3, 2))
    assert (tmp_path / "mixed.dat").read_bytes() == b"\x07\0\0\0"
    with Image.open(tmp_path / "grey.png") as image:
        assert np.asarray(image).tolist() == [[0, 128, 255], [255, 0, 0]]
    with Image.open(tmp_path / "colour.PNG") as image:
        assert image.mode == "RGBA"
        np.testing.assert_array_equal(np.asarray(image), np.arange(24).reshape(4, 2, 3).transpose(1, 2, 0))


def test_a_file_that_cannot_be_written_is_an_error_and_leaves_no_trace(tmp_path):
    read = read_model(saved(tmp_path, model(write("fine.npy"), write("out/y.npy"))))
    (tmp_path / "out").write_text("a file where a folder should be, since the model was checked")
    with pytest.raises(ModelError, match=r"command 1: cannot write 'out/y.npy': "):
        run_model(read, jax.devices()[0], lambda _: None)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fine.npy", "model.json", "out"]


def test_a_disk_that_fills_up_leaves_the_old_file(tmp_path, monkeypatch):
    old = tmp_path / "y.npy"
    old.write_text("old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ModelError, match="No space left on device"):
        lines_of(tmp_path, model(write("y.npy")))
    assert old.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.json", "y.npy"]


@pytest.mark.skipif(os.name != "posix", reason="symbolic links")
def test_symbolic_links_do_not_lead_outside(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir(), outside.mkdir()
    (inside / "link").symlink_to(outside)
    assert "lies outside" in faults(inside, model(write("link/y.npy")))[0]
    assert lines_of(inside, model(write("y.npy")), output=outside) == [
        f"Resource 'y' written to {str(outside / 'y.npy')!r}"
    ]
    assert (outside / "y.npy").exists()


# Timing.


def test_samples_and_statistics():
    calls = []
    samples, result = measure(lambda: calls.append(1), lambda _: None, Timing(iterations=4, repeat=3))
    assert (len(samples), len(calls), result) == (4, 12, None)
    assert list(report("d", [5.0], Timing())) == ["Dispatch 'd': 1 iterations, 5.0000 ms median (CPU)"]
    assert list(report("d", [9.0, 1.0, 2.0], Timing())) == ["Dispatch 'd': 3 iterations, 1.5000 ms median (CPU)"]
    assert list(report("d", [9.0, 1.0, 2.0], Timing(warmup=0))) == [
        "Dispatch 'd': 3 iterations, 2.0000 ms median (CPU)"
    ]
    assert list(report("d", [9.0, 1.0, 3.0], Timing(verbosity=1)))[1:] == [
        "CPU Timings (Cold) : 1 samples, 9.0000 ms average, 9.0000 ms min, 9.0000 ms median, 9.0000 ms max",
        "CPU Timings (Hot)  : 2 samples, 2.0000 ms average, 1.0000 ms min, 2.0000 ms median, 3.0000 ms max",
    ]
