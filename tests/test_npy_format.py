"""The reader of .npy files: files of NumPy are read as NumPy reads them, and hostile ones are refused."""

import io
import os
import re
import struct
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from checks import assert_same_bits
from numpy.lib import format as numpy_format

from dml_jax import ConstraintError, DataTypeError
from dml_jax.array_models.npy_inputs_and_outputs import read_array as read_input
from dml_jax.batch import BatchError, NpyFile, map_batches
from dml_jax.batch.npy_file import load_whole
from dml_jax.dxdispatch.model_file import read_buffer
from dml_jax.npy_format import load_npy, map_npy, read_array

LIBRARY = Path(__file__).parents[1] / "dml_jax"


def npy(header, data=b"", version=1, length=None):
    """A .npy file of any header, as a text or as bytes, that claims its own length or another."""
    header = header if isinstance(header, bytes) else f"{header}\n".encode()
    claimed = struct.pack("<H" if version == 1 else "<I", len(header) if length is None else length)
    return b"\x93NUMPY" + bytes([version, 0]) + claimed + header + data


def header(descr="'<f4'", fortran_order="False", shape="(4,)"):
    return f"{{'descr': {descr}, 'fortran_order': {fortran_order}, 'shape': {shape}, }}"


DATA = np.arange(4, dtype=np.float32).tobytes()


# What NumPy reads.


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 1), (0, 5), (1,) * 64])
@pytest.mark.parametrize("dtype", ["|b1", "<i2", ">i4", "<u8", "<f2", ">f8", "<c8", "|V2"])
def test_files_that_numpy_writes_are_read_as_numpy_reads_them(tmp_path, dtype, shape):
    count = int(np.prod(shape, dtype=int)) * np.dtype(dtype).itemsize
    array = np.frombuffer(np.random.default_rng(0).integers(0, 2, count, np.uint8).tobytes(), dtype).reshape(shape)
    for order in "CF":
        path = tmp_path / f"{order}.npy"
        np.save(path, np.asarray(array, order=order))
        expected = np.load(path)
        for found in (load_npy(path), map_npy(path), read_array(io.BytesIO(path.read_bytes()))):
            assert found.dtype == expected.dtype
            assert found.shape == expected.shape
            assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_all_versions_of_the_format_are_read(version):
    array, file = np.arange(6, dtype=">i2").reshape(2, 3), io.BytesIO()
    numpy_format.write_array(file, array, version)
    assert_same_bits(read_array(file), array)


@pytest.mark.parametrize(
    "text",
    [
        header(),
        "{'descr':'<f4','fortran_order':False,'shape':(4,)}",
        '{"shape": (4,), "fortran_order": False, "descr": "<f4"}',
        "{'descr': 'float32', 'fortran_order': False, 'shape': (4,)}" + " " * 5000,
        "  {\t'descr' : '<f4' ,\n 'fortran_order' : False , 'shape' : ( 4 , ) , }",
    ],
)
def test_headers_of_other_programs_are_read(text):
    content = npy(text, DATA)
    assert_same_bits(read_array(io.BytesIO(content)), np.load(io.BytesIO(content)))


def test_headers_of_python_2_are_read():
    with pytest.warns(UserWarning, match="created on Python 2"):
        found = read_array(io.BytesIO(npy(header(shape="(2L, 2L)"), DATA)))
    assert_same_bits(found, np.float32([[0, 1], [2, 3]]))


def test_what_follows_the_array_is_not_read():
    """numpy.save called twice with one open file makes such a file, and numpy.load reads the first array of it."""
    assert_same_bits(read_array(io.BytesIO(npy(header(), DATA + npy(header(), DATA)))), np.float32([0, 1, 2, 3]))


# What nobody reads: each content, and what is said of it.

