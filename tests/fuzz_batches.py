"""Mutated .npy files, and mutated records of batches: each is read as NumPy reads it, continued right, or refused."""

import io
import itertools
import json
import re
import tempfile
import warnings
import zlib
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np

from dml_jax import ConstraintError
from dml_jax.array_models.npy_inputs_and_outputs import read_array as read_input
from dml_jax.batch import BatchError, NpyFile, map_batches
from dml_jax.batch.npy_file import load_whole
from dml_jax.dxdispatch.model_file import read_buffer
from dml_jax.npy_format import read_array

Rng = np.random.Generator

NUMBERS = [b"0", b"-1", b"1", b"3", b"65", b"1e9", b"True", b"9" * 5000]
NUMBERS += [b"%d" % (2**n + more) for n in (31, 32, 40, 63) for more in (-1, 0)]


# .npy files.

TYPES = ["<f4", ">f4", "|i1", "<i8", "<f2", "|b1", "<c8", "|V2"]
SHAPES = [(), (0,), (3,), (2, 3), (4, 0), (1, 2, 2)]
# What a header may say instead.
DESCRS = ["'<U0'", "'|O'", "'<M8[ns]'", "'|S2147483647'", "[('a', '<f4')]", "'|V0'", "'|V4'", "'f4,f4'", "'\x1b'"]
WORDS = {
    rb"'[<>|][a-zA-Z]\d+'": [descr.encode() for descr in DESCRS],
    rb"\(.*\)": [b"(-1,)", b"(4, 0)", b"(1099511627776, 0)", b"(4611686018427387904, 0)", b"(0, 4294967296)"],
    rb"(?:True|False)": [b"True", b"False", b"None", b"0"],
    rb"'(?:descr|shape|fortran_order)'": [b"1", b"'shape'", b"'descr'", b'"shape"', b"u'descr'"],
    rb"[{}(),:]": [b"{", b"}", b"(", b")", b",", b"", b"((((", b"-" * 3000],
}


def npy_file(rng: Rng, folder: Path) -> None:
    """Reads a mutated .npy file in every way that the library does."""
    content = _npy(rng)
    path = folder / "x.npy"
    path.write_bytes(content)
    with suppress(ConstraintError):
        found = read_array(io.BytesIO(content))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers as Python 2 wrote them
            expected = np.load(io.BytesIO(content))
        assert (found.dtype, found.shape, found.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())
    for read in (
        lambda: read_input("x", path),
        lambda: read_buffer({"initialValues": {"sourcePath": path.name}}, folder),
        lambda: load_whole(NpyFile(path)),
        lambda: map_batches(lambda x: x, path, folder / "out.npy", overwrite=True),
    ):
        with suppress(ConstraintError, BatchError):
            read()


def _npy(rng: Rng) -> bytes:
    file, shape = io.BytesIO(), _pick(rng, SHAPES)
    array = np.zeros(shape, _pick(rng, TYPES), _pick(rng, "CF"))
    np.lib.format.write_array(file, array, _pick(rng, [(1, 0), (2, 0), (3, 0)]))
    content = file.getvalue()
    if rng.random() < 0.5:
        return _damaged(rng, content)
    start = content.index(b"{")
    head = content[start : content.index(b"\n", start) + 1]
    changed = head
    for _ in range(rng.integers(1, 3)):
        changed = _replaced(rng, changed, _pick(rng, list(WORDS)))
    length = len(changed) if rng.random() < 0.9 else int(rng.integers(0, 2**16))
    width = 2 if content[6] == 1 else 4
    return content[:8] + length.to_bytes(width, "little") + changed + content[start + len(head) :]


def _replaced(rng: Rng, text: bytes, pattern: bytes) -> bytes:
    """The text with one occurrence of a pattern replaced by something of its kind."""
    found = list(re.finditer(pattern, text))
    if not found:
        return text
    one = _pick(rng, found)
    return text[: one.start()] + _pick(rng, WORDS[pattern]) + text[one.end() :]


# Records of batches.

ROWS = 6
ARRAY = np.arange(ROWS * 2, dtype=np.int32).reshape(ROWS, 2)
ODD = [None, True, -1, -200, 2, ROWS, ROWS + 1, 2**70, 1.5, float("nan"), "", "x\0\x1b[31m\ud800", [], [1, 2], {}]


def doubled(x):
    return x + x


class Enough(Exception):  # noqa: N818  # no error
    """A process does not wait for another one."""


