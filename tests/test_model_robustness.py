"""Broken model files: each raises a ModelError, and nothing is run, read or written."""

import copy
import json
import os
import re
import shutil
import subprocess
import sys
import warnings

import numpy as np
import pytest
from documented_models import dml_jax_command
from example_models import MARK
from model_building import F4, dispatch, faults, lines_of, model, reverse, saved, show, tensor, write, zeros
from model_cases import FOLDER
from operator_cases import f32, u32
from PIL import Image

from dml_jax import GatherDesc, GraphDesc
from dml_jax.core import memory_checks
from dml_jax.dxdispatch import json_text as text
from dml_jax.dxdispatch.faults import ModelError
from dml_jax.dxdispatch.model_file import read_model
from dml_jax.dxdispatch.run import run_model

# Those that are written by hand: the others are all alike.
FILES = sorted(path.name for path in FOLDER.glob("*.json") if MARK not in path.read_text())
ODD = [None, True, -1, 2**64, 1.5, float("inf"), "", "x\0y", "\ud800", "x" * 300, "f4,(", [], [[]], {}, {"a": None}]


def places(json):
    """Every place in a JSON value, as the container and key that hold it."""
    items = json.items() if isinstance(json, dict) else enumerate(json) if isinstance(json, list) else ()
    for key, value in list(items):
        yield json, key
        # Long rows of numbers are all alike.
        yield from places(value[:2] if isinstance(value, list) and len(value) > 12 else value)


@pytest.mark.thinned(4)
@pytest.mark.parametrize("name", FILES)
def test_any_value_anywhere_is_valid_or_a_fault(name, tmp_path, monkeypatch, exhaustive):
    shutil.copy(FOLDER / "grace_hopper.jpg", tmp_path)
    form = text.parse((FOLDER / name).read_text())
    assert replaced_everywhere(form, tmp_path / name, monkeypatch, exhaustive) > (200 if exhaustive else 50)
    assert sorted(os.listdir(tmp_path)) == ["grace_hopper.jpg"]


def replaced_everywhere(original, path, monkeypatch, exhaustive):
    """One value after the other is replaced by odd ones: by all of them, or by every fourth, beginning elsewhere.

    Returns:
      How often that was a fault.
    """
    content = None
    monkeypatch.setattr("dml_jax.dxdispatch.json_text.read_text", lambda _: "")
    monkeypatch.setattr("dml_jax.dxdispatch.json_text.parse", lambda _: copy.deepcopy(content))
    monkeypatch.setattr("dml_jax.dxdispatch.model_file._look_into_pictures", lambda *_: None)
    count = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number, (holder, key) in enumerate(places(original)):
            kept = holder[key]
            for odd in ODD if exhaustive else ODD[number % 4 :: 4]:
                holder[key] = odd
                content = original
                try:
                    read_model(path)
                except ModelError:
                    count += 1
            holder[key] = kept
    return count


def test_any_value_of_a_serialized_graph_is_valid_or_a_fault(tmp_path, monkeypatch, exhaustive):
    pytest.importorskip("flatbuffers")
    (tmp_path / "graph.bin").write_bytes(GraphDesc({"g": gather()}, GATHERED).to_bytes())
    np.zeros(4, np.uint32).tofile(tmp_path / "i.bin")
    form = model(
        {"type": "dispatch", "dispatchable": "g", "bindings": {"x": ["x"], "y": {"name": "y", "elementOffset": 0}}},
        dispatchable={"type": "dmlSerializedGraph", "sourcePath": "graph.bin", "executionFlags": [], "bindings": {}},
    )
    read_model(saved(tmp_path, form))
    before = sorted(os.listdir(tmp_path))
    assert replaced_everywhere(form, tmp_path / "model.json", monkeypatch, exhaustive) > 50
    assert sorted(os.listdir(tmp_path)) == before


GATHERED = {("g", "input"): "x", ("g", "indices"): "i", "y": ("g", "output")}


def gather():
    """The operator that `reverse` dispatches; its indices are a constant of a graph."""
    numbers = f32(4)
    return GatherDesc(numbers, u32(4, flags="OWNED_BY_DML"), numbers, 0, 1)


