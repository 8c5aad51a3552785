"""Loads a model and its external data; opens no file outside the model's folder."""

import os
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError, Message
from onnx import TensorProto, helper, numpy_helper

from ..errors import DataTypeError
from .errors import OnnxError, UnreadableError

DEEPEST = 100  # as protobuf reads bytes


def load_model(source: Any) -> tuple[onnx.ModelProto, Path]:
    """Returns a model and the folder of its external data: that of the file, or the working directory.

    Raises:
      UnreadableError: it cannot be read, or is not an ONNX model.
      DataTypeError: it is neither a path nor bytes nor an `onnx.ModelProto`.
    """
    if isinstance(source, onnx.ModelProto):
        return _check(source, "the model"), Path()
    if isinstance(source, bytes):
        return _parse(source, "the model"), Path()
    if not isinstance(source, str | os.PathLike):
        kind = type(source).__name__
        raise DataTypeError(f"the model must be a path, bytes or an onnx.ModelProto, but it is {kind}")
    path = Path(source)
    try:
        return _parse(path.read_bytes(), str(path)), path.parent
    except OSError as error:
        raise UnreadableError(str(path), f"cannot be read: {error.strerror}") from None


def external_files(model: onnx.ModelProto, folder: Path) -> list[Path]:
    """Returns the files in the folder of a model that hold its tensors."""
    paths: set[Path] = set()
    for tensor in _tensors(model):
        for entry in tensor.external_data:
            if entry.key == "location":
                with suppress(OnnxError):  # one that names no file there is never read
                    paths.add(_path("tensor", entry.value, folder))
    return sorted(paths)


def _tensors(model: onnx.ModelProto) -> Iterator[TensorProto]:
    """Yields every tensor of a model: initializers and attributes, of subgraphs and functions too."""
    return (message for _, message in _messages(model) if isinstance(message, TensorProto))


def outputs_of(model: onnx.ModelProto, op_types: Collection[str], most: int | None = None) -> set[str]:
    """Returns the names of all outputs, or of so many, of nodes of some operators, in graphs and functions too."""
    nodes = (message for _, message in _messages(model) if isinstance(message, onnx.NodeProto))
    return {name for node in nodes if node.op_type in op_types for name in [*filter(None, node.output)][:most]}


def read_inside(node: onnx.NodeProto) -> tuple[str, ...]:
    """Returns the names of values around a node that the graphs among its attributes read."""
    inside = [message for _, message in _messages(node) if message is not node]
    nodes = [message for message in inside if isinstance(message, onnx.NodeProto)]
    made = {name for inner in nodes for name in inner.output}
    made |= {message.name for message in inside if isinstance(message, (TensorProto, onnx.ValueInfoProto))}
    return tuple(dict.fromkeys(name for inner in nodes for name in inner.input if name not in made))


