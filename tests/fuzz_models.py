"""Mutated serialized graphs, model files, descriptors and artifacts: each is refused, or read, and run if small."""

from __future__ import annotations

import copy
import io
import json
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
from catalogue_cases import DESCS, STRUCTS
from graph_cases import alone
from graph_draws import draw
from model_cases import FOLDER
from serialized_graph_cases import ALEXNET, MATMUL_ADD
from test_model_robustness import places

from dml_jax import (
    CompiledOperator,
    Constant,
    ConstraintError,
    GraphDesc,
    compile_operator,
    desc_from_json,
    desc_to_json,
)
from dml_jax.array_models.run import ArrayRun, run_arrays
from dml_jax.array_models.serialized_graph_model import read_graph_model
from dml_jax.core.tensors.tensor_desc import span_bytes
from dml_jax.dxdispatch import json_text
from dml_jax.dxdispatch.model_file import read_model
from dml_jax.dxdispatch.model_function import ModelFunction
from dml_jax.dxdispatch.run import run_model
from dml_jax.graphs.graph_files import owned_inputs
from dml_jax.graphs.serialized.codec import decode, encode
from dml_jax.graphs.serialized.records import OperatorNode
from dml_jax.graphs.working_set import working_set

Rng = np.random.Generator

# Bytes that a mutated model may take to be run: the others are only read and checked.
SMALL = 2**16
NUMBERS = [0, -1, 1, 2, 3, 8, 9, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**33, 2**40, 2**63, 2**64 - 4, 2**64]
ODD = [None, True, False, 1.5, 1e400, float("nan"), "", "x\0y", "\ud800", "\x1b[2J", "x" * 300, "NaN", [], [[]], {}]
KEYS = ["Strides", "Flags", "TotalTensorSizeInBytes", "type", "bindings", "sourcePath", "sizeInBytes", "\0"]


def graph_file(rng: Rng, folder: Path) -> None:
    """Reads and runs a mutated serialized graph, as `dml-jax check` and `dml-jax run` do."""
    whole = _pick(rng, _graph_files())
    for name, tensor in owned_inputs(GraphDesc.from_bytes(whole)).items():
        (folder / f"{name}.bin").write_bytes(bytes(span_bytes(tensor)))
    path = folder / "graph.bin"
    with suppress(ConstraintError):
        content = _damaged(rng, whole) if rng.random() < 0.6 else _with_another_tensor(rng, whole)
        path.write_bytes(content)
        model = read_graph_model(path, "6_4")
        if _is_small(GraphDesc.from_bytes(content)):
            run_arrays(model, ArrayRun(output=folder / "out"), jax.devices()[0], lambda line: None)


def model_file(rng: Rng, folder: Path) -> None:
    """Reads and runs a mutated DxDispatch model file: other values, or other bytes."""
    form = json_text.parse(_pick(rng, _model_files()))
    text = json.dumps(_changed(rng, form)).encode()
    path = folder / "model.json"
    path.write_bytes(text if rng.random() < 0.8 else _damaged(rng, text))
    with suppress(ConstraintError):
        model = read_model(path, output=folder / "out", sources=FOLDER)
        descs = [d.desc for d in model.dispatchables.values() if not d.is_node]
        if sum(b.size for b in model.buffers.values()) <= SMALL and all(map(_is_small, descs)):
            run_model(model, jax.devices()[0], lambda line: None)
            with jax.enable_x64(True):
                ModelFunction(model)()


def descriptor(rng: Rng, _: Path) -> None:
    """Makes a descriptor of mutated JSON, and runs it on zeros."""
    form = _changed(rng, _pick(rng, _pick(rng, _descriptors())))
    with suppress(ConstraintError):
        desc = desc_from_json(form)
        assert desc_from_json(desc_to_json(desc)) == desc
        if _is_small(desc):
            _run(compile_operator(desc, **_owned(desc)))


def artifact(rng: Rng, _: Path) -> None:
    """Loads a mutated artifact; one whose programs are as they were is called on zeros."""
    content = _pick(rng, _artifacts())
    damaged = _damaged(rng, content) if rng.random() < 0.5 else _repacked(rng, content)
    with suppress(ConstraintError):
        run = CompiledOperator.deserialize(damaged)
        if _programs(damaged) == _programs(content):
            _run(run)


