"""Mutated ONNX models, in their bytes and in the fields of their messages."""

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
from onnx_building import helper, onnx
from onnx_cases import all_cases
from onnx_random import RECIPES, RandomGraph

import dml_jax
from dml_jax.onnx import OnnxFunction, to_descs, to_jax
from dml_jax.onnx.operator_table import ONNX_OPERATORS
from dml_jax.onnx.sequence_pytrees import ContainerSpec

GRAPHS = 30
INTS = (-(2**63), -(2**31), -2, -1, 0, 1, 2, 3, 8, 20, 255, 2**31 - 1, 2**31, 2**40, 2**63 - 1)
FLOATS = (0.0, -0.0, 1.0, -1.5, 1e-40, 3e38, float("inf"), float("nan"))
TEXTS = (
    "",
    "x",
    "mine",
    "ai.onnx",
    "ai.onnx.ml",
    "\x1b[2J\n",
    "\0",
    "ü" * 300,
    "linear",
    "../x",
    "none.bin",
    "9" * 5000,
)
MOST = 12  # for a run: every number that may be a size is at most this, so that no array is large


def onnx_file(rng: np.random.Generator, folder: Path) -> None:
    """Draws a mutated model, reads it, describes it, and traces or runs it if its sizes are small."""
    if rng.random() < 0.02:
        jax.clear_caches()  # programs of many inputs add up
    path = folder / "model.onnx"
    originals = random_models() if rng.random() < 0.5 else node_cases()
    proto = onnx.ModelProto.FromString(originals[int(rng.integers(len(originals)))])
    for _ in range(rng.integers(4)):
        mutate(rng, proto)
    content = bytearray(proto.SerializeToString())
    if rng.random() < 0.3:
        damage(rng, content)
    path.write_bytes(content)
    with suppress(dml_jax.ConstraintError):
        function = to_jax(path)
        str((function, function.parameters))  # both look at every input or node
        if is_small(onnx.load(path, load_external_data=False)):
            with suppress(dml_jax.ConstraintError):
                to_descs(path)
            call(rng, function)


def call(rng: np.random.Generator, function: OnnxFunction) -> None:
    """Traces the function for inputs of the sizes that it declares, or runs it."""
    sizes = {spec.name: [n if isinstance(n, int) else 2 for n in spec.sizes or ()] for spec in function.inputs}
    arrays: list[Any] = [np.ones(np.maximum(sizes[spec.name], 0).astype(int), spec.dtype) for spec in function.inputs]
    for i, spec in enumerate(function.inputs):
        if isinstance(spec, ContainerSpec):
            arrays[i] = None if spec.is_optional and rng.random() < 0.5 else [arrays[i]] * int(rng.integers(3))
    with jax.enable_x64(rng.random() < 0.8):  # without, 64-bit inputs are refused
        if rng.random() < 0.1:
            jax.block_until_ready(function(*arrays))
        else:
            jax.eval_shape(function, *arrays)


@cache
def node_cases() -> list[bytes]:
    """ONNX's own models of one node, of every operator."""
    return [case.model.SerializeToString() for _, case in sorted(all_cases().items())]


@cache
def random_models() -> list[bytes]:
    return [random_model(seed) for seed in range(GRAPHS)]


def random_model(seed: int) -> bytes:
    """A model of random operators, whose first node is in a function, and one in the branches of an If."""
    graph = RandomGraph(seed, (13, 18, 20)[seed % 3])
    recipes = [recipe for since, recipe in RECIPES if since <= graph.opset]
    for at in graph.rng.choice(len(recipes), 14, replace=False):
        recipes[at](graph)
    proto = graph.model()
    node = proto.graph.node[0]
    body = helper.make_function("mine", "Called", node.input, node.output, [node], proto.opset_import)
    called = helper.make_node("Called", node.input, node.output, domain="mine")
    proto.functions.append(body)
    proto.opset_import.append(helper.make_opsetid("mine", 1))
    node.CopyFrom(called)
    last = proto.graph.node[-1]
    branches = {
        name: helper.make_graph([last], name, [], [onnx.ValueInfoProto(name=output) for output in last.output])
        for name in ("then_branch", "else_branch")
    }
    proto.graph.input.append(helper.make_tensor_value_info("chosen", onnx.TensorProto.BOOL, []))
    last.CopyFrom(helper.make_node("If", ["chosen"], last.output, name="choice", **branches))
    return proto.SerializeToString()


