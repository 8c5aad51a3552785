"""Inputs of batches where they are: zarr, HDF5, pictures, shards, objects with slices; bits, resuming, errors."""

import hashlib
import os
import re
import subprocess
import sys
import threading
import zlib
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
from batch_jobs import blocks, blocks_oracle, environment, names, random_rows, saved
from checks import sampled
from commands import batch

from dml_jax import ConstraintError
from dml_jax.batch import BatchError, map_batches

ROWS = 37
ARRAY = random_rows(ROWS)

pytestmark = pytest.mark.usefixtures("compiled_once")


def library(name):
    return pytest.importorskip(name, reason=f"{name} is not installed; the extra test has it")


def zarr_of(version, **options):
    """Writes by the zarr library, in chunks that no batch fits."""

    def write(folder, array):
        made = library("zarr").create_array(
            folder / "in.zarr",
            shape=array.shape,
            chunks=(5, 3, 2, 3),
            dtype=array.dtype,
            zarr_format=version,
            **options,
        )
        with np.errstate(invalid="ignore"):  # zarr compares with the fill value
            made[:] = array
        library("tensorstore")
        return folder / "in.zarr"

    return write


def in_a_group(folder, array):
    library("tensorstore")
    group = library("zarr").open_group(folder / "in.zarr", mode="w")
    made = group.create_array("a/b", shape=array.shape, chunks=(2, 8, 2, 3), shards=(10, 8, 2, 3), dtype=array.dtype)
    made[:] = array
    return f"{folder}/in.zarr/a/b/"


def hdf5(folder, array, **options):
    with library("h5py").File(folder / "in.h5", "w") as file:
        file.create_dataset("group/data", data=array, **options)
    return f"{folder / 'in.h5'}:/group/data"


def compressed_hdf5(folder, array):
    return hdf5(folder, array, chunks=(4, *array.shape[1:]), compression="gzip", shuffle=True)


def parts(folder, array):
    """Files of different lengths, one of them empty; in order their names are not those of their numbers."""
    cuts = [0, 10, 10, 30, len(array)]
    return [saved(folder / f"{i}.npy", array[a:b]) for i, (a, b) in enumerate(pairwise(cuts))]


def pattern(folder, array):
    parts(folder, array)
    return folder / "[0-9]*.npy"


def folder_of_files(folder, array):
    (folder / "in").mkdir()
    (folder / "in" / ".hidden").write_bytes(b"")
    parts(folder / "in", array)
    return folder / "in"


def mixed(folder, array):
    """Shards of every kind."""
    first, *rest = np.split(array, [9, 20, 30])
    return [zarr_of(3)(folder, first), hdf5(folder, rest[0]), rest[1], saved(folder / "last.npy", rest[2])]


class Slices:
    """Nothing but a shape, a type and slices."""

    def __init__(self, array):
        self.shape, self.dtype, self._array = array.shape, array.dtype, array

    def __getitem__(self, rows):
        return self._array[rows]


def tensorstore(folder, array):
    kvstore = {"driver": "file", "path": f"{zarr_of(2)(folder, array)}/"}
    return library("tensorstore").open({"driver": "auto", "kvstore": kvstore}).result()


STORED = {
    "zarr 2": zarr_of(2),
    "zarr 3": zarr_of(3),
    "zarr in a group": in_a_group,
    "HDF5": hdf5,
    "HDF5, compressed": compressed_hdf5,
    "a list of files": parts,
    "a pattern": pattern,
    "a folder": folder_of_files,
}
INPUTS = STORED | {
    "shards of every kind": mixed,
    "an object of zarr": lambda folder, array: library("zarr").open_array(zarr_of(3)(folder, array)),
    "an object of h5py": lambda folder, array: library("h5py").File(hdf5(folder, array).split(":")[0])["group/data"],
    "an object of TensorStore": tensorstore,
    "an object of dask": lambda folder, array: library("dask.array").from_array(array, chunks=(7, 8, 2, 3)),
    "slices": lambda folder, array: Slices(array),
    "a list of arrays": lambda folder, array: np.split(array, [1, 1, 30]),
}


def interrupted(given, out):
    def progress(now):
        if now.rows >= 16:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        map_batches(blocks, given, out, batch_size=8, progress=progress)