# Whole inputs.


@cache
def _graphs() -> list[GraphDesc]:
    """Random graphs, and one of each operator, whose second and later inputs are constants."""
    return [*map(_with_constants, DESCS.values()), *(draw(STRUCTS, number).desc for number in range(20))]


def _with_constants(desc: Any) -> GraphDesc:
    graph, (_, *others) = alone(desc), [*desc.input_ports(), ""]
    constants = {port: Constant(bytes(span_bytes(t))) for port, t in desc.input_ports().items() if port in others}
    edges = {reader: (of, "output") if of in constants else of for reader, of in graph.edges.items()}
    return GraphDesc({**graph.nodes, **constants}, edges)


@cache
def _graph_files() -> list[bytes]:
    found = [encode(MATMUL_ADD), encode(ALEXNET)]
    for graph in _graphs():
        with suppress(ConstraintError):  # some say more than a file has a place for
            found.append(graph.to_bytes())
    return found


@cache
def _model_files() -> list[str]:
    return [path.read_text() for path in sorted(FOLDER.glob("*.json")) if path.stat().st_size < 10_000]


@cache
def _descriptors() -> list[list[Any]]:
    """Operators, and graphs."""
    return [[*map(desc_to_json, DESCS.values())], [*map(desc_to_json, _graphs())]]


@cache
def _artifacts() -> list[bytes]:
    descs = [DESCS["GATHER"], DESCS["JOIN"], DESCS["TOP_K1"], draw(STRUCTS, 1).desc]
    return [compile_operator(desc, **_owned(desc)).serialize() for desc in descs]


def _pick(rng: Rng, values: Any) -> Any:
    return values[rng.integers(len(values))]


# Mutations of bytes.


def _damaged(rng: Rng, content: bytes) -> bytes:
    """Other bytes, other numbers of 32 bits, such as offsets and lengths, a piece of another place, or one left out."""
    found = bytearray(content)
    for _ in range(_few(rng)):
        at, kind = int(rng.integers(len(found) + 1)), rng.random()
        word = slice(at - at % 4, at - at % 4 + 4)
        if kind < 0.1:
            found[at : at + 1] = rng.bytes(1)
        elif kind < 0.5:
            found[word] = (_near(rng, int.from_bytes(found[word], "little")) % 2**32).to_bytes(4, "little")
        elif kind < 0.8:
            found[word] = (_pick(rng, NUMBERS) % 2**32).to_bytes(4, "little")
        elif kind < 0.9:
            start = int(rng.integers(len(found) + 1))
            found[at : at + 40] = found[start : start + int(rng.integers(1, 40))]
        else:
            del found[at : at + _few(rng) ** 4]
    return bytes(found)


def _few(rng: Rng) -> int:
    """1 mostly: of several changes one is seldom seen, as another is a fault."""
    return int(rng.geometric(0.7))


