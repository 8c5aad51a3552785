"""`Computation`: the base of descriptors and of graphs, both of which can be compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic

import jax
import numpy as np

from ...errors import ConstraintError, DataTypeError, message
from ..arguments.arrays import as_data
from ..arguments.indices import as_indices
from ..tensors.stored_tensor import StoredTensor
from ..tensors.tensor_desc import TensorDesc
from .feature_level import NEWEST, FeatureLevel

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    R = TypeVar("R", default=jax.Array)
else:
    from typing import TypeVar

    R = TypeVar("R")


class Computation(Generic[R]):
    """Something that reads tensors and writes tensors.

    Each tensor is a port: an array of tensors has the ports `inputs[0]`, `inputs[1]` and so on, and a tensor that is
    left out has none.
    """

    # Its name in messages.
    operator_type: ClassVar[str]
    # The input of which the output is a copy, some elements of it replaced.
    replaces_in: ClassVar[str | None] = None
    # Whether the output may be bound to the buffer of an input that is laid out like it.
    in_place: ClassVar[bool] = False

    def ports(self) -> dict[str, TensorDesc]:
        """Every tensor, in DirectML's order."""
        return self.input_ports() | self.output_ports()

    def input_ports(self) -> dict[str, TensorDesc]:
        """Returns the tensors that it reads, by port."""
        raise NotImplementedError

    def output_ports(self) -> dict[str, TensorDesc]:
        """Returns the tensors that it writes, by port."""
        raise NotImplementedError

    def has_several_outputs(self) -> bool:
        """Whether results are a tuple."""
        return len(self.output_ports()) > 1

    def shown(self, port: str) -> str:
        """Returns the name that messages and model files give a port."""
        raise NotImplementedError

    def is_index(self, port: str) -> bool:
        """Whether an input holds indices. These may become 32-bit ones while x64 is off; data never do."""
        raise NotImplementedError

    def fields_bound(self) -> dict[str, str | tuple[str, ...]]:
        """Returns the port, or the ports of an array of tensors, by the name that model files and messages use."""
        raise NotImplementedError

    def by_field(self, ports: Mapping[str, Any]) -> dict[str, Any]:
        """Converts values by input port to values by argument: a tuple for an array of tensors, None for none."""
        raise NotImplementedError

    def may_share(self, output: str, other: str) -> bool:
        """Whether an output may share the buffer of another port: of an input of the same layout, if `in_place`."""
        ports = self.ports()
        return self.in_place and other in self.input_ports() and ports[output] == ports[other]

    def owned_by_field(self, ports: Mapping[str, Any]) -> dict[str, Any]:
        """Converts values of some input ports to values by argument; a tuple has None for ports without a value."""
        by_field = self.by_field(dict.fromkeys(self.input_ports()) | dict(ports))
        as_rows = {name: value if isinstance(value, tuple) else (value,) for name, value in by_field.items()}
        return {name: by_field[name] for name, ones in as_rows.items() if any(value is not None for value in ones)}

    def validate(self, feature_level: FeatureLevel | str = NEWEST) -> None:
        """Checks it against a feature level: a `FeatureLevel`, or a string such as "3_0".

        Raises:
          ConstraintError: the level lacks an operator, or takes no such ranks.
          DataTypeError: the level takes no such data types.
        """
        raise NotImplementedError

    def compute(self, *arrays: jax.Array | np.ndarray) -> R:
        """Computes it on arrays.

        Args:
          arrays: one per input tensor, in DirectML's order, of its sizes and data type.

        Returns:
          An array of the sizes and data type of the output; of several, a tuple in DirectML's order.

        Raises:
          ConstraintError: other sizes, or another number of arrays.
          DataTypeError: other data types, or 64-bit data while x64 is off.
        """
        ports = self.input_ports()
        if len(arrays) != len(ports):
            wanted = ", ".join(map(self.shown, ports)) or "nothing"
            raise ConstraintError(f"{self.operator_type}: takes arrays for {wanted}, but there are {len(arrays)}.")
        inputs = {port: self._as_input(port, array) for port, array in zip(ports, arrays, strict=True)}
        for port, tensor in self.output_ports().items():
            if jax.dtypes.canonicalize_dtype(tensor.dtype) != tensor.dtype:
                rule = f"{self.shown(port)} of 64 bits needs 64-bit types"
                fact = "jax_enable_x64 is off: enable it around the call"
                raise DataTypeError(message(self.operator_type, rule, fact, {port: tensor}))
        return self.compute_ports(inputs)

    def compute_ports(self, arrays: Mapping[str, jax.Array]) -> R:
        """Computes it on arrays by port that are known to fit; 64-bit indices are 32-bit ones while x64 is off."""
        raise NotImplementedError

    def compute_stored(self, views: Mapping[str, jax.Array], words: bool) -> Sequence[jax.Array]:
        """Computes it on arrays, and returns the outputs in order.

        Args:
          views: the inputs by port, of their sizes and data types.
          words: whether 64-bit elements, of inputs and outputs, are pairs of 32-bit words, as in `StoredTensor`.
        """
        raise NotImplementedError

    def compute_buffers(self, buffers: Mapping[str, jax.Array], words: bool) -> Sequence[jax.Array]:
        """Computes it on flat buffers by input port, each of at least the span of its tensor."""
        stored = {port: StoredTensor(tensor, words) for port, tensor in self.input_ports().items()}
        return self.compute_stored(
            {port: stored_tensor.view(buffers[port]) for port, stored_tensor in stored.items()}, words
        )

    def as_array(self, port: str, value: Any) -> jax.Array:
        """Reads an array of the data type of an input; 64-bit indices are clamped into 32 bits while x64 is off.

        Raises:
          DataTypeError: no array, another data type, or 64-bit data while x64 is off.
        """
        shown, tensor = self.shown(port), self.input_ports()[port]
        of_indices = self.is_index(port)
        array = as_indices(self.operator_type, port, value) if of_indices else as_data(self.operator_type, shown, value)
        dtype = getattr(value, "dtype", array.dtype)
        if dtype != tensor.dtype:
            rule = f"the array of {shown} must have elements of {tensor.dtype}"
            raise DataTypeError(message(self.operator_type, rule, f"they are {dtype}", {shown: value}))
        return array

    def _as_input(self, port: str, value: Any) -> jax.Array:
        array, tensor, shown = self.as_array(port, value), self.input_ports()[port], self.shown(port)
        if array.shape != tensor.sizes:
            rule = f"the array of {shown} must have its sizes, {tensor.sizes}"
            raise ConstraintError(message(self.operator_type, rule, f"its shape is {array.shape}", {shown: array}))
        return array