def test_any_value_of_an_onnx_model_is_valid_or_a_fault(tmp_path, monkeypatch, exhaustive):
    onnx = pytest.importorskip("onnx")
    text_of_model = "<ir_version: 8, opset_import: ['' : 14]> g (float[N, 2] x, float[M, 2] z) => (float[?, ?] y)"
    proto = onnx.parser.parse_model(text_of_model.replace("'", '"') + " { y = Concat <axis = 0> (x, z) }")
    onnx.save(proto, tmp_path / "m.onnx")
    fields = {
        "freeDimensionNameOverrides": {"N": 2},
        "freeDimensionDenotationOverrides": {},
        "sessionOptionsConfigEntries": {"key": "value"},
        "graphOptimizationLevel": 99,
        "loggingLevel": 2,
    }
    bindings = {"x": "x", "z": {"name": "x", "shape": [1, 2], "elementOffset": 0}, "y": ["later"]}
    form = model(
        {"type": "dispatch", "dispatchable": "g", "bindings": bindings},
        show("later"),
        write("later.npy", "later"),
        dispatchable={"type": "onnx", "sourcePath": "m.onnx", **fields},
        later={"initialValuesDataType": "FLOAT32", "initialValues": "deferred"},
    )
    read_model(saved(tmp_path, form))
    before = sorted(os.listdir(tmp_path))
    assert replaced_everywhere(form, tmp_path / "model.json", monkeypatch, exhaustive) > 50
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize("kind", ["dmlSerializedGraph", "onnx"])
def test_damaged_files_of_dispatchables_are_faults(tmp_path, kind, exhaustive):
    """Each byte of the file changed, by default each third one, and the file cut off anywhere."""
    pytest.importorskip("flatbuffers")
    onnx = pytest.importorskip("onnx")
    names = {"x": "x", "y": "y"}
    if kind == "onnx":
        parsed = onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["" : 14]> g (float[4] x) => (float[4] y) { y = Relu (x) }'
        )
        content = parsed.SerializeToString()
    else:
        content = GraphDesc({"g": gather()}, GATHERED).to_bytes()
        np.zeros(4, np.uint32).tofile(tmp_path / "i.bin")
    dispatchable = {"type": kind, "sourcePath": "file"}
    form = model({"type": "dispatch", "dispatchable": "g", "bindings": names}, show(), dispatchable=dispatchable)
    path = saved(tmp_path, form)
    faulty = []
    places = range(0, len(content), 1 if exhaustive else 3)
    damaged = [content[:at] + bytes([content[at] ^ bit]) + content[at + 1 :] for at in places for bit in (1, 128)]
    damaged += [content[:at] for at in range(0, len(content), 3 if exhaustive else 9)]
    for changed in damaged:
        (tmp_path / "file").write_bytes(changed)
        try:
            read_model(path)
        except ModelError as error:
            faulty += error.faults
    assert len(faulty) > len(damaged) / 7
    assert all("dispatchable 'g'" in str(fault) for fault in faulty)


# Pictures.


def picture(name, **fields):
    return {"initialValuesDataType": "UINT8", "initialValues": {"sourcePath": name}, **fields}


def test_no_program_is_started_for_a_picture(tmp_path, monkeypatch):
    (tmp_path / "gs").write_text("#!/bin/sh\ntouch ran\n")
    (tmp_path / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n")
    assert "not a readable PNG or JPEG picture" in faults(tmp_path, model(show(), p=picture("p.png")))[0]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("mode", "channels"), [("1", 1), ("L", 1), ("P", 3), ("RGB", 3), ("LA", 4), ("RGBA", 4)])
def test_modes_of_8_bits(tmp_path, mode, channels):
    Image.new("RGB", (2, 2), "white").convert(mode).save(tmp_path / "p.png")
    printed = lines_of(tmp_path, model(show("p"), p=picture("p.png")))
    assert printed == [f"Resource 'p': {', '.join(['255'] * 4 * channels)}"]


