"""What the benchmark knows of an operator: one file each, with cases and how others do the same.

A file has generators of cases of about so many bytes, `quick`, `full`, `real`, `small` and `sweep`, those it wants; and
the best form of each peer, made of a case's attributes: `of_jnp` a function of the arrays; `of_numpy` and `of_cupy` one
that writes into its first argument, a tuple if there are several outputs; `of_onnx` a node, or None. `TORCH` has forms
by name, of which the fastest counts: each returns what holds the result, or None where that is the first argument. The
one called "compile" is compiled by torch. NumPy, CuPy and ONNX Runtime are left out where they have no such operator.
An operator without a file is not measured.
"""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from ...catalogue import FUNCTIONS

__all__ = ["SUBJECTS"]

SUBJECTS: Mapping[str, ModuleType] = {
    name: import_module(f"._{name}", __name__) for name in FUNCTIONS if find_spec(f"._{name}", __name__)
}