def batch_record(rng: Rng, folder: Path) -> None:
    """Continues a job of which the record, or the partial output, was mutated; alone, or as process 0 of 2."""
    out, share = folder / "o.npy", (0, int(rng.integers(1, 3)))
    facts, partial = _interrupted(share)
    lines = [dict(line) for line in facts]
    is_forged = rng.random() < 0.5
    if is_forged:
        _forge(rng, lines)
    record = b"".join(map(_sealed, lines))
    if not is_forged and rng.random() < 0.6:
        record = _damaged(rng, record)
    else:
        partial = _damaged_partial(rng, partial)
    names = [f"o.npy.progress.{i}" for i in range(2)] if share[1] > 1 else ["o.npy.progress"]
    (folder / _pick(rng, names)).write_bytes(record)
    (folder / "o.npy.partial").write_bytes(partial)
    try:
        _call(out, share)
    except (BatchError, Enough):
        map_batches(doubled, ARRAY, out, batch_size=1, restart=True)  # no lock is held any more
        is_forged = False
    assert is_forged or np.array_equal(np.load(out), ARRAY + ARRAY)
    assert [path.name for path in folder.iterdir()] == ["o.npy"]


def _call(out: Path, share: tuple[int, int]) -> None:
    calls = itertools.count()

    def progress(now):
        if share[1] > 1 and (now.rows == now.total or next(calls) > 2 * ROWS):
            raise Enough

    map_batches(doubled, ARRAY, out, batch_size=1, share=share, progress=progress)


@cache
def _interrupted(share: tuple[int, int]) -> tuple[list[dict], bytes]:
    """The lines of the record, and the partial output, of a job whose first two rows are written."""

    def stop(now):
        if now.rows >= 2:
            raise Enough

    with tempfile.TemporaryDirectory() as name:
        out = Path(name, "o.npy")
        with suppress(Enough):
            map_batches(doubled, ARRAY, out, batch_size=1, share=share, progress=stop, checkpoint_seconds=1e6)
        (record,), partial = Path(name).glob("*.progress*"), Path(name, "o.npy.partial").read_bytes()
        first = json.loads(record.read_text().splitlines()[0])
    token = first["token"][:16] + "0" * 16  # the rest is another one every time, and a case must be the same
    head = partial[: -ARRAY.nbytes].replace(first["token"].encode(), token.encode())
    rows = np.concatenate([ARRAY[:2] + ARRAY[:2], 0 * ARRAY[2:]]).tobytes()
    return [{"job": first["job"], "token": token}, {"rows": 1}, {"rows": 2}], head + rows


def _sealed(facts: dict) -> bytes:
    """A line with its checksum, as a job writes it."""
    return json.dumps({**facts, "crc32": zlib.crc32(json.dumps(facts).encode())}).encode() + b"\n"


def _forge(rng: Rng, lines: list[dict]) -> None:
    """Changes lines so that their checksums are right."""
    for _ in range(rng.integers(1, 3)):
        line = _pick(rng, lines)
        where = line["job"] if "job" in line and isinstance(line["job"], dict) and rng.random() < 0.5 else line
        where[_pick(rng, [*where, "rows", "token", "job", "finished"])] = _pick(rng, ODD)


def _damaged_partial(rng: Rng, partial: bytes) -> bytes:
    """Another size, or another token; rows that somebody has changed are beyond what a record can tell."""
    if rng.random() < 0.5:
        return _damaged(rng, partial[:48]) + partial[48:]
    return (partial + bytes(64))[: rng.integers(0, len(partial) + 64)]


# Any bytes.


def _damaged(rng: Rng, content: bytes) -> bytes:
    """The bytes after one to three changes: a bit, a byte, a piece, a number, or the end."""
    for _ in range(rng.integers(1, 4)):
        content = _pick(rng, CHANGES)(rng, content)
    return content


def _flip(rng: Rng, content: bytes) -> bytes:
    return _put(content, rng.integers(0, len(content) + 1), lambda byte: byte ^ 1 << int(rng.integers(0, 8)))


def _byte(rng: Rng, content: bytes) -> bytes:
    return _put(content, rng.integers(0, len(content) + 1), lambda _: int(rng.integers(0, 256)))


def _put(content: bytes, at: int, change) -> bytes:
    return content[:at] + bytes(map(change, content[at : at + 1])) + content[at + 1 :]


def _cut(rng: Rng, content: bytes) -> bytes:
    return content[: rng.integers(0, len(content) + 1)]


def _splice(rng: Rng, content: bytes) -> bytes:
    """Puts a piece of it over, or between, others."""
    start, end, at = (int(rng.integers(0, len(content) + 1)) for _ in range(3))
    piece = content[start:end]
    return content[:at] + piece + content[at + len(piece) * int(rng.integers(0, 2)) :]


def _number(rng: Rng, content: bytes) -> bytes:
    found = list(re.finditer(rb"\d+", content))
    if not found:
        return content
    one = _pick(rng, found)
    return content[: one.start()] + _pick(rng, NUMBERS) + content[one.end() :]


CHANGES = (_flip, _byte, _cut, _splice, _number)


def _pick(rng: Rng, values):
    return values[rng.integers(0, len(values))]
