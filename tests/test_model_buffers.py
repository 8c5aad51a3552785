"""The initial values of buffers: every initialiser, every bad one."""

import numpy as np
import pytest
from checks import assert_same_bits
from model_building import lines_of, model, show
from PIL import Image

from dml_jax import ConstraintError, DataType
from dml_jax.dxdispatch.resources import read_buffer


def buffer(folder=None, **fields):
    return read_buffer(fields, folder)


def contents(made):
    return made.initial_range(made.make())


@pytest.mark.parametrize("data_type", [t for t in DataType if t != DataType.INT4], ids=lambda t: t.name)
def test_lists_constants_and_sequences_of_every_type(data_type):
    kind = {"initialValuesDataType": f"DML_TENSOR_DATA_TYPE_{data_type.name}"}
    expected = np.array([3, 5, 7, 9, 11], data_type.dtype)
    assert_same_bits(contents(buffer(**kind, initialValues=[3, 5.0, 7, 9, 11])), expected)
    steps = {"valueCount": 5, "valueStart": 3, "valueDelta": 2}
    assert_same_bits(contents(buffer(**kind, initialValues=steps)), expected)
    assert_same_bits(contents(buffer(**kind, initialValues={"valueCount": 3, "value": 7})), expected[[2, 2, 2]])


def test_extreme_integers_are_exact():
    high = [2**64 - 1, 2**63, 0]
    assert contents(buffer(initialValuesDataType="UINT64", initialValues=high)).tolist() == high
    down = {"valueCount": 3, "valueStart": -(2**63) + 2, "valueDelta": -1}
    assert contents(buffer(initialValuesDataType="INT64", initialValues=down)).tolist() == [
        -(2**63) + i for i in (2, 1, 0)
    ]
    wide = {"valueCount": 2, "valueStart": -(2**63), "valueDelta": 2**64 - 1}
    assert contents(buffer(initialValuesDataType="INT64", initialValues=wide)).tolist() == [-(2**63), 2**63 - 1]


def test_special_floats_and_fractional_sequences():
    made = buffer(initialValuesDataType="FLOAT16", initialValues=[65504, "nan", "inf", "-inf", -0.0])
    assert_same_bits(contents(made), np.float16([65504, np.nan, np.inf, -np.inf, -0.0]))
    steps = {"valueCount": 4, "valueStart": 1, "valueDelta": 2.5}
    assert_same_bits(
        contents(buffer(initialValuesDataType="FLOAT32", initialValues=steps)), np.float32([1, 3.5, 6, 8.5])
    )


def test_values_of_different_types_lie_in_a_row():
    row = [
        {"type": "FLOAT32", "value": -4.1092, "name": "alpha"},
        {"type": "UINT8", "value": 15},
        {"type": "INT16", "value": -3},
    ]
    made = buffer(initialValuesDataType="UNKNOWN", initialValues=row)
    expected = np.float32(-4.1092).tobytes() + b"\x0f" + np.int16(-3).tobytes() + b"\0"
    assert made.make().tobytes() == expected
    assert made.size == 8
    assert made.data_type is None


@pytest.mark.parametrize(
    ("fields", "size"),
    [
        ({}, 12),
        ({"sizeInBytes": 10}, 10),
        ({"sizeInBytes": 100}, 100),
        ({"type": "BUFFER"}, 12),
        ({"initialValuesOffsetInBytes": 2}, 12),
        ({"initialValuesOffsetInBytes": 8, "sizeInBytes": 100}, 100),
    ],
)
def test_sizes_and_offsets(fields, size):
    """DxDispatch's offset counts for the size alone: the values start at byte 0."""
    made = buffer(initialValuesDataType="FLOAT16", initialValues=[1, 2, 3, 4, 5], **fields)
    assert made.size == made.make().size == size
    assert made.make()[:10].view(np.float16).tolist() == [1, 2, 3, 4, 5]
    assert not made.make()[10:].any()


def test_a_sequence_adds_in_its_own_type():
    """value += delta: a float that cannot grow by so little stays, and an integer wraps."""
    half = {"valueCount": 2051, "valueStart": 0, "valueDelta": 1}
    assert contents(buffer(initialValuesDataType="FLOAT16", initialValues=half))[-4:].tolist() == [
        2047,
        2048,
        2048,
        2048,
    ]
    value, tenths = np.float32(0), []
    for _ in range(1000):
        tenths.append(value)
        value = np.float32(value + np.float32(0.1))
    steps = {"valueCount": 1000, "valueStart": 0, "valueDelta": 0.1}
    assert_same_bits(contents(buffer(initialValuesDataType="FLOAT32", initialValues=steps)), np.array(tenths))
    round_again = {"valueCount": 3, "valueStart": 254, "valueDelta": 1}
    assert contents(buffer(initialValuesDataType="UINT8", initialValues=round_again)).tolist() == [254, 255, 0]
    assert contents(
        buffer(
            initialValuesDataType="FLOAT32", initialValues={"valueCount": 2, "valueStart": "-Inf", "valueDelta": "NaN"}
        )
    ).tolist() == pytest.approx([-np.inf, np.nan], nan_ok=True)


