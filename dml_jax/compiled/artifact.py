"""Artifacts of compiled operators: a zip file of the descriptor, two programs of jax.export, and owned buffers."""

import io
import json
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core.tensors.data_type import DataType
from ..core.tensors.int4_packing import as_bytes
from ..desc_json import desc_from_json, desc_to_json
from ..errors import ConstraintError
from ..npy_format import read_array
from .program import Program

# A program without and with bound outputs, jitted.
Executables = tuple[Any, Any]
VERSION = 2


def jit_programs(fresh: Callable[..., Any], bound: Callable[..., Any], outputs: int) -> Executables:
    """Jits both programs; the bound outputs, which come first, are donated even if their content is not needed."""
    return jax.jit(fresh), jax.jit(bound, donate_argnums=range(outputs), keep_unused=True)


def dump(
    program: Program, owned: Mapping[str, jax.Array], executables: Executables, platforms: Sequence[str] | None
) -> bytes:
    """Serialises an operator: its descriptor, both executables and its owned buffers.

    Raises:
      ConstraintError: no sequence of known platforms, or a missing package.
    """
    platforms = None if platforms is None else _check_platforms(platforms)
    inputs = program.input_structs
    head = {"version": VERSION, "words": program.words, "flat": program.flat, "desc": desc_to_json(program.desc)}
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        file.writestr(HEAD, json.dumps(head))
        for name, executable, outs in zip(MEMBERS, executables, ([], program.stored_structs), strict=True):
            file.writestr(name, _export(executable, [*outs, *inputs], platforms))
        for name, array in owned.items():
            with file.open(_member(name), "w") as member:
                np.save(member, _as_storable(np.asarray(array)), allow_pickle=False)
    return content.getvalue()


def _as_storable(array: np.ndarray) -> np.ndarray:
    """Returns an array that a .npy file can hold; elements of 4 bits become bytes, which `CompiledOperator` takes."""
    return as_bytes(array) if DataType.of(array.dtype).bits < 8 else array


def _member(port: str) -> str:
    """Returns the name of the file of an owned buffer; it is quoted, because inputs of graphs may have any name."""
    return f"{quote(port, safe='[]', errors='surrogatepass')}.npy"


def _check_platforms(platforms: Any) -> list[str]:
    names = list(platforms) if isinstance(platforms, Iterable) and not isinstance(platforms, str) else []
    if names and all(name in PLATFORMS for name in names):
        return names
    raise ConstraintError(f"platforms must be a list of some of {', '.join(PLATFORMS)}, but it is {platforms!r}")


PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
HEAD = "operator.json"
MEMBERS = ("fresh.jax_export", "bound.jax_export")


def _export(executable: Any, arguments: Sequence[Any], platforms: Sequence[str] | None) -> bytes:
    try:
        return bytes(jax.export.export(executable, platforms=platforms)(*arguments).serialize())
    except ImportError as error:
        fix = "pip install '.[export]' in a clone installs it"
        raise ConstraintError(f"jax.export needs the package flatbuffers: {error}; {fix}") from None


def load(content: bytes) -> tuple[Program, dict[str, np.ndarray], Executables]:
    """Restores what `dump` made.

    Raises:
      ConstraintError: something else, damaged, or for none of this process's platforms.
    """
    try:
        members = _members(content)
        head = json.loads(members.pop(HEAD))
        if head["version"] != VERSION:
            raise ConstraintError(f"its version is {head['version']}, and {VERSION} is known")
        program = Program(desc_from_json(head["desc"]), head["words"] is True, head["flat"] is True)
        fresh, bound = (jax.export.deserialize(bytearray(members.pop(name))) for name in MEMBERS)
        ports = {_member(port): port for port in program.inputs}
        owned = {ports.get(name, name): read_array(io.BytesIO(member)) for name, member in members.items()}
        _check_exported(program, fresh, bound)
    except Exception as error:
        raise ConstraintError(f"the content is not a serialised operator: {error}") from None
    here = {jax.export.default_export_platform(), "cpu"}
    if here.isdisjoint(fresh.platforms):
        raise ConstraintError(f"the serialised operator is for {fresh.platforms}, and this process has {sorted(here)}")
    return program, owned, _restore(program, fresh, bound)


def _members(content: bytes) -> dict[str, bytes]:
    """Reads the files of a zip file; refuses, before it reads, files that claim more bytes than the zip file has."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        if any(member.compress_type != zipfile.ZIP_STORED for member in file.infolist()):
            raise ConstraintError("its members are compressed, and those of one are stored as they are")
        claimed = sum(member.file_size for member in file.infolist())
        if claimed > len(content):
            raise ConstraintError(f"its members claim {claimed} bytes, and it has {len(content)}")
        return {name: file.read(name) for name in file.namelist()}


def _check_exported(program: Program, fresh: jax.export.Exported, bound: jax.export.Exported) -> None:
    """Checks that the exported programs take the buffers of the descriptor."""
    for exported, outputs in ((fresh, []), (bound, program.stored_structs)):
        taken = [(aval.shape, aval.dtype) for aval in exported.in_avals]
        if taken != [(struct.shape, struct.dtype) for struct in (*outputs, *program.input_structs)]:
            raise ConstraintError(f"its descriptor and its exported programs differ: these take {taken}")


def _restore(program: Program, fresh: jax.export.Exported, bound: jax.export.Exported) -> Executables:
    """Returns both programs for buffers of any length; exported ones take the least lengths only."""
    lengths, structs = [struct.size for struct in program.input_structs], program.stored_structs

    def cut(buffers: Sequence[jax.Array]) -> list[jax.Array]:
        return [buffer[:length] for buffer, length in zip(buffers, lengths, strict=True)]

    def head(out: jax.Array, like: jax.ShapeDtypeStruct) -> jax.Array:
        if out.shape == like.shape:
            return out
        padded = lax.pad(out, jnp.zeros((), out.dtype), [(0, like.size - out.size, 0)])  # longer, or cut
        return padded.reshape(like.shape)

    def whole(out: jax.Array, like: jax.ShapeDtypeStruct, written: jax.Array) -> jax.Array:
        if out.shape == like.shape:
            return written
        return lax.dynamic_update_slice(out, written.ravel()[: out.size], (0,))

    def write(*buffers: jax.Array) -> list[jax.Array]:
        outs, inputs = buffers[: len(structs)], buffers[len(structs) :]
        written = jax.tree.leaves(bound.call(*map(head, outs, structs), *cut(inputs)))
        return [whole(*each) for each in zip(outs, structs, written, strict=True)]

    return jit_programs(lambda *buffers: fresh.call(*cut(buffers)), write, len(structs))
