"""DirectML's documented examples as model files: one per struct in `docs/models/`, written by this program.

    python tests/example_models.py [--check]

With --check nothing is written: it fails if a file is not what would be written. Files without its first line are
written by hand.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from catalogue_cases import STRUCTS
from model_cases import FOLDER

from dml_jax import desc_to_json

HEAD = "// DML_{}_OPERATOR_DESC: its documented examples. Written by tests/example_models.py.\n"
MARK = HEAD.rpartition(".")[0].rpartition(". ")[2]


def flat(numbers, ports):
    """The numbers of every tensor, in its type."""
    return [np.array(list(n), tensor.dtype) for n, tensor in zip(numbers, ports.values(), strict=True)]


def printed(numbers):
    """The printed lines of a run."""
    return [f"{n:g}" if isinstance(n, float) else str(n) for n in numbers.tolist()]


def model_of(example, prefix=""):
    """A model with a resource per tensor, called as its port is, that prints the outputs."""
    desc = example.desc
    inputs, outputs = flat(example.inputs, desc.input_ports()), desc.output_ports()
    initial = dict(zip(desc.input_ports(), (numbers.tolist() for numbers in inputs), strict=True))
    initial |= {port: {"valueCount": tensor.element_span, "value": 0} for port, tensor in outputs.items()}
    bindings = {}
    for port in desc.ports():
        field, name = desc.shown(port).partition("[")[0], f"{prefix}{port}"
        bindings[field] = [*bindings.get(field, []), name] if "[" in port else name
    return {
        "resources": {
            f"{prefix}{port}": {"initialValuesDataType": tensor.data_type.name, "initialValues": initial[port]}
            for port, tensor in desc.ports().items()
        },
        "dispatchables": {f"{prefix}example": desc_to_json(desc)},
        "commands": [
            {"type": "dispatch", "dispatchable": f"{prefix}example", "bindings": bindings},
            *({"type": "print", "resource": f"{prefix}{port}"} for port in outputs),
        ],
    }


def text_of(struct):
    """A file with all examples of a struct, what they print as comments."""
    several = len(struct.examples) > 1
    models = [model_of(example, f"{i} " if several else "") for i, example in enumerate(struct.examples, 1)]
    parts = [_object(part, [model[part] for model in models]) for part in ("resources", "dispatchables")]
    commands = [line for each in zip(struct.examples, models, strict=True) for line in _commands(*each)]
    return HEAD.format(struct.name) + "{\n" + "".join(parts) + '  "commands": [\n' + _lines(commands) + "  ]\n}\n"


def _object(name: str, parts: Sequence[Mapping[str, object]]) -> str:
    entries = [f"    {json.dumps(key)}: {json.dumps(value)}" for part in parts for key, value in part.items()]
    return f'  "{name}": {{\n' + _lines(entries) + "  },\n"


def _commands(example, model):
    """The dispatch, then each print below what it prints."""
    wanted = iter(flat(example.outputs, example.desc.output_ports()))
    for command in model["commands"]:
        comment = f"    // {', '.join(printed(next(wanted)))}\n" if command["type"] == "print" else ""
        yield f"{comment}    {json.dumps(command)}"


def _lines(entries):
    return ",\n".join(entries) + "\n"


def files():
    """Every file's name and text, but of structs whose examples are written by hand."""
    by_hand = {path.stem for path in FOLDER.glob("*.json") if MARK not in path.read_text()}
    names = {name: name.lower() for name in STRUCTS}
    return {
        f"{stem}.json": text_of(STRUCTS[name])
        for name, stem in names.items()
        if stem not in by_hand and not any(other.startswith(f"{stem}_column") for other in by_hand)
    }


def differing(folder, wanted):
    """The names of files that are absent from a folder, differ there, or are of no struct."""
    kept = {path.name: path.read_text() for path in folder.glob("*.json") if MARK in path.read_text()}
    return sorted(name for name in kept | wanted if kept.get(name) != wanted.get(name))


def main(argv: Sequence[str] | None = None, folder: Path = FOLDER) -> None:
    """Writes the files into a folder, or checks those that are there."""
    parser = argparse.ArgumentParser(description="Writes DirectML's documented examples as model files.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file would differ")
    options = parser.parse_args(argv)
    wanted = files()
    if not options.check:
        for name, text in wanted.items():
            (folder / name).write_text(text)
            sys.stdout.write(f"wrote {folder / name}\n")
    elif names := differing(folder, wanted):
        sys.exit(f"not what would be written: {', '.join(names)}")


if __name__ == "__main__":
    main()
