"""The vectors of WebNN's operators: the file, and calls of DirectML's structs on its arrays.

Operands are NumPy's views: the buffers that they have in common with other views are bound, flat, and the strides of a
view are those of its tensor. So a program of DirectML broadcasts and transposes. The outputs are views of what is
expected, and the buffers of these are what a call must write.
"""

import gzip
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from dml_jax import DataType, OperatorDesc, TensorDesc
from dml_jax.catalogue import STRUCTS

FILE = Path(__file__).parent / "data" / "webnn_operators.json.gz"


@dataclass(frozen=True, eq=False)
class Vector:
    """A case of the file, which data/README.md describes."""

    case: Mapping[str, Any]
    inputs: Mapping[str, np.ndarray]
    outputs: Sequence[np.ndarray]

    @classmethod
    def of(cls, case):
        inputs = {name: array(tensor) for name, tensor in case["inputs"].items()}
        return cls(case, inputs, [array(tensor) for tensor in case["expected"].values()])

    @property
    def operator(self):
        return self.case["operator"]

    @property
    def input(self):
        """The first one."""
        return next(iter(self.inputs.values()))

    @property
    def output(self):
        """The first one."""
        return self.outputs[0]

    def option(self, name, default=None):
        return self.case["options"].get(name, default)


def read_cases():
    return json.loads(gzip.decompress(FILE.read_bytes()))["cases"]


def array(tensor):
    """A tensor of the file; numbers beyond a type of integers are the nearest that it holds."""
    dtype = np.dtype(getattr(ml_dtypes, tensor["dataType"], tensor["dataType"]))
    data = tensor["data"] if isinstance(tensor["data"], list) else [tensor["data"]]
    if "int" in dtype.name:
        limits = (ml_dtypes if "int4" in dtype.name else np).iinfo(dtype)
        numbers = np.array([min(max(int(x), int(limits.min)), int(limits.max)) for x in data], dtype)
    else:
        with np.errstate(over="ignore"):
            numbers = np.array(data, np.float64).astype(dtype)
    return np.broadcast_to(numbers, math.prod(tensor["shape"])).reshape(tensor["shape"]).copy()


@dataclass(frozen=True, eq=False)
class Call:
    """A struct, the buffers of its inputs, and those of its outputs as they must become."""

    desc: OperatorDesc[Any]
    inputs: Sequence[np.ndarray]
    expected: Sequence[np.ndarray]


def call(struct, **fields):
    """A call of a struct whose tensors are given as views; what is left out is None."""
    values, inputs, expected = {}, [], []
    for name, field in STRUCTS[struct].fields().items():
        value = fields.pop(name, None)
        if field.is_tensor and value is not None:
            views = [np.atleast_1d(view) for view in (value if field.is_array else [value])]
            (inputs if field.is_input else expected).extend(map(buffer, views))
            value = [*map(tensor, views)] if field.is_array else tensor(views[0])
        values[name] = value
    assert not fields, f"{struct} has no fields {[*fields]}"
    return Call(STRUCTS[struct](**values), inputs, expected)


def buffer(view):
    """All of the memory that a view is of."""
    while view.base is not None:
        view = view.base
    return view.ravel("K")


def tensor(view):
    return TensorDesc(DataType.of(view.dtype), view.shape, [stride // view.itemsize for stride in view.strides])