def without_initializers(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    """Returns a copy that needs no file beside it: what runs, without the graph's initializers, which may be large.

    Raises:
      OnnxError: a tensor cannot be read.
    """
    whole = model.graph
    graph = onnx.GraphProto(name=whole.name, node=whole.node, input=whole.input, output=whole.output)
    copy = onnx.ModelProto(opset_import=model.opset_import, functions=model.functions, graph=graph)
    for tensor in _tensors(copy):
        if tensor.data_location == TensorProto.EXTERNAL:
            tensor.CopyFrom(numpy_helper.from_array(read_tensor(tensor, folder), tensor.name))
    return copy


def with_initializers(model: onnx.ModelProto, arrays: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """Returns a copy of a model with arrays as its initializers."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    copy.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    return copy


def read_initializers(graph: onnx.GraphProto, folder: Path) -> dict[str, np.ndarray]:
    """Returns the initializers of a graph by name.

    Raises:
      OnnxError: two have one name, or as `read_tensor`.
    """
    counts = Counter(tensor.name for tensor in graph.initializer)
    if twice := [name for name, count in counts.items() if count > 1]:
        raise OnnxError(f"every initializer must have a name of its own, but there are {counts[twice[0]]} {twice[0]!r}")
    return {tensor.name: read_tensor(tensor, folder) for tensor in graph.initializer}


def read_tensor(tensor: TensorProto, folder: Path) -> np.ndarray:
    """Returns a tensor as an array.

    Raises:
      OnnxError: strings, a length other than its shape says, or external data that is missing, short or elsewhere.
    """
    dtype = dtype_of(tensor.data_type, f"tensor {tensor.name!r}")
    if any(n < 0 for n in tensor.dims):
        raise OnnxError(f"tensor {tensor.name!r}: every size must be at least 0, but the shape is {tuple(tensor.dims)}")
    is_external = tensor.data_location == TensorProto.EXTERNAL
    raw = _external(tensor, dtype, folder) if is_external else b""
    try:
        if is_external:
            if _bits(dtype) == 8 * dtype.itemsize and sys.byteorder == "little":  # as they lie: weights may be large
                return np.frombuffer(raw, dtype).reshape(tuple(tensor.dims))
            tensor = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims, raw_data=raw)
        return np.ascontiguousarray(numpy_helper.to_array(tensor)).reshape(tuple(tensor.dims))
    except (ValueError, TypeError) as error:
        raise OnnxError(f"tensor {tensor.name!r} is damaged: {error}") from None


def dtype_of(elem_type: int, what: str) -> np.dtype[Any]:
    """Returns the NumPy type of one of ONNX's element types.

    Raises:
      OnnxError: strings, or an unknown type.
    """
    try:
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(elem_type))
    except KeyError:
        rule = f"the element type must be one that onnx {onnx.__version__} knows"
        raise OnnxError(f"{what}: {rule}, but it is {elem_type}") from None
    if dtype.hasobject:
        raise OnnxError(f"{what}: the elements must be numbers, but they are strings")
    return dtype


def type_name(dtype: Any) -> str:
    """Returns the name that ONNX's schemas have for a tensor type: "tensor(float)"."""
    return f"tensor({TensorProto.DataType.Name(helper.np_dtype_to_tensor_dtype(np.dtype(dtype))).lower()})"


def _parse(content: bytes, name: str) -> onnx.ModelProto:
    try:
        return _check(onnx.ModelProto.FromString(content), name)
    except DecodeError as error:
        raise UnreadableError(name, f"is not an ONNX model: {error}") from None


def _check(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    if not model.opset_import or not model.HasField("graph"):
        raise UnreadableError(name, "is not an ONNX model: it must have a graph and an opset version, and lacks one")
    for depth, message in _messages(model):
        if depth > DEEPEST:
            rule = f"its parts must lie at most {DEEPEST} deep in each other"
            raise UnreadableError(name, f"is not an ONNX model: {rule}, but some lie deeper")
        for field in message.DESCRIPTOR.fields:
            texts = getattr(message, field.name) if field.type == field.TYPE_STRING else ()
            for text in [texts] if isinstance(texts, bytes) else texts:
                if isinstance(text, bytes):  # as protobuf leaves what is not UTF-8
                    fact = f"{field.name} of {message.DESCRIPTOR.name} is {text!r:.60}"
                    raise UnreadableError(name, f"is not an ONNX model: every text must be UTF-8, but {fact}")
    return model


def _messages(model: Message) -> Iterator[tuple[int, Message]]:
    """Yields every message in a model and its depth, without recursion, because files may nest at any depth."""
    stack: list[tuple[int, Message]] = [(0, model)]
    while stack:
        depth, message = stack.pop()
        yield depth, message
        for field in message.DESCRIPTOR.fields:
            if field.message_type is not None:
                value = getattr(message, field.name)
                parts = [value] * message.HasField(field.name) if isinstance(value, Message) else value
                stack += [(depth + 1, part) for part in parts]


def _external(tensor: TensorProto, dtype: np.dtype[Any], folder: Path) -> bytes:
    """Returns the bytes of a tensor that lies in a file beside the model."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    what, location = f"tensor {tensor.name!r}", entries.get("location", "")
    path = _path(what, location, folder)
    length = -(-prod(tensor.dims) * _bits(dtype) // 8)
    offset, said = _number(what, "offset", entries, 0), _number(what, "length", entries, length)
    if said != length:
        raise OnnxError(f"{what}: {dtype}{list(tensor.dims)} must have {length} bytes, but its entry says {said}")
    if path.exists() and not path.is_file():  # a pipe would wait for somebody to write
        raise OnnxError(f"{what}: its file {location!r} must be a regular file, but it is another kind")
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < offset + length:
                fact = f"{location!r} has {size}"
                raise OnnxError(f"{what}: its file must have {offset + length} bytes, but {fact}; it was cut off")
            file.seek(offset)
            return file.read(length)
    except OSError as error:
        raise OnnxError(f"{what}: its file {location!r} cannot be read: {error.strerror}") from None


def _path(what: str, location: str, folder: Path) -> Path:
    """Returns the file of external data, which must lie in the folder of the model after following links."""
    try:
        root, path = folder.resolve(), (folder / location).resolve()
    except (OSError, ValueError, RuntimeError) as error:  # NUL, too long, a loop of links
        raise OnnxError(f"{what}: its location {location!r:.60} names no file: {error}") from None
    if not location or not path.is_relative_to(root) or path == root:
        raise OnnxError(f"{what}: its file must lie in the folder of the model, but its location is {location!r}")
    return path


def _number(what: str, name: str, entries: Mapping[str, str], default: int) -> int:
    text = entries.get(name, str(default))
    if not re.fullmatch("[0-9]{1,19}", text):
        raise OnnxError(f"{what}: {name} must be an integer of at least 0, but it is {text!r:.60}")
    return int(text)


def _bits(dtype: np.dtype[Any]) -> int:
    """Returns the bits of an element as ONNX stores it: 2- and 4-bit elements are packed."""
    packed = [bits for bits in (2, 4) if dtype.name.startswith((f"int{bits}", f"uint{bits}", f"float{bits}_"))]
    return packed[0] if packed else 8 * dtype.itemsize