WRONG = "its header is wrong: "
HOSTILE = {
    "nothing": (b"", WRONG),
    "text": (b"1,2,3\n" * 99, WRONG),
    "the magic string alone": (b"\x93NUMPY", WRONG),
    "another version": (npy(header(), DATA, 9), WRONG),
    "another minor version": (npy(header(), DATA).replace(b"\1\0", b"\1\2", 1), WRONG),
    "no length": (b"\x93NUMPY\1\0\2", WRONG),
    "a length of 0": (npy("", length=0), WRONG),
    "a length beyond the file": (npy(header(), length=60_000), f"{WRONG}.*EOF"),
    "a length of 4 GiB": (npy(header(), DATA, 2, 2**32 - 1), f"{WRONG}.*EOF"),
    "an archive": (b"PK\x03\x04rubbish", "it is an archive of several; unpack it"),
    "an open brace": (npy("{"), WRONG),
    "braces": (npy("{" * 9000), WRONG),
    "brackets": (npy("(" * 9000), WRONG),
    "an open bracket": (npy("{'descr': ('"), WRONG + "|it holds records"),
    "a list as a key": (npy("{[1]: 2}"), WRONG),
    "minus signs": (npy("-" * 9000 + "1"), WRONG),
    "a string without an end": (npy("{'descr': '<f4"), WRONG),
    "NULs": (npy(b"\0" * 100), WRONG),
    "no UTF-8": (npy(b"\xff\xfe{'descr'", version=3), WRONG),
    "a list": (npy("[1, 2]"), WRONG),
    "a key beside strings that is none": (npy(f"{{1: 2, {header()[1:]}", DATA), WRONG),
    "a key too many": (npy(header()[:-1] + "'a': 1}", DATA), WRONG),
    "a key too few": (npy("{'descr': '<f4', 'shape': (4,), }", DATA), WRONG),
    "a key twice": (npy("{'descr': '<f4', 'shape': (4,), 'shape': (4,), }", DATA), WRONG),
    "no flag": (npy(header(fortran_order="1"), DATA), WRONG),
    "a call": (npy(header(shape="(len('abcd'),)"), DATA), WRONG),
    "a size that is negative": (npy(header(shape="(-1,)"), DATA), rf"{WRONG}no array has the shape \(-1,\)"),
    "two that are negative": (npy(header(shape="(-2, -2)"), DATA), rf"{WRONG}no array has the shape \(-2, -2\)"),
    "a size of 2**64": (npy(header(shape=f"({2**64},)"), DATA), f"{WRONG}no array has the shape"),
    "a size of 2**62": (npy(header(shape=f"({2**62},)"), DATA), f"{WRONG}no array has the shape"),
    "2**64 times nothing": (npy(header(shape=f"({2**64}, 0)")), f"{WRONG}no array has the shape"),
    "sizes whose product wraps": (npy(header(shape=f"({2**33}, {2**31}, 4)"), DATA), f"{WRONG}no array has the shape"),
    "a size of 5,000 digits": (npy(header(shape=f"({'9' * 5000},)"), DATA), WRONG),
    "a size that is no integer": (npy(header(shape="(4.0,)"), DATA), WRONG),
    "a size that is true": (npy(header(shape="(True,)"), DATA), WRONG),
    "a size that is a power": (npy(header(shape="(10**9,)"), DATA), WRONG),
    "a size in parentheses": (npy(header(shape="(4)"), DATA), WRONG),
    "65 dimensions": (npy(header(shape=f"({'1,' * 65})"), DATA[:4]), f"{WRONG}no array has the shape"),
    "more than there is": (npy(header(shape="(5,)"), DATA), "it has [0-9]+ bytes and its header says [0-9]+; it was"),
    "far more than there is": (npy(header(shape=f"({2**40},)"), DATA), "it has .*; it was cut off"),
    "texts of no width, and a negative size": (npy(header("'<U0'", shape="(-1,)")), "it holds elements of <U0"),
    "texts of no width": (npy(header("'<U0'")), "it holds elements of <U0"),
    "bytes of no width": (npy(header("'|S0'")), r"it holds elements of \|S0"),
    "elements of no width": (npy(header("'|V0'")), r"it holds elements of \|V0"),
    "texts": (npy(header("'<U1'"), DATA), "it holds elements of <U1"),
    "texts of 8 GiB, none of them": (npy(header("'<U2000000000'", shape="(0,)")), WRONG + "|it holds elements"),
    "dates": (npy(header("'<M8[D]'"), DATA * 2), "it holds elements of datetime64"),
    "records": (npy(header("[('a', '<f4')]"), DATA), "it holds records"),
    "records of no width": (npy(header("[]"), DATA), "it holds records"),
    "arrays as elements": (npy(header("('<f4', (1,))"), DATA), "it holds records"),
    "fields in a text": (npy(header("'f4,' * 2000"), DATA), WRONG),
    "fields": (npy(header("'f4,f4'"), DATA), "it holds records"),
    "a type that nobody has": (npy(header("'<f1'"), DATA), f"{WRONG}.*not a valid dtype"),
    "escape sequences": (npy(header("'\x1b[31m'"), DATA), f"{WRONG}.*not a valid dtype"),
    "objects": (npy(header("'|O'"), b"\x80\x04N."), "it holds Python objects"),
    "strings of any length": (npy(header("'|T16'"), DATA), f"{WRONG}|it holds Python objects"),
}


