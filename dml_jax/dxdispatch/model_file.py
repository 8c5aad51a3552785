"""`Model`: a model file, read and checked as a whole. Every fault is listed; no buffer is made, no file written."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.json_fields import as_object
from ..core.structs.computation import Computation
from ..core.structs.feature_level import NEWEST
from ..core.structs.operator_desc import OperatorDesc
from ..desc_json import is_graph, nodes_of, read_desc
from ..errors import ConstraintError, Faults
from . import json_text as text
from .commands import Command, Dispatchable, Print, WriteFile, read_bindings, read_command
from .faults import Fault, ModelError
from .json_fields import get, only
from .json_line_numbers import line_of, lines_of
from .memory_checks import check_memory
from .nchw_images import PICTURES
from .onnx_dispatches import OnnxDispatch
from .onnx_models import OnnxModel, read_onnx
from .output_files import Targets
from .resources import Buffer, read_buffer
from .serialized_graphs import read_serialized


@dataclass(frozen=True)
class Model:
    """A model without faults.

    Args:
      path: the file.
      buffers: by name.
      dispatchables: by name.
      commands: in order.
      forms: the commands as they stand in the file.
    """

    path: Path
    buffers: Mapping[str, Buffer]
    dispatchables: Mapping[str, Dispatchable | OnnxModel]
    commands: tuple[Command, ...]
    forms: tuple[Any, ...]


def read_model(
    path: Path,
    *,
    feature_level: Any = NEWEST,
    output: Path | None = None,
    sources: Path | None = None,
    writes: bool = True,
) -> Model:
    """Reads and checks a model file.

    Args:
      path: the file.
      feature_level: the level whose rules hold.
      output: the folder that writeFile may write to; the model's own by default.
      sources: the folder that every sourcePath is relative to; the model's own by default.
      writes: whether its files will be written, so that their folder must be writable.

    Raises:
      ModelError: with every fault, in the order of the file.
    """
    faults, folder = Faults(), sources or path.parent
    root = _read_root(path, faults)
    buffers: dict[str, Buffer | None] = dict.fromkeys(root["resources"])
    for name in buffers:
        with faults.at(f"resource {name!r}"):
            buffers[name] = read_buffer(root["resources"][name], folder)
    dispatchables = _read_dispatchables(root, folder, buffers, feature_level, faults)
    read = [b.initial.source for b in buffers.values() if b]
    read += [file for d in dispatchables.values() if d for file in d.files]
    targets = Targets(output or path.parent, [path, *read])
    commands = []
    for i, json in enumerate(root["commands"]):
        with faults.at(_place(i, json)):
            command = read_command(json, buffers, dispatchables)
            if writes and isinstance(command, WriteFile):
                targets.add(command.target)
            commands.append(command)
    if not faults.errors:
        _refuse_early_reads(commands, buffers, faults)
    with faults.at():
        check_memory(buffers, dispatchables, commands)
    if not faults.errors:
        _look_into_pictures(buffers, faults)
    if faults.errors:
        raise ModelError(path, _with_lines(path, root, faults.errors))
    return Model(path, buffers, dispatchables, tuple(commands), tuple(root["commands"]))  # type: ignore[arg-type]  # no fault, so none is None


def _read_root(path: Path, faults: Faults) -> dict[str, Any]:
    """The sections of the file; a missing or faulty one is empty."""
    root: dict[str, Any] = {"resources": {}, "dispatchables": {}, "commands": []}
    json: Mapping[str, Any] = {}
    with faults.at():
        read = as_object("a model", text.parse(text.read_text(path)))
        if is_graph(read):
            rule = f"a model must be an object of {', '.join(root)}"
            raise ConstraintError(f"{rule}, but it is a graph, which `dml-jax batch graph` and desc_from_json take")
        json = read
        only(json, ("$schema", *root))
    for section in ("resources", "dispatchables"):
        with faults.at():
            root[section] = as_object(repr(section), json.get(section, {}))
    with faults.at():
        root["commands"] = get(json, "commands", list, [])
        if not root["commands"] and (json or not faults.errors):  # else nothing is known of them
            raise ConstraintError("'commands' is missing or empty: the model does nothing")
    return root


def _with_lines(path: Path, root: Mapping[str, Any], errors: Sequence[ConstraintError]) -> list[Fault]:
    """The faults, each with the line of its place."""
    starts: dict[str, tuple[str | int, ...]] = {
        **{f"resource {name!r}": ("resources", name) for name in root["resources"]},
        **{f"dispatchable {name!r}": ("dispatchables", name) for name in root["dispatchables"]},
        **{
            place: ("commands", i)
            for i, json in enumerate(root["commands"])
            for place in (f"command {i}", _place(i, json))
        },
    }
    placed = {error.where[0] for error in errors if error.where}
    lines = lines_of(text.read_text(path)) if placed & starts.keys() else {}
    return [
        Fault.of(error, line_of(lines, starts[error.where[0]], error.where[1:], error.what))
        if error.where and error.where[0] in starts
        else Fault.of(error)
        for error in errors
    ]


def _place(i: int, json: Any) -> str:
    """A command by its number and, where it has one, its type."""
    kind = json.get("type") if isinstance(json, Mapping) else None
    return f"command {i} ({kind})" if isinstance(kind, str) and len(kind) < 20 else f"command {i}"


def _read_dispatchables(
    root: Mapping[str, Any], folder: Path, buffers: Mapping[str, Buffer | None], feature_level: Any, faults: Faults
) -> dict[str, Dispatchable | OnnxModel | None]:
    """Reads the dispatchables: graphs last, as their nodes may name others; faults come in the order of the file."""
    forms = root["dispatchables"]
    graphs = {name: form for name, form in forms.items() if is_graph(form)}
    dispatched = [json.get("dispatchable") for json in root["commands"] if isinstance(json, Mapping)]
    nodes = {node for form in graphs.values() for node in nodes_of(form)}.difference(filter(_is_name, dispatched))
    dispatchables: dict[str, Dispatchable | OnnxModel | None] = dict.fromkeys(forms)
    in_files = {name: _IN_FILES[kind] for name, form in forms.items() if (kind := _kind(form)) in _IN_FILES}
    operators: dict[str, OperatorDesc[Any] | None] = dict.fromkeys(forms.keys() - graphs.keys() - in_files.keys())
    of_each = {name: Faults() for name in forms}
    for name, read in in_files.items():
        with of_each[name].at():
            dispatchables[name] = read(forms[name], folder, feature_level)
    for name in (*operators, *graphs):
        with of_each[name].at():
            desc = _read_desc(forms[name], feature_level, operators)
            if isinstance(desc, OperatorDesc):
                operators[name] = desc
            dispatchables[name] = _read_dispatchable(desc, forms[name], buffers, is_node=name in nodes)
    for name, own in of_each.items():
        for error in own.errors:
            faults.add(error, f"dispatchable {name!r}")
    return dispatchables


# Dispatchables that lie in files of their own.
_IN_FILES: Mapping[str, Callable[..., Dispatchable | OnnxModel]] = {
    "dmlserializedgraph": read_serialized,
    "onnx": read_onnx,
}


def _kind(form: Any) -> str:
    """The type of a dispatchable, in lower case."""
    kind = form.get("type") if isinstance(form, Mapping) else None
    return kind.lower() if isinstance(kind, str) else ""


def _is_name(json: Any) -> bool:
    return isinstance(json, str)


def _read_desc(json: Any, feature_level: Any, operators: Mapping[str, OperatorDesc[Any] | None]) -> Computation[Any]:
    faults = Faults()
    desc = read_desc(json, faults, feature_level, operators)
    faults.finish()
    assert desc is not None
    return desc


def _read_dispatchable(
    desc: Computation[Any], json: Mapping[str, Any], buffers: Mapping[str, Buffer | None], is_node: bool
) -> Dispatchable:
    bindings = json.get("bindings", {})
    owned = {} if is_node and not bindings else read_bindings(desc, bindings, buffers, owned=True)
    return Dispatchable(desc, owned, is_node)


def _refuse_early_reads(commands: Sequence[Command], buffers: Mapping[str, Buffer | None], faults: Faults) -> None:
    """A deferred buffer has no content before a dispatch gives it one."""
    empty = {name for name, buffer in buffers.items() if buffer and buffer.is_deferred}
    for i, command in enumerate(commands):
        if isinstance(command, OnnxDispatch):
            empty -= {bound.buffer for bound in command.outputs.values()}
        elif isinstance(command, Print | WriteFile) and command.buffer in empty:
            text = f"{command.buffer!r} is deferred, and no dispatch before this command gives it an output"
            faults.add(ConstraintError(text), f"command {i}")


def _look_into_pictures(buffers: Mapping[str, Buffer | None], faults: Faults) -> None:
    """Decodes every picture once: only that shows whether it is damaged."""
    for name, buffer in buffers.items():
        if buffer and buffer.initial.source and buffer.initial.source.suffix.lower() in PICTURES:
            with faults.at(f"resource {name!r}"):
                buffer.make()