def _near(rng: Rng, number: int) -> int:
    return int(_pick(rng, [number + 1, number - 1, 2 * number, number // 2, 0, 1, number + 4]))


def _with_another_tensor(rng: Rng, content: bytes) -> bytes:
    """A serialized graph in which one tensor has another size in bytes, other sizes or other strides."""
    graph = decode(content)
    at = _pick(rng, [at for at, node in enumerate(graph.nodes) if isinstance(node, OperatorNode)])
    node: Any = graph.nodes[at]
    side = _pick(rng, [side for side in ("inputs", "outputs") if getattr(node, side)])
    tensors = list(getattr(node, side))
    of = int(rng.integers(len(tensors)))
    tensors[of] = replace(tensors[of], **_other_tensor(rng, tensors[of].sizes))
    nodes = (*graph.nodes[:at], replace(node, **{side: tuple(tensors)}), *graph.nodes[at + 1 :])
    return encode(replace(graph, nodes=nodes))


def _other_tensor(rng: Rng, sizes: Sequence[int]) -> dict[str, Any]:
    """One field of a tensor with another value."""
    field = _pick(rng, ["total_tensor_size_in_bytes", "sizes", "strides"])
    if field == "total_tensor_size_in_bytes":
        return {field: _pick(rng, NUMBERS)}
    values = list(sizes)
    values[rng.integers(len(values))] = _pick(rng, [*NUMBERS, *sizes])
    return {field: tuple(values)}


# Mutations of JSON.

# A value, as the container that holds it and its key there.
Place = tuple[Any, Any]


def _changed(rng: Rng, form: Any) -> Any:
    """A JSON value with few others in it: extreme numbers, odd values, moved ones, missing and additional keys."""
    form = copy.deepcopy(form)
    for _ in range(_few(rng)):
        if found := list(places(form)):
            _pick(rng, CHANGES)(rng, found)
    return form


def _put_number(rng: Rng, found: list[Place]) -> None:
    holder, key = _pick(rng, found)
    is_number = type(holder[key]) is int and rng.random() < 0.7
    holder[key] = _near(rng, holder[key]) if is_number else _pick(rng, NUMBERS)


def _put_odd(rng: Rng, found: list[Place]) -> None:
    holder, key = _pick(rng, found)
    holder[key] = copy.deepcopy(_pick(rng, ODD))


def _put_other(rng: Rng, found: list[Place]) -> None:
    (holder, key), (other, its_key) = _pick(rng, found), _pick(rng, found)
    holder[key] = copy.deepcopy(other[its_key])


def _leave_out(rng: Rng, found: list[Place]) -> None:
    holder, key = _pick(rng, found)
    del holder[key]


def _add(rng: Rng, found: list[Place]) -> None:
    (holder, _), (other, its_key) = _pick(rng, found), _pick(rng, found)
    added = copy.deepcopy(other[its_key])
    if isinstance(holder, dict):
        holder[_pick(rng, KEYS)] = added
    else:
        holder.extend([added] * int(rng.integers(1, 10)))


def _put_tensor(rng: Rng, found: list[Place]) -> None:
    """A tensor with another size in bytes, other sizes or other strides."""
    tensors = [holder[key] for holder, key in found if isinstance(holder[key], dict) and holder[key].get("Sizes")]
    if tensors and isinstance((tensor := _pick(rng, tensors))["Sizes"], list):
        fields = _other_tensor(rng, tensor["Sizes"])
        tensor |= {NAMES[name]: list(v) if isinstance(v, tuple) else v for name, v in fields.items()}


NAMES = {"total_tensor_size_in_bytes": "TotalTensorSizeInBytes", "sizes": "Sizes", "strides": "Strides"}
CHANGES = [_put_number, _put_odd, _put_other, _leave_out, _add, *[_put_tensor] * 3]


# Mutations of artifacts.


def _repacked(rng: Rng, content: bytes) -> bytes:
    """An artifact with one of its members changed, whose checksums are right."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as file, zipfile.ZipFile(packed, "w") as out:
        names = file.namelist()
        changed = _pick(rng, names)
        for name in names:
            member = file.read(name)
            if name == changed and name.endswith(".json") and rng.random() < 0.8:
                member = json.dumps(_changed(rng, json.loads(member))).encode()
            elif name == changed:
                member = _damaged(rng, member)
            out.writestr(name, member)
    return packed.getvalue()


def _programs(content: bytes) -> list[bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return [file.read(name) for name in file.namelist() if name.endswith(".jax_export")]


# Runs.


def _is_small(desc: Any) -> bool:
    return sum(working_set(desc).values()) <= SMALL


def _owned(desc: Any) -> dict[str, Any]:
    """Zeros for the inputs that a descriptor owns."""
    owned = {port: tensor for port, tensor in desc.input_ports().items() if tensor.flags}
    return desc.owned_by_field({port: np.zeros(t.element_span, t.dtype) for port, t in owned.items()})


def _run(operator: CompiledOperator) -> None:
    bound = [operator.buffers[port] for port, tensor in operator.desc.input_ports().items() if not tensor.flags]
    jax.block_until_ready(operator(*(np.zeros(spec.length, spec.dtype) for spec in bound)))
