"""The lines that DxDispatch prints about the inputs and outputs of an ONNX model: resource, type, shape."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def binding_lines(inputs: Mapping[str, Any], files: Mapping[str, Path], outputs: Mapping[str, Any]) -> Iterator[str]:
    """The lines about inputs and outputs, which are arrays by name; an input without a file is made."""
    for name, array in inputs.items():
        yield from _lines("Input", name, f"explicit ({files[name]})" if name in files else "implicit", array)
    for name, array in outputs.items():
        yield from _lines("Output", name, "implicit", array)


def _lines(kind: str, name: str, resource: str, array: Any) -> Iterator[str]:
    from onnx import TensorProto, helper

    yield f"{kind} Tensor {name!r}:"
    yield f"  Resource  = {resource}"
    yield f"  Data Type = {TensorProto.DataType.Name(helper.np_dtype_to_tensor_dtype(array.dtype))}"
    yield f"  Shape     = [{','.join(map(str, array.shape))}]"
    yield ""