@pytest.mark.parametrize("write", INPUTS.values(), ids=INPUTS)
def test_every_input_gives_its_bits_and_a_job_on_it_goes_on(tmp_path, write):
    given, out = write(tmp_path, ARRAY), tmp_path / "out.npy"
    interrupted(given, out)
    done = map_batches(blocks, given, out, batch_size=11)
    assert done.resumed >= 16
    assert done.bytes == 2 * ARRAY[done.resumed :].nbytes
    assert np.load(out).tobytes() == blocks_oracle(ARRAY).tobytes()


@pytest.mark.thinned(6)
@pytest.mark.parametrize("dtype", ["bool", ">i2", "complex64", "float16"])
@pytest.mark.parametrize("write", [zarr_of(2), zarr_of(3), compressed_hdf5], ids=["zarr 2", "zarr 3", "HDF5"])
def test_every_type_keeps_its_bits(tmp_path, dtype, write):
    array = random_rows(ROWS, dtype)
    map_batches(blocks, write(tmp_path, array), tmp_path / "out.npy", batch_size=8)
    native = array.astype(array.dtype.newbyteorder("="))
    assert np.load(tmp_path / "out.npy").tobytes() == blocks_oracle(native).tobytes()


def newest_file(folder):
    files = [path for path in folder.rglob("*") if path.is_file() and "out.npy" not in path.name]
    return max(files, key=lambda path: (path.stat().st_size, path.name))


@pytest.mark.thinned(6)
@pytest.mark.parametrize("write", STORED.values(), ids=STORED)
def test_an_input_that_has_changed_is_refused(tmp_path, write):
    given, out = write(tmp_path, ARRAY), tmp_path / "out.npy"
    interrupted(given, out)
    os.utime(newest_file(tmp_path), ns=(2**62, 2**62))
    with pytest.raises(BatchError, match=r"^inputs\[0\]\.(shards\[.\]\.)?mtime_ns was"):
        map_batches(blocks, given, out, batch_size=8)
    assert map_batches(blocks, given, out, batch_size=8, restart=True).resumed == 0


@pytest.mark.thinned(6)
@pytest.mark.parametrize("write", STORED.values(), ids=STORED)
def test_an_input_that_changes_while_it_is_read_is_told(tmp_path, write):
    given, out = write(tmp_path, ARRAY), tmp_path / "out.npy"

    def change(now):
        os.utime(newest_file(tmp_path), ns=(2**62, 2**62))

    with pytest.raises(BatchError, match="the input was changed while it was read"):
        map_batches(blocks, given, out, batch_size=8, progress=change)
    assert not out.exists()


# Pictures.


def pictures(folder, arrays, suffix=".png"):
    image = library("PIL.Image")
    (folder / "pictures").mkdir(exist_ok=True)
    for i, array in enumerate(arrays):
        image.fromarray(array).save(folder / "pictures" / f"{i:03}{suffix}")
    return folder / "pictures"


MODES = {"RGB": ((5, 4, 3), "u1"), "RGBA": ((5, 4, 4), "u1"), "L": ((5, 4), "u1"), "I;16": ((5, 4), "u2")}


@pytest.mark.thinned(6)
@pytest.mark.parametrize(("item", "dtype"), MODES.values(), ids=MODES)
@pytest.mark.parametrize("suffix", [".png", ".tiff"])
def test_a_folder_of_pictures_is_an_array_of_their_pixels(tmp_path, item, dtype, suffix):
    array, out = random_rows(20, dtype, item), tmp_path / "out.npy"
    folder = pictures(tmp_path, array, suffix)
    for given in (folder, f"{folder}/*{suffix}"):
        map_batches(lambda x: x[:, ::-1], given, out, batch_size=8, overwrite=True)
        assert np.load(out).tobytes() == array[:, ::-1].tobytes()


def test_a_picture_is_what_pillow_makes_of_it(tmp_path):
    """Lossy ones, and bits."""
    image = library("PIL.Image")
    folder, out = pictures(tmp_path, random_rows(9, "u1", (16, 16, 3)), ".jpg"), tmp_path / "out.npy"
    expected = [np.asarray(image.open(path)) for path in sorted(folder.iterdir())]
    map_batches(lambda x: x, folder, out, batch_size=4)
    assert np.load(out).tobytes() == np.stack(expected).tobytes()
    bits = tmp_path / "bits.png"
    image.fromarray(ARRAY[0, 0] > 0).convert("1").save(bits)
    map_batches(lambda x: x, bits, out, overwrite=True)
    np.testing.assert_array_equal(np.load(out), ARRAY[:1, 0] > 0)