F32 = {"initialValuesDataType": "FLOAT32"}


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"initialvalues": [1]}, "unknown field 'initialvalues'; did you mean 'initialValues'"),
        ({**F32}, "'initialValues' is missing"),
        ({"initialValues": {"valueCount": 3, "value": 0}}, "'initialValuesDataType' is missing"),
        ({"initialValues": [1, 2]}, "value 0 must be a JSON object"),
        ({"initialValuesDataType": "FLOAT8", "initialValues": [1]}, "DataType must be one of FLOAT32"),
        ({"initialValuesDataType": 1, "initialValues": [1]}, "'initialValuesDataType' must be a string"),
        ({**F32, "initialValues": "later"}, 'must be an array, an object or .deferred., but it is "later"'),
        ({**F32, "initialValues": []}, "must not be empty"),
        ({**F32, "initialValues": {}}, "must be an array, or an object with 'value', 'valueStart' or 'sourcePath'"),
        ({**F32, "initialValues": {"value": 1}}, "'valueCount' is missing"),
        ({**F32, "initialValues": {"value": 1, "valueCount": 0}}, r"'valueCount' must be in \[1, "),
        ({**F32, "initialValues": {"value": 1, "valueCount": 2.5}}, "'valueCount' must be an integer"),
        ({**F32, "initialValues": {"value": 1, "valueStart": 1, "valueCount": 1}}, "unknown field 'valueStart'"),
        ({**F32, "initialValues": {"valueStart": 1, "valueCount": 2}}, "'valueDelta' is missing"),
        ({**F32, "initialValues": ["NaNs"]}, 'number 0 must be a number, "nan", "inf" or "-inf"'),
        ({**F32, "initialValues": [1, True]}, "number 1 must be a number"),
        ({**F32, "initialValues": [1e39]}, "number 0 must fit FLOAT32"),
        ({**F32, "initialValues": [10**400]}, "number 0 must fit FLOAT32"),
        (
            {"initialValuesDataType": "INT8", "initialValues": [1, 128]},
            r"number 1 must be an integer of INT8, \[-128, 127\]",
        ),
        ({"initialValuesDataType": "INT8", "initialValues": [1.5]}, "must be an integer of INT8"),
        ({"initialValuesDataType": "INT8", "initialValues": ["nan"]}, 'number 0 must be a number, but it is "nan"'),
        (
            {"initialValuesDataType": "UINT8", "initialValues": {"valueStart": 256, "valueDelta": 2, "valueCount": 4}},
            "'valueStart' must be an integer of UINT8",
        ),
        ({**F32, "initialValues": [1, 2], "sizeInBytes": 4}, "'sizeInBytes' must be at least the 8"),
        ({**F32, "initialValues": [1], "sizeInBytes": 2**64}, r"'sizeInBytes' must be in \[0, "),
        ({**F32, "initialValues": [1], "sizeInBytes": -1}, "'sizeInBytes' must be in"),
        ({**F32, "initialValues": [1], "initialValuesOffsetInBytes": "4"}, "must be an integer"),
        ({**F32, "initialValues": [1], "resampleSize": [1, 1, 1, 1]}, "'resampleSize' is for pictures only"),
        ({"initialValues": [{"type": "INT8"}], "initialValuesDataType": "UNKNOWN"}, "value 0: 'value' is missing"),
        ({"initialValues": [{"value": 1}], "initialValuesDataType": "UNKNOWN"}, "'type' is missing"),
    ],
)
def test_bad_buffers_are_refused(fields, match):
    with pytest.raises(ConstraintError, match=match):
        read_buffer(fields, None)


# From files.


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<i8", "|u1", "<f2"])
def test_npy(tmp_path, dtype, order):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    np.save(tmp_path / "a.npy", np.asarray(array, order=order))
    made = buffer(tmp_path, initialValues={"sourcePath": "a.npy"})
    assert_same_bits(contents(made), array.astype(array.dtype.newbyteorder("=")).ravel())


def test_raw_bytes(tmp_path):
    for name in ("a.dat", "b.bin", "c.BIN"):
        (tmp_path / name).write_bytes(np.arange(5, dtype=np.uint16).tobytes())
        made = buffer(tmp_path, initialValuesDataType="UINT16", initialValues={"sourcePath": name})
        assert contents(made).tolist() == [0, 1, 2, 3, 4]
        assert made.size == 12


def test_files_are_found_in_the_current_folder_too(tmp_path, monkeypatch):
    np.save(tmp_path / "here.npy", np.float32([1]))
    monkeypatch.chdir(tmp_path)
    assert buffer(tmp_path / "elsewhere", initialValues={"sourcePath": "here.npy"}).size == 4


class Boom:
    """What a pickle that must not be read would make."""

    def __reduce__(self):
        return (pytest.fail, ("the file was unpickled",))