def is_small(proto: Any) -> bool:
    """Whether no number that may be a size is greater than those of the original."""
    numbers = [0]
    for message in messages(proto):
        if isinstance(message, onnx.TensorProto):
            numbers += [*message.dims, *message.int64_data, *message.int32_data]
            if message.data_type in (onnx.TensorProto.INT64, onnx.TensorProto.INT32):
                width = 8 if message.data_type == onnx.TensorProto.INT64 else 4
                raw = message.raw_data[: len(message.raw_data) // width * width]
                numbers += np.frombuffer(raw, f"i{width}").tolist()
        elif isinstance(message, onnx.AttributeProto):
            numbers += [message.i, *message.ints]
        elif isinstance(message, onnx.TensorShapeProto.Dimension):
            numbers.append(message.dim_value)
    return max(numbers) <= MOST


def messages(message: Any) -> Iterator[Any]:
    yield message
    for field, value in message.ListFields():
        if field.message_type:
            for part in [value] if hasattr(value, "ListFields") else value:
                yield from messages(part)


def mutate(rng: np.random.Generator, proto: Any) -> None:
    """Changes one field of one message: that of a deep one as probably as that of one above it."""
    found = [message for message in messages(proto) if message.ListFields()]
    message = found[int(rng.integers(len(found)))]
    field, value = (fields := message.ListFields())[int(rng.integers(len(fields)))]
    kind = rng.random()
    if kind < 0.1:
        message.ClearField(field.name)
    elif isinstance(message, onnx.NodeProto) and field.name == "op_type" and kind < 0.8:
        message.domain, _, message.op_type = str(rng.choice(sorted(ONNX_OPERATORS))).rpartition("::")
    elif hasattr(value, "ListFields"):
        value.CopyFrom(chosen(rng, proto, type(value)))
    elif isinstance(value, str | bytes | int | float):
        setattr(message, field.name, other(rng, proto, field, value))
    else:
        change_row(rng, proto, field, value)


def change_row(rng: np.random.Generator, proto: Any, field: Any, row: Any) -> None:
    """Removes, repeats, moves or changes an entry of a repeated field."""
    entries = [*row]
    at, kind = int(rng.integers(len(entries))), rng.integers(4)
    if kind == 0:
        del entries[at]
    elif kind == 1:
        entries.insert(int(rng.integers(len(entries) + 1)), entries[at])
    elif kind == 2:
        entries.append(entries.pop(at))
    elif field.message_type:
        entries[at] = chosen(rng, proto, type(entries[at]))
    else:
        entries[at] = other(rng, proto, field, entries[at])
    if field.message_type:
        entries = [type(entry).FromString(entry.SerializeToString()) for entry in entries]
    del row[:]
    row.extend(entries)


def chosen(rng: np.random.Generator, proto: Any, kind: type) -> Any:
    """Another message of one type in the model."""
    found = [message for message in messages(proto) if type(message) is kind]
    return kind.FromString(found[int(rng.integers(len(found)))].SerializeToString())


def other(rng: np.random.Generator, proto: Any, field: Any, value: Any) -> Any:
    """Another value of a field."""
    if field.enum_type:
        return int(rng.choice([number.number for number in field.enum_type.values]))
    if isinstance(value, bytes):
        content = bytearray(value)
        damage(rng, content)
        return bytes(content)
    if isinstance(value, str):
        names = [name for node in messages(proto) if isinstance(node, onnx.NodeProto) for name in node.input]
        return str(rng.choice([*TEXTS, *names]))
    if isinstance(value, float):
        return float(rng.choice(FLOATS))
    number = int(INTS[int(rng.integers(len(INTS)))])
    return number if field.type == field.TYPE_INT64 else max(-(2**31), min(number, 2**31 - 1))


def damage(rng: np.random.Generator, content: bytearray) -> None:
    """Changes, removes or repeats some bytes."""
    for _ in range(rng.integers(1, 4)):
        at, kind = int(rng.integers(len(content) + 1)), rng.integers(4)
        end = at + int(rng.integers(1, 20))
        if kind == 0:
            content[at : at + 1] = bytes([int(rng.integers(256))])
        elif kind == 1:
            del content[at:end]
        elif kind == 2:
            content[at:at] = content[at:end]
        else:
            del content[at:]