def streamed(path):
    map_batches(lambda x: x, path, path.with_name("out.npy"), batch_size=4)


def mapped(path):
    read_buffer({"initialValuesDataType": "FLOAT32", "initialValues": {"sourcePath": path.name}}, path.parent)


# Everything that reads the files of somebody else.
READERS = {
    "batch": streamed,
    "batch --shared": lambda path: load_whole(NpyFile(path)),
    "run --input": lambda path: read_input("x", path),
    "sourcePath": mapped,
    "artifact": lambda path: read_array(io.BytesIO(path.read_bytes())),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize(("content", "fact"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_header_is_refused_in_words(tmp_path, content, fact, read):
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises((ConstraintError, BatchError)) as caught:
        read(tmp_path / "x.npy")
    assert re.search(f"must be a .npy file of numbers, but (?:{fact})", str(caught.value))
    assert str(caught.value).isprintable()
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


def test_types_are_errors_of_types_and_objects_are_not():
    for name, error in {"texts": DataTypeError, "records": DataTypeError, "objects": ConstraintError}.items():
        with pytest.raises(ConstraintError) as caught:
            read_array(io.BytesIO(HOSTILE[name][0]))
        assert type(caught.value) is error


@pytest.mark.parametrize("name", ["batch", "batch --shared", "run --input"])
def test_only_regular_files_are_read(tmp_path, name):
    """A pipe that nobody writes to would be waited for."""
    os.mkfifo(tmp_path / "pipe.npy")
    (tmp_path / "folder.npy").mkdir()
    said = {
        "pipe.npy": "Not a regular file",
        "folder.npy": "(Is a directory|there is no file)",
        "a\0b.npy": "such a name",
    }
    said |= {"/dev/zero": "Not a regular file", "none.npy": "No such file or directory", "\ud800": "such a name"}
    for path, why in said.items():
        with pytest.raises((ConstraintError, BatchError), match=f"cannot be read: .*{why}"):
            READERS[name](tmp_path / path)


def test_a_link_to_a_file_is_read(tmp_path):
    np.save(tmp_path / "x.npy", np.float32([1, 2]))
    (tmp_path / "link.npy").symlink_to("x.npy")
    assert_same_bits(load_npy(tmp_path / "link.npy"), np.float32([1, 2]))


def test_bits_of_types_that_numpy_does_not_name_are_kept():
    array, file = np.arange(8).astype(ml_dtypes.bfloat16), io.BytesIO()
    np.save(file, array)
    assert_same_bits(read_array(file).view(ml_dtypes.bfloat16), array)


def test_no_other_part_of_the_library_reads_npy_files():
    """But the benchmark of files, which reads those that it made."""
    others = re.compile(r"np\.load\(|open_memmap|read_magic|read_array_header|lib\.format\.read|np\.lib\.format")
    files = {str(path.relative_to(LIBRARY)) for path in LIBRARY.rglob("*.py") if others.search(path.read_text())}
    assert files - {"batch/batch_map.py"} == {
        "bench/file_streaming.py",
        "npy_format.py",
    }  # and the example in a docstring