def test_bad_files_are_refused(tmp_path):
    np.save(tmp_path / "pickle.npy", np.array([Boom()], dtype=object), allow_pickle=True)
    np.save(tmp_path / "empty.npy", np.zeros((0, 3), np.float32))
    np.save(tmp_path / "bool.npy", np.zeros(3, bool))
    np.save(tmp_path / "f8.npy", np.zeros(3))
    whole = (tmp_path / "f8.npy").read_bytes()
    (tmp_path / "short.npy").write_bytes(whole[:-8])
    (tmp_path / "header.npy").write_bytes(whole[:20])
    (tmp_path / "text.npy").write_text("hello")
    (tmp_path / "odd.dat").write_bytes(b"12345")
    (tmp_path / "none.dat").write_bytes(b"")
    (tmp_path / "text.png").write_text("hello")
    cases = {
        "pickle.npy": "it holds Python objects",
        "empty.npy": r"is empty: its shape is \(0, 3\)",
        "bool.npy": "DataType must be one of",
        "f8.npy": "holds FLOAT64, but 'initialValuesDataType' is FLOAT32",
        "short.npy": "its header says [0-9]+; it was cut off",
        "header.npy": "its header is wrong: .*EOF",
        "text.npy": "its header is wrong: .*magic string",
        "odd.dat": "must hold whole elements of FLOAT32, but it has 5 bytes",
        "none.dat": "it has 0 bytes",
        "text.png": "is not a readable PNG or JPEG picture",
        "gone.npy": 'no file "gone.npy" in the model.s folder or the current one',
        "a.txt": "no file",
    }
    for name, match in cases.items():
        with pytest.raises(ConstraintError, match=match):
            read_buffer({**F32, "initialValues": {"sourcePath": name}}, tmp_path)
    (tmp_path / "a.txt").write_text("1 2 3")
    with pytest.raises(ConstraintError, match=r"'a.txt' must hold whole elements of FLOAT32, but it has 5 bytes"):
        read_buffer({**F32, "initialValues": {"sourcePath": "a.txt"}}, tmp_path)
    raw = read_buffer({"initialValuesDataType": "UINT8", "initialValues": {"sourcePath": "a.txt"}}, tmp_path)
    assert contents(raw).tobytes() == b"1 2 3"
    with pytest.raises(ConstraintError, match=r"raw bytes, 'odd.dat', need 'initialValuesDataType'"):
        read_buffer({"initialValues": {"sourcePath": "odd.dat"}}, tmp_path)


# Pictures.


@pytest.fixture
def picture(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "p.png")
    return pixels


def test_pictures_are_planes_of_unit_floats_or_bytes(tmp_path, picture):
    planes = picture.transpose(2, 0, 1).ravel()
    source = {"initialValues": {"sourcePath": "p.png"}}
    floats = contents(buffer(tmp_path, initialValuesDataType="FLOAT32", **source))
    assert_same_bits(floats, (planes.astype(np.float32) / 255))
    assert contents(buffer(tmp_path, initialValuesDataType="FLOAT16", **source)).dtype == np.float16
    assert_same_bits(contents(buffer(tmp_path, initialValuesDataType="UINT8", **source)), planes)


def test_pictures_are_resampled_and_made_grey(tmp_path, picture):
    grey = {"initialValues": {"sourcePath": "p.png"}, "initialValuesDataType": "UINT8", "resampleMode": "scale"}
    made = buffer(tmp_path, **grey, resampleSize=[1, 1, 10, 3])
    assert contents(made).size == 30
    for bad in ([1, 2, 10, 3], [2, 1, 10, 3], [1, 1, 0, 3], [3, 10], [1, 1, 10, 3.0]):
        with pytest.raises(ConstraintError, match="'resampleSize' must be"):
            buffer(tmp_path, **grey, resampleSize=bad)
    with pytest.raises(ConstraintError, match="'resampleMode' must be 'scale'"):
        buffer(tmp_path, **{**grey, "resampleMode": "crop"})
    for kind in ({"initialValuesDataType": "INT32"}, {}):
        with pytest.raises(ConstraintError, match="a picture's data type must be one of FLOAT32, FLOAT16, UINT8"):
            buffer(tmp_path, initialValues={"sourcePath": "p.png"}, **kind)


# Printing.


def test_values_are_printed_as_c_plus_plus_streams_do(tmp_path):
    floats = {"initialValuesDataType": "FLOAT32", "initialValues": [6, 0.1, 1e-5, 123456789, "nan", "-inf", -0.0]}
    bytes_ = {"initialValuesDataType": "INT8", "initialValues": [-1, 127, 3]}
    printed = lines_of(tmp_path, model(show("f"), show("b"), show("b", verbose=True), f=floats, b=bytes_))
    assert printed == [
        "Resource 'f': 6, 0.1, 1e-05, 1.23457e+08, nan, -inf, -0",
        "Resource 'b': -1, 127, 3",
        "Resource 'b':",
        "[0] -1 (0xFF)",
        "[1] 127 (0x7F)",
        "[2] 3 (0x03)",
    ]