# What can be wrong.


def damaged(path, change):
    """A path of an input one of whose files has other bytes: the largest, or the last."""
    file = newest_file(path if path.is_dir() else path.parent)
    file.write_bytes(change(file.read_bytes()))
    return path


def odd_one(folder, array):
    folder = pictures(folder, random_rows(6, "u1", (5, 4, 3)))
    library("PIL.Image").fromarray(array).save(folder / "003.png")
    return folder


def bomb(folder):
    """A PNG whose header says that it has 2**40 pixels."""
    library("PIL.Image")
    (path,) = pictures(folder, random_rows(1, "u1", (5, 4))).iterdir()
    content = bytearray(path.read_bytes())
    content[16:24] = (2**20).to_bytes(4, "big") * 2
    content[29:33] = zlib.crc32(content[12:29]).to_bytes(4, "big")
    path.write_bytes(content)
    return path


def planted(folder):
    """A pipe in the place of a chunk."""
    path = zarr_of(2)(folder, ARRAY)
    (path / "1.0.0.0").unlink()
    os.mkfifo(path / "1.0.0.0")
    return path


WRONG = {
    "no zarr": (lambda d: library("tensorstore") and d / "none.zarr", r"none.zarr: .* cannot be read: No such file"),
    "an empty folder": (lambda d: d, "cannot be read: there is no file"),
    "an empty zarr": (
        lambda d: (library("tensorstore") and (d / "a.zarr").mkdir()) or d / "a.zarr",
        "a.zarr: an input must be an array of zarr: ",
    ),
    "a group": (lambda d: in_a_group(d, ARRAY)[:-5], r'must be an array of zarr: .*"group"[^\[]*$'),
    "metadata that is none": (
        lambda d: broken_metadata(zarr_of(3)(d, ARRAY)),
        "in.zarr: an input must be an array of zarr: ",
    ),
    "a chunk that is cut off": (
        lambda d: damaged(zarr_of(2)(d, ARRAY), lambda b: b[:20]),
        r"in.zarr: an input cannot be read: .*in.zarr/\d\.\d.0.0.* \(rows \d+ to \d+\)$",
    ),
    "a pipe": (planted, "1.0.0.0 is not a regular file"),
    "texts in zarr": (lambda d: zarr_of(2)(d, np.full((9, 8, 2, 3), "ab", "S2")), "in.zarr"),
    "no HDF5": (lambda d: library("h5py") and d / "none.h5:/x", "none.h5: an input cannot be read: No such file"),
    "no name of a dataset": (
        lambda d: hdf5(d, ARRAY)[:-12],
        r"must name the dataset in the file, such as .*in.h5:/name",
    ),
    "no dataset": (lambda d: hdf5(d, ARRAY) + "x", "in.h5:/group/datax: an input cannot be read: .*doesn't exist"),
    "a group of HDF5": (lambda d: hdf5(d, ARRAY)[:-5], "must be a dataset, but it is .HDF5 group"),
    "a file that is cut off": (
        lambda d: (hdf5(d, ARRAY), os.truncate(d / "in.h5", 999))[0],
        "in.h5:/group/data: an input cannot be read: .*truncated file",
    ),
    "a row that is damaged": (lambda d: damage_of_hdf5(d), r"in.h5:/group/data\): rows \d+ to \d+ cannot be read: "),
    "a text": (lambda d: hdf5(d, np.array([b"a", b"b"])), "dtype must be a type that JAX has"),
    "a number": (lambda d: hdf5(d, np.float32(1)), "must have a leading dimension"),
    "a picture of another size": (
        lambda d: odd_one(d, random_rows(1, "u1", (5, 5, 3))[0]),
        r"003.png\) must be uint8\[any,5,4,3\], as inputs\[0\]\[0\] \(.*000.png\) is, but it is uint8\[any,5,5,3\]",
    ),
    "a picture of other colours": (
        lambda d: odd_one(d, random_rows(1, "u1", (5, 4))[0]),
        r"but it is uint8\[any,5,4\]",
    ),
    "no picture": (
        lambda d: damaged(pictures(d, random_rows(1, "u1", (5, 4))), lambda _: b"junk"),
        "000.png: an input is not a readable picture: cannot identify",
    ),
    "a picture that is cut off": (
        lambda d: damaged(pictures(d, random_rows(3, "u1", (5, 4))), lambda b: b[:-30]),
        r"png: an input is not a readable picture: .* \(rows 0 to 1\)",
    ),
    "a picture of 2**40 pixels": (bomb, "000.png: an input is not a readable picture: .*decompression bomb"),
    "another file among pictures": (
        lambda d: (pictures(d, random_rows(3, "u1", (5, 4))), (d / "pictures/readme").write_text("read"))[0],
        "readme: an input must be a .npy file of numbers",
    ),
    "shards of two types": (lambda d: [ARRAY, ARRAY.view("i4")], r"inputs\[0\]\[1\] must be float32\[any,8,2,3\]"),
    "an iterator among shards": (lambda d: [iter([ARRAY])], r"a list of paths or arrays, but it has an iterator"),
    "rows that nobody knows": (lambda d: unknown(), r"must have sizes that are known, but its shape is \(nan,"),
    "slices that fail": (lambda d: failing(), r"inputs\[0\]: rows 8 to 16 cannot be read: .*by zero"),
    "slices of another size": (lambda d: shrinking(), r"inputs\[0\]: rows 0 to 8 cannot be read: they are float32"),
}


