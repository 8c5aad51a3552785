"""`Computation`: what can be compiled, by its tensors alone. A descriptor of an operator is one, and so is a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic

import jax
import numpy as np

from ..errors import ConstraintError, DataTypeError, message
from .arguments import as_data, as_indices
from .feature_level import NEWEST, FeatureLevel
from .stored import StoredTensor
from .tensor import TensorDesc

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    R = TypeVar("R", default=jax.Array)
else:
    from typing import TypeVar

    R = TypeVar("R")

__all__ = ["Computation", "R"]


class Computation(Generic[R]):
    """Tensors in, tensors out.

    Ports are the tensors one by one, by name: those of an array as `inputs[0]`; one that is left out is none.
    """

    # What messages call it.
    operator_type: ClassVar[str]
    # The input of which the output is a copy, some elements of it replaced.
    replaces_in: ClassVar[str | None] = None
    # Whether the output may be bound to the buffer of an input that is laid out like it.
    in_place: ClassVar[bool] = False

    def ports(self) -> dict[str, TensorDesc]:
        """Every tensor, in DirectML's order."""
        return self.input_ports() | self.output_ports()

    def input_ports(self) -> dict[str, TensorDesc]:
        """The tensors that are read."""
        raise NotImplementedError

    def output_ports(self) -> dict[str, TensorDesc]:
        """The tensors that are written."""
        raise NotImplementedError

    def has_several_outputs(self) -> bool:
        """Whether results are a tuple."""
        return len(self.output_ports()) > 1

    def shown(self, port: str) -> str:
        """What messages and model files call a port."""
        raise NotImplementedError

    def is_index(self, port: str) -> bool:
        """Whether an input holds indices: any 64-bit ones become 32-bit ones, no data."""
        raise NotImplementedError

    def fields_bound(self) -> dict[str, str | tuple[str, ...]]:
        """What is bound under a name, as messages and model files have it: a port, or those of an array of tensors."""
        raise NotImplementedError

    def by_field(self, ports: Mapping[str, Any]) -> dict[str, Any]:
        """What belongs to ports by the names that a caller gives it by: a tuple for an array of tensors."""
        raise NotImplementedError

    def may_share(self, output: str, other: str) -> bool:
        """Whether two ports may be bound to one buffer: an output and an input, laid out alike, of some operators."""
        ports = self.ports()
        return self.in_place and other in self.input_ports() and ports[output] == ports[other]

    def owned_by_field(self, ports: Mapping[str, Any]) -> dict[str, Any]:
        """What is handed over for some inputs, by field: of an array a tuple, with None for those that are not."""
        found = self.by_field(dict.fromkeys(self.input_ports()) | dict(ports))
        given = {name: value if isinstance(value, tuple) else (value,) for name, value in found.items()}
        return {name: found[name] for name, ones in given.items() if any(one is not None for one in ones)}

    def validate(self, feature_level: FeatureLevel | str = NEWEST) -> None:
        """Checks it against a feature level: a `FeatureLevel`, or a string such as "3_0".

        Raises:
          ConstraintError: the level lacks an operator, or takes no such ranks.
          DataTypeError: the level takes no such data types.
        """
        raise NotImplementedError

    def compute(self, *arrays: jax.Array | np.ndarray) -> R:
        """Runs it.

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
        given = {port: self._as_input(port, array) for port, array in zip(ports, arrays, strict=True)}
        for port, tensor in self.output_ports().items():
            if jax.dtypes.canonicalize_dtype(tensor.dtype) != tensor.dtype:
                rule = f"{self.shown(port)} of 64 bits needs 64-bit types: enable jax_enable_x64 around the call"
                raise DataTypeError(message(self.operator_type, rule, "jax_enable_x64 is off", {port: tensor}))
        return self.compute_ports(given)

    def compute_ports(self, arrays: Mapping[str, jax.Array]) -> R:
        """Runs it on arrays that are known to fit, given by port; of 64-bit indices 32-bit ones while x64 is off."""
        raise NotImplementedError

    def compute_stored(self, views: Mapping[str, jax.Array], words: bool) -> Sequence[jax.Array]:
        """The outputs, in order.

        Args:
          views: the inputs by port, of their sizes and data types.
          words: whether 64-bit elements, in and out, are pairs of 32-bit words, a last dimension of their arrays.
        """
        raise NotImplementedError

    def compute_buffers(self, buffers: Mapping[str, jax.Array], words: bool) -> Sequence[jax.Array]:
        """The same of flat buffers of the inputs, each of its span at least."""
        stored = {port: StoredTensor(tensor, words) for port, tensor in self.input_ports().items()}
        return self.compute_stored({port: one.view(buffers[port]) for port, one in stored.items()}, words)

    def as_array(self, port: str, value: Any) -> jax.Array:
        """An array of an input's data type; 64-bit indices are brought to 32 bits exactly while x64 is off.

        Raises:
          DataTypeError: no array, another data type, or 64-bit data while x64 is off.
        """
        shown, tensor = self.shown(port), self.input_ports()[port]
        of_indices = self.is_index(port)
        array = as_indices(self.operator_type, port, value) if of_indices else as_data(self.operator_type, shown, value)
        given = getattr(value, "dtype", array.dtype)
        if given != tensor.dtype:
            rule = f"the array of {shown} must have elements of {tensor.dtype}"
            raise DataTypeError(message(self.operator_type, rule, f"they are {given}", {shown: value}))
        return array

    def _as_input(self, port: str, value: Any) -> jax.Array:
        array, tensor, shown = self.as_array(port, value), self.input_ports()[port], self.shown(port)
        if array.shape != tensor.sizes:
            rule = f"the array of {shown} must have its sizes, {tensor.sizes}"
            raise ConstraintError(message(self.operator_type, rule, f"its shape is {array.shape}", {shown: array}))
        return array
