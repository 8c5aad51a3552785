"""Compiled operators as bytes: a zip file of the descriptor, what jax.export makes of both forms, and owned buffers."""

import io
import json
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..desc_json import desc_from_json, desc_to_json
from ..errors import ConstraintError
from .program import Program

__all__ = ["Executables", "dump", "jitted", "load"]

# A program without and with a bound output, jitted.
Executables = tuple[Any, Any]
VERSION = 1


def jitted(fresh: Callable[..., jax.Array], bound: Callable[..., jax.Array]) -> Executables:
    """Jits both forms; the bound output is given away, even where its content is not needed."""
    return jax.jit(fresh), jax.jit(bound, donate_argnums=0, keep_unused=True)


def dump(
    program: Program, owned: Mapping[str, jax.Array], executables: Executables, platforms: Sequence[str] | None
) -> bytes:
    """Serialises a program, both forms of it and its owned buffers.

    Raises:
      ConstraintError: no sequence of known platforms, or a missing package.
    """
    platforms = None if platforms is None else _known(platforms)
    inputs = program.input_structs
    head = {"version": VERSION, "words": program.words, "desc": desc_to_json(program.desc)}
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        file.writestr(HEAD, json.dumps(head))
        for name, executable, out in zip(FORMS, executables, ([], [program.stored_struct]), strict=True):
            file.writestr(name, _exported(executable, [*out, *inputs], platforms))
        for name, array in owned.items():
            with file.open(f"{name}.npy", "w") as member:
                np.save(member, np.asarray(array), allow_pickle=False)
    return content.getvalue()


def _known(platforms: Any) -> list[str]:
    names = list(platforms) if isinstance(platforms, Iterable) and not isinstance(platforms, str) else []
    if names and all(name in PLATFORMS for name in names):
        return names
    raise ConstraintError(f"platforms must be a list of some of {', '.join(PLATFORMS)}, but it is {platforms!r}")


PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
HEAD = "operator.json"
FORMS = ("fresh.jax_export", "bound.jax_export")


def _exported(executable: Any, arguments: Sequence[Any], platforms: Sequence[str] | None) -> bytes:
    try:
        return bytes(jax.export.export(executable, platforms=platforms)(*arguments).serialize())
    except ImportError as error:
        fix = "pip install 'dml_jax[export]' installs it"
        raise ConstraintError(f"jax.export needs the package flatbuffers: {error}; {fix}") from None


def load(content: bytes) -> tuple[Program, dict[str, np.ndarray], Executables]:
    """Restores what `dump` made.

    Raises:
      ConstraintError: something else, damaged, or for none of this process's platforms.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            members = {name: file.read(name) for name in file.namelist()}
        head = json.loads(members.pop(HEAD))
        if head["version"] != VERSION:
            raise ConstraintError(f"its version is {head['version']}, and {VERSION} is known")
        program = Program(desc_from_json(head["desc"]), head["words"] is True)
        fresh, bound = (jax.export.deserialize(bytearray(members.pop(name))) for name in FORMS)
        owned = {name.removesuffix(".npy"): np.load(io.BytesIO(member)) for name, member in members.items()}
        _check_forms(program, fresh, bound)
    except Exception as error:
        raise ConstraintError(f"the content is no serialised operator: {error}") from None
    here = {jax.export.default_export_platform(), "cpu"}
    if here.isdisjoint(fresh.platforms):
        raise ConstraintError(f"the serialised operator is for {fresh.platforms}, and this process has {sorted(here)}")
    return program, owned, _restored(program, fresh, bound)


def _check_forms(program: Program, fresh: jax.export.Exported, bound: jax.export.Exported) -> None:
    """Compares what the exported forms take with what the descriptor says."""
    for form, outputs in ((fresh, []), (bound, [program.stored_struct])):
        taken = [(aval.shape, aval.dtype) for aval in form.in_avals]
        if taken != [(struct.shape, struct.dtype) for struct in (*outputs, *program.input_structs)]:
            raise ConstraintError(f"its descriptor and its exported forms differ: these take {taken}")


def _restored(program: Program, fresh: jax.export.Exported, bound: jax.export.Exported) -> Executables:
    """Both forms for buffers of any length: exported ones take the least lengths only."""
    lengths, made = [struct.size for struct in program.input_structs], program.stored_struct

    def cut(buffers: Sequence[jax.Array]) -> list[jax.Array]:
        return [buffer[:length] for buffer, length in zip(buffers, lengths, strict=True)]

    def write(out: jax.Array, *buffers: jax.Array) -> jax.Array:
        if out.shape == made.shape:
            return bound.call(out, *cut(buffers))
        head = lax.pad(out, jnp.zeros((), out.dtype), [(0, made.size - out.size, 0)])  # longer, or cut
        head = bound.call(head.reshape(made.shape), *cut(buffers)).ravel()
        return lax.dynamic_update_slice(out, head[: out.size], (0,))

    return jitted(lambda *buffers: fresh.call(*cut(buffers)), write)