def broken_metadata(path):
    (path / "zarr.json").write_text('{"zarr_format": 3')
    return path


def damage_of_hdf5(folder):
    path = compressed_hdf5(folder, ARRAY)
    content = bytearray((folder / "in.h5").read_bytes())
    content[-3000:] = bytes(3000)
    (folder / "in.h5").write_bytes(content)
    return path


def unknown():
    given = Slices(ARRAY)
    given.shape = (float("nan"), *ARRAY.shape[1:])
    return given


def failing():
    """Rows that are there when their sum is made, and fail when they are computed."""

    class Failing(Slices):
        def __getitem__(self, rows):
            return self._array[rows] if rows.start != 8 or rows.stop != 16 else 1 // 0

    return Failing(ARRAY)


def shrinking():
    class Shrinking(Slices):
        def __getitem__(self, rows):
            return self._array[rows][:3]

    return Shrinking(ARRAY[:8])


@pytest.mark.thinned(6)
@pytest.mark.parametrize(("write", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_input_is_told_in_a_line_that_names_it(tmp_path, write, message):
    folder = tmp_path / "in"
    folder.mkdir()
    given = write(folder)
    with pytest.raises((BatchError, ConstraintError), match=message) as caught:
        map_batches(lambda x: x, given, tmp_path / "out.npy", batch_size=8)
    assert len(str(caught.value)) < 600
    assert not (tmp_path / "out.npy").exists()


@pytest.mark.exhaustive
def test_the_output_is_no_part_of_an_input(tmp_path):
    given = folder_of_files(tmp_path, ARRAY)
    for inputs, output in (
        ([given / "0.npy"], given / "0.npy"),
        (given, given / "out.npy"),
        (given / "*.npy", given / "0.npy"),
    ):
        with pytest.raises(BatchError, match=r"the output must not be (an|in an) input"):
            map_batches(blocks, inputs, output, overwrite=True)


@pytest.mark.parametrize(("module", "path"), [("tensorstore", "a.zarr"), ("h5py", "a.h5:/x"), ("PIL.Image", "a.png")])
def test_a_library_that_is_missing_is_told_with_its_extra(tmp_path, monkeypatch, module, path):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        BatchError, match=rf"{path.split(':')[0]}: this needs {module}.*; pip install '.\[arrays\]' in a"
    ):
        map_batches(blocks, tmp_path / path, tmp_path / "out.npy")


@pytest.mark.exhaustive
def test_inputs_load_their_libraries_only_where_they_are_used(tmp_path):
    script = f"""
import sys, numpy as np
from dml_jax.batch import map_batches
map_batches(lambda x: x, np.zeros((3, 2), np.float32), {str(tmp_path / "out.npy")!r})
assert not {{"tensorstore", "h5py", "PIL", "zarr"}} & {{*sys.modules}}
"""
    run = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


# Buckets.


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    """A folder that a server of this machine has as gs://bucket and as http://HOST/bucket."""
    refused, asked = [], []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            path = unquote(urlsplit(self.path).path)
            asked.append((self.command, path))
            file = tmp_path / path.removeprefix("/storage/v1/b/").replace("/o/", "/", 1).lstrip("/")
            if not file.is_file() or refused:
                return self.answer(refused[0] if refused else 404, b"")
            content, generation = file.read_bytes(), str(file.stat().st_mtime_ns)
            if "alt=json" in self.path:
                content = f'{{"name": "x", "generation": "{generation}"}}'.encode()
            return self.answer(200, content, **{"x-goog-generation": generation})

        def answer(self, status, content, **headers):
            self.send_response(status)
            tag = f'"{hashlib.sha256(content).hexdigest()}"'
            for name, value in {"Content-Length": str(len(content)), "ETag": tag, **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_):
            pass

    (tmp_path / "bucket").mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", refused, asked
    server.shutdown()
    server.server_close()


JOB = """
import sys
sys.path.append("tests")
import numpy as np
from batch_jobs import blocks
from dml_jax.batch import BatchError, map_batches
stop = int(sys.argv[3])
def progress(now):
    if now.rows >= stop: raise KeyboardInterrupt
try:
    print(map_batches(blocks, sys.argv[1], sys.argv[2], batch_size=8, progress=progress).resumed)
except KeyboardInterrupt:
    print("interrupted")
except BatchError as error:
    sys.exit(str(error))
"""


def job_on(url, out, server, stop=1000):
    """A job in a process of its own, as TensorStore reads once where buckets are."""
    settings = {"TENSORSTORE_GCS_HTTP_URL": server, "GOOGLE_AUTH_TOKEN_FOR_TESTING": "x"}
    line = [sys.executable, "-c", JOB, url, str(out), str(stop)]
    root = Path(__file__).parents[1]
    return subprocess.run(line, env=environment() | settings, capture_output=True, text=True, cwd=root, timeout=300)


@pytest.mark.parametrize("version", sampled([2, 3], [3]))
@pytest.mark.parametrize("scheme", sampled(["gs", "http"], ["gs"]))
def test_an_array_in_a_bucket_is_an_input(tmp_path, bucket, version, scheme):
    """A chunk of a bucket is asked for once, though batches share some."""
    server, refused, asked = bucket
    zarr_of(version)(tmp_path / "bucket", ARRAY)
    url, out = f"{'gs:/' if scheme == 'gs' else server}/bucket/in.zarr", tmp_path / "out.npy"
    stopped = job_on(url, out, server, stop=16)
    assert stopped.stdout == "interrupted\n", stopped.stderr
    asked.clear()
    done = job_on(url, out, server)
    assert int(done.stdout) >= 16, done.stderr
    assert np.load(out).tobytes() == blocks_oracle(ARRAY).tobytes()
    chunks = Counter(path for method, path in asked if method == "GET" and re.search(r"\d[./]\d[./]0[./]0$", path))
    assert {*chunks.values()} == {1}  # those that are left: how far the first run came, the machine decides
    refused.append(403)
    told = job_on(url, tmp_path / "out2.npy", server)
    assert told.returncode == 1
    assert f"{url}: an input cannot be read: " in told.stderr


# The command.


@pytest.mark.thinned(6)
@pytest.mark.parametrize("name", sorted({*STORED} - {"a list of files"}))
def test_the_command_takes_every_input(tmp_path, name):
    given = STORED[name](tmp_path, ARRAY)
    done = batch("depth_to_space", given, tmp_path / "out.npy", "--block-size", 2, "--dtype", "bfloat16")
    assert done.exit_code == 0, done.output
    assert np.load(tmp_path / "out.npy").tobytes() == blocks_oracle(ARRAY).tobytes()


@pytest.mark.exhaustive
def test_the_command_takes_shared_ones_too(tmp_path):
    table, indices = np.arange(12.0).reshape(4, 3), np.array([[0], [3], [2]])
    table_path = hdf5(tmp_path, table)
    given = ("gather", table_path, saved(tmp_path / "i.npy", indices), tmp_path / "out.npy", "--axis", 0)
    done = batch(*given, "--shared", "input")
    assert done.exit_code == 0, done.output
    assert np.load(tmp_path / "out.npy").tobytes() == table[indices].tobytes()


def test_the_command_tells_a_missing_file_and_leaves_nothing(tmp_path):
    library("tensorstore")
    told = batch("depth_to_space", tmp_path / "none.zarr", tmp_path / "out.npy", "--block-size", 2)
    assert (told.exit_code, told.stdout) == (1, "")
    assert told.stderr == f"error: {tmp_path}/none.zarr: an input cannot be read: No such file or directory\n"
    assert names(tmp_path) == []