def test_deeper_and_damaged_pictures_are_refused(tmp_path):
    Image.fromarray(np.uint16([[0, 16384], [32768, 49152]])).save(tmp_path / "deep.png")
    assert "pixels of mode I;16; convert it to" in faults(tmp_path, model(show(), p=picture("deep.png")))[0]
    for name in ("whole.png", "whole.jpg"):
        Image.effect_noise((64, 64), 50).save(tmp_path / name)
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(content[: len(content) // 2])
        assert "not a readable PNG or JPEG picture" in faults(tmp_path, model(show(), p=picture(name)))[0]


def test_a_picture_is_not_made_before_memory_is_checked(tmp_path, monkeypatch):
    monkeypatch.setattr(memory_checks, "_available", lambda: 2**30)
    Image.new("L", (2, 2)).save(tmp_path / "p.png")
    monkeypatch.setattr(Image.Image, "resize", lambda *_: pytest.fail("it is made"))
    (fault,) = faults(tmp_path, model(show(), p=picture("p.png", resampleSize=[1, 4, 65535, 65535])))
    # The buffer, and 16 bytes of every pixel of 4 channels while it is read.
    assert "the model needs 80.0 GiB" in fault
    assert fault.endswith(": 64.0 GiB are for reading resource 'p'")


def test_a_picture_of_too_many_pixels_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    Image.new("L", (4, 4)).save(tmp_path / "p.png")
    assert "decompression bomb" in faults(tmp_path, model(show(), p=picture("p.png")))[0]


# Memory.


def test_a_model_larger_than_the_device_is_refused_before_it_runs(tmp_path):
    class Small:
        def memory_stats(self):
            return {"bytes_limit": 40}

    read = read_model(saved(tmp_path, model(write("y.npy"), dispatch())))
    lines = []
    with pytest.raises(ModelError, match=r"dispatchable 'g' needs 0\.0 GiB for its tensors, and the device has"):
        run_model(read, Small(), lines.append)
    assert not lines
    assert not (tmp_path / "y.npy").exists()


@pytest.mark.exhaustive
@pytest.mark.skipif(sys.platform != "linux", reason="measures memory as Linux does")
def test_large_buffers_take_about_their_size(tmp_path):
    """A sequence, a constant and a list of bytes, made and printed in a process of its own."""
    count = 2**24
    big = {"initialValuesDataType": "UINT8", "initialValues": {"valueCount": count, "valueStart": 7, "valueDelta": 0}}
    path = saved(tmp_path, model(show("x"), x=big, y=zeros(count, "UINT8")))
    code = (
        "import resource, sys, pathlib, jax; from dml_jax.dxdispatch.model_file import read_model; "
        "from dml_jax.dxdispatch.run import run_model; jax.devices(); "
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; before = peak(); "
        "run_model(read_model(pathlib.Path(sys.argv[1])), jax.devices()[0], lambda line: None); "
        "print(peak() - before)"
    )
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    run = subprocess.run(
        [sys.executable, "-c", code, path], env=environment, capture_output=True, text=True, check=True
    )
    # Two buffers of 16 MiB, the printed line of 48 MiB twice, and the compiler.
    assert int(run.stdout) < 400 * 1024


# Names.


@pytest.mark.parametrize(
    "name", ["a\0b.npy", "\ud800.npy", "x" * 300 + ".npy", "loop.npy", "", ".", "model.json/y.npy"]
)
def test_targets_that_no_file_can_be(tmp_path, name):
    (tmp_path / "loop.npy").symlink_to("loop.npy")
    (fault,) = faults(tmp_path, model(show(), write(name)))
    assert fault.startswith("command 1 (writeFile): 'targetPath'")


def test_targets_are_checked_against_each_other(tmp_path):
    assert "is not a folder" in faults(tmp_path, model(write("a.npy"), write("a.npy/b.npy")))[0]
    assert "is a folder" in faults(tmp_path, model(write("a.npy/b.npy"), write("a.npy")))[0]
    longest = "x" * 248 + ".npy"
    assert lines_of(tmp_path, model(write(longest))) == [f"Resource 'y' written to {str(tmp_path / longest)!r}"]


@pytest.mark.parametrize("output", ["file/x", "file", "y" * 300])
def test_output_folders_that_cannot_be(tmp_path, output):
    (tmp_path / "file").write_text("no folder")
    (fault,) = faults(tmp_path, model(write("y.npy")), output=tmp_path / output)
    assert fault.startswith("command 0 (writeFile): 'targetPath' 'y.npy'")


def test_a_source_found_in_the_current_folder_is_not_overwritten(tmp_path, monkeypatch):
    (tmp_path / "models").mkdir()
    np.save(tmp_path / "src.npy", np.float32([1, 2, 3, 4]))
    monkeypatch.chdir(tmp_path)
    source = {"initialValues": {"sourcePath": "src.npy"}}
    json_model = model(write("src.npy"), x=source)
    (fault,) = faults(tmp_path / "models", json_model, output=tmp_path)
    assert "would overwrite a file that the model is read from" in fault


@pytest.mark.parametrize("name", ["a\0.npy", "\ud800.npy", "x" * 300 + ".npy", "", "."])
def test_sources_that_no_file_can_be(tmp_path, name):
    (fault,) = faults(tmp_path, model(show("y"), x={"initialValues": {"sourcePath": name}}))
    assert fault.startswith("resource 'x': no file")


def test_a_model_file_may_read_any_file(tmp_path):
    """docs/security.md warns of it: a path may be absolute or lead out of the folder, as in DxDispatch."""
    (tmp_path / "model").mkdir()
    (tmp_path / "secret").write_bytes(b"\7\11")
    for name in (str(tmp_path / "secret"), "../secret"):
        source = {"initialValuesDataType": "UINT8", "initialValues": {"sourcePath": name}}
        assert lines_of(tmp_path / "model", model(show("p"), p=source)) == ["Resource 'p': 7, 9"]


def test_names_with_control_characters_are_escaped(tmp_path):
    name = "\x1b[2J\n"
    (line,) = lines_of(tmp_path, model(show(name), **{name: {"initialValuesDataType": "UINT8", "initialValues": [1]}}))
    assert line == r"Resource '\x1b[2J\n': 1"
    (fault,) = faults(tmp_path, model(show(name)))
    assert not set("\x1b\n").intersection(fault)


RAW = "\x1b[2J\u202e"  # clears the screen, turns the direction of writing


def is_raw(said):
    return not {"\x1b", "\u202e"}.isdisjoint(said)


@pytest.mark.thinned
@pytest.mark.parametrize("name", ["gather.json", "graph.json", "photo.json"])
def test_no_text_of_a_model_reaches_a_terminal_raw(name, tmp_path):
    """Each name, type, path and key in turn, wherever it stands: names are right then, all others are faults."""
    shutil.copy(FOLDER / "grace_hopper.jpg", tmp_path)
    content, codes = (FOLDER / name).read_text(), set()
    pairs = [(key, holder[key]) for holder, key in places(text.parse(content))]
    for word in {word for pair in pairs for word in pair if isinstance(word, str)}:
        path = tmp_path / "model.json"
        path.write_text(content.replace(json.dumps(word), json.dumps(word + RAW)))
        for arguments in (["check"], ["run", "--print-commands"]):
            result = dml_jax_command(*arguments, path, "--output-dir", tmp_path / "out")
            assert not is_raw(result.output), (word, result.output)
            codes.add(result.exit_code)
    assert codes == {0, 1}


def test_no_name_of_a_serialized_graph_reaches_a_terminal_raw(tmp_path):
    pytest.importorskip("flatbuffers")
    node, x, y = (name + RAW for name in "gxy")
    data = f32(4)
    graph = GraphDesc(
        {node: GatherDesc(data, u32(4), data, 0, 1)},
        {(node, "input"): x, (node, "indices"): f"i{RAW}", y: (node, "output")},
    )
    assert not is_raw(repr(graph))
    (tmp_path / "graph.bin").write_bytes(graph.to_bytes())
    for arguments in (["check"], ["check", "--feature-level", "1_0"], ["run"], ["run", "--input", "x=none.npy"]):
        result = dml_jax_command(*arguments, tmp_path / "graph.bin")
        assert result.output
        assert not is_raw(result.output), result.output


@pytest.mark.parametrize("dtype", ["f4,i4", "c8", "U3", "?"])
def test_npy_of_other_types_names_the_file(tmp_path, dtype):
    np.save(tmp_path / "a.npy", np.zeros(3, dtype))
    (fault,) = faults(tmp_path, model(show("y"), x={"initialValues": {"sourcePath": "a.npy"}}))
    assert re.match(r"resource 'x': 'a\.npy' (must be a \.npy file of numbers, but it )?holds ", fault)


# Data types, numbers, syntax.


@pytest.mark.parametrize("name", ["float32", "single", "d", ">f4", "int", "f4,(", "(1,2", "(-1,)f4", "\ud800", "a5"])
def test_only_directmls_names_of_data_types_are_taken(tmp_path, name):
    assert (
        "DataType must be one of FLOAT32"
        in faults(tmp_path, model(show("i"), x={**F4, "initialValuesDataType": name}))[0]
    )
    typed = reverse(InputTensor=tensor(4, data_type=name))
    assert "InputTensor: DataType must be one of FLOAT32" in faults(tmp_path, model(show(), dispatchable=typed))[0]


def test_huge_numbers_in_sequences(tmp_path):
    huge = {"valueCount": 2, "valueStart": 10**400, "valueDelta": 0.5}
    (fault,) = faults(tmp_path, model(show("y"), x={**F4, "initialValues": huge}))
    assert "'valueStart' must fit FLOAT32" in fault
    steep = {"valueCount": 2**40, "valueStart": 10**300, "valueDelta": 10**300}
    assert "must fit FLOAT32" in faults(tmp_path, model(show("y"), x={**F4, "initialValues": steep}))[0]


@pytest.mark.parametrize("content", ["[,]", "{,}", '{"a":,}', "[1,,]", "[1,,2]"])
def test_commas_that_follow_nothing(content):
    with pytest.raises(ValueError, match="not JSON"):
        text.parse(content)


def test_long_texts_are_parsed():
    """In proportion to their length: by the square of it this would not end."""
    with pytest.raises(ValueError, match="not JSON"):
        text.parse('{"a":"' + '\\"' * 200_000)
    with pytest.raises(ValueError, match="appears twice"):
        text.parse("{" + ", ".join(f'"{i}": 0' for i in range(100_000)) + ', "0": 1}')


# Every fault at once.


def test_all_faults_of_one_thing_are_listed(tmp_path):
    bad = {"initialvalues": 1, "sizeInBytes": -1, "initialValues": ["x"], "initialValuesDataType": "FLOAT32"}
    found = faults(
        tmp_path,
        {
            **model(dispatch(InputTensor="nothing", IndicesTensor={"name": "i", "elementOffset": 9}), bad=bad),
            "Commands": [],
        },
    )
    assert [fault.split(";")[0].split(", but")[0] for fault in found] == [
        "unknown field 'Commands'",
        "resource 'bad': unknown field 'initialvalues'",
        "resource 'bad': 'sizeInBytes' must be in [0, 2**64 - 1]",
        'resource \'bad\': number 0 must be a number, "nan", "inf" or "-inf"',
        "command 0 (dispatch): dispatchable 'g': InputTensor: no resource is named 'nothing'",
        "command 0 (dispatch): dispatchable 'g': IndicesTensor: bytes [36, 16) lie outside 'i', which has 16",
    ]
    unjudged = model(dispatch(InputTensor="bad", IndicesTensor="none"), show("bad"), bad=bad)
    assert [fault.split(",")[0].split(";")[0] for fault in faults(tmp_path, unjudged)][3:] == [
        "command 0 (dispatch): dispatchable 'g': IndicesTensor: no resource is named 'none'"
    ]
    both = reverse(InputTensor=tensor(0, Strides=[-1, 1], GuaranteedBaseOffsetAlignment=3))
    found = faults(tmp_path, model(show(), dispatchable=both))
    assert [fault.split(": ", 4)[4].split(" must")[0] for fault in found] == [
        "every one of Sizes",
        "Strides",
        "every one of Strides",
        "GuaranteedBaseOffsetAlignment",
    ]


@pytest.mark.parametrize(
    ("dispatchable", "match"),
    [
        ({"type": "hlsl", "sourcePath": "a.hlsl"}, "dispatchables of type 'hlsl' are not supported"),
        ({**reverse(), "Type": "GATHR"}, "unknown operator 'GATHR'; did you mean 'GATHER'?"),
        ({**reverse(), "Desc": {}}, "GATHER: InputTensor is missing"),
        ({**reverse(), "type": 3}, '"type" is missing'),
        (reverse(InputTensor=tensor(4, DimensionCount=True)), "DimensionCount must be an integer, but it is True"),
        (reverse(InputTensor=tensor(4, GuaranteedBaseOffsetAlignment=None)), "Alignment must be an integer"),
    ],
)
def test_bad_dispatchables(tmp_path, dispatchable, match):
    assert match in faults(tmp_path, model(show(), dispatchable=dispatchable))[0]


def test_the_initial_range_is_printed_and_written(tmp_path):
    """Offset and padding are no part of it; raw bytes are those of the whole buffer."""
    shifted = {**F4, "initialValuesOffsetInBytes": 8, "sizeInBytes": 40}
    lines = lines_of(tmp_path, model(show("s"), write("s.npy", "s"), write("s.dat", "s"), s=shifted))
    assert lines[0] == "Resource 's': 1, 2, 3, 4"
    assert np.load(tmp_path / "s.npy").tolist() == [1, 2, 3, 4]
    assert (tmp_path / "s.dat").stat().st_size == 40
