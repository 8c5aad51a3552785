"""`Model`: a model file, read and checked as a whole. Every fault is listed; no buffer is made, no file written."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..compiler import compile_operator
from ..descriptors.operator import NEWEST
from ..descriptors.registry import desc_from_json, find_faults
from ..errors import ConstraintError
from . import text
from .buffers import Buffer, read_buffer
from .commands import Command, Dispatchable, WriteFile, read_bindings, read_command
from .fields import SkippedError, as_object, get, only
from .memory import check_memory
from .output import resolve_target

__all__ = ["Fault", "Model", "ModelError", "read_model"]


@dataclass(frozen=True)
class Fault:
    """One thing wrong with a model: where, such as "dispatchable 'depth'", and what."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


class ModelError(ConstraintError):
    """A model file has faults; `faults` lists all of them."""

    def __init__(self, path: Path, faults: list[Fault]):
        super().__init__("\n".join(f"{path}: {fault}" for fault in faults))
        self.path, self.faults = path, faults


@dataclass(frozen=True)
class Model:
    """A model without faults."""

    path: Path
    buffers: Mapping[str, Buffer]
    dispatchables: Mapping[str, Dispatchable]
    commands: tuple[Command, ...]


class _Faults(list[Fault]):
    @contextmanager
    def at(self, where: str) -> Iterator[None]:
        """Keeps what goes wrong inside the block as a fault of `where`."""
        try:
            yield
        except (ConstraintError, NotImplementedError) as error:
            self.append(Fault(where, str(error)))
        except SkippedError:
            pass


def read_model(path: Path, *, feature_level: Any = NEWEST, output: Path | None = None, to_run: bool = False) -> Model:
    """Reads and checks a model file.

    Args:
      path: the file.
      feature_level: the level whose rules hold.
      output: the folder that writeFile may write to; the model's own by default.
      to_run: whether it is a fault to describe what cannot be executed yet.

    Raises:
      ModelError: with every fault, in the order of the file.
    """
    faults = _Faults()
    root: Mapping[str, Any] = {}
    with faults.at(""):
        root = _read_root(path)
    buffers: dict[str, Buffer | None] = dict.fromkeys(root.get("resources", {}))
    for name in buffers:
        with faults.at(f"resource {name!r}"):
            buffers[name] = read_buffer(root["resources"][name], path.parent)
    dispatchables: dict[str, Dispatchable | None] = dict.fromkeys(root.get("dispatchables", {}))
    for name in dispatchables:
        json, where = root["dispatchables"][name], f"dispatchable {name!r}"
        found = find_faults(json, feature_level)
        faults += [Fault(where, str(error)) for error in found]
        if not found:
            with faults.at(where):
                dispatchables[name] = _read_dispatchable(json, buffers, to_run)
    sources = _sources(path, root)
    commands = []
    for i, json in enumerate(root.get("commands", ())):
        with faults.at(f"command {i}"):
            command = read_command(json, buffers, dispatchables)
            if isinstance(command, WriteFile):
                resolve_target(command.target, output or path.parent, sources)
            commands.append(command)
    with faults.at(""):
        check_memory(buffers, dispatchables)
    if faults:
        raise ModelError(path, faults)
    return Model(path, buffers, dispatchables, tuple(commands))  # type: ignore[arg-type]  # no fault, so none is None


def _read_root(path: Path) -> Mapping[str, Any]:
    try:
        content = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConstraintError(f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConstraintError("not JSON: it is no UTF-8 text") from None
    root = as_object("a model", text.parse(content))
    only(root, ("$schema", "resources", "dispatchables", "commands"))
    for section in ("resources", "dispatchables"):
        as_object(repr(section), root.get(section, {}))
    if not get(root, "commands", list, []):
        raise ConstraintError("'commands' is missing or empty: the model does nothing")
    return root


def _read_dispatchable(json: Mapping[str, Any], buffers: Mapping[str, Buffer | None], to_run: bool) -> Dispatchable:
    desc = desc_from_json(json)
    if to_run:
        compile_operator(desc)
    return Dispatchable(desc, read_bindings(desc, json.get("bindings", {}), buffers, owned=True))


def _sources(path: Path, root: Mapping[str, Any]) -> list[Path]:
    """The files that the model is made of, which it must not write over."""
    values = (r.get("initialValues") for r in root.get("resources", {}).values() if isinstance(r, Mapping))
    names = (v.get("sourcePath") for v in values if isinstance(v, Mapping))
    return [path, *(path.parent / name for name in names if isinstance(name, str))]
