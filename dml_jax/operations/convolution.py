"""Convolutions with strides, dilations, padding and groups, and their gradients, which may run as variants too."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from math import gcd, prod
from operator import add
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero

from .programs.partition import mesh_of_axes, whole_along
from .programs.primitive import Move, transposed
from .programs.variant_selection import choose, known_bytes, shapes_of
from .sliding_windows import Windows

# Takes x [N, C, *sizes] and w [O, C / groups, *kernel]; returns [N, O, *counts].
Convolve = Callable[[jax.Array, jax.Array], jax.Array]
# The three arrays of a convolution: two make the third, which is linear in each of them.
Part = Literal["input", "filter", "output"]
PARTS: tuple[Part, Part, Part] = ("input", "filter", "output")


@dataclass(frozen=True)
class _Call:
    """One convolution.

    Args:
      x: shape and type of the input.
      w: of the filter.
      windows: of the filter along each spatial dimension.
      groups: of channels.
      precision: of products on accelerators.
      sums: the type in which forms add up that widen x and w first: theirs, or a wider one.
      output: the type of the output: `sums`, or in derivatives that of x and w.
    """

    x: Any
    w: Any
    windows: Sequence[Windows]
    groups: int
    precision: lax.Precision | None
    sums: Any
    output: Any

    operation: ClassVar[str] = "convolution"

    def __call__(self, x: jax.Array, w: jax.Array) -> jax.Array:
        return self._convolved(x, w, [d.stride for d in self.windows], [(d.start, d.end) for d in self.windows])

    def _convolved(self, x: jax.Array, w: jax.Array, strides: Any, pads: Any, apart: Any = None) -> jax.Array:
        return lax.conv_general_dilated(
            x,
            w,
            strides,
            pads,
            lhs_dilation=apart,
            rhs_dilation=[dim.dilation for dim in self.windows],
            feature_group_count=self.groups,
            precision=self.precision,
            preferred_element_type=self.output,
        )

    @property
    def of_group(self) -> Convolve:
        """The convolution of one group, in the type of its sums."""
        return replace(self, groups=1, output=self.sums)

    @cached_property
    def y(self) -> jax.ShapeDtypeStruct:
        """Shape and type of the output; JAX finds symbolic sizes, by tracing the convolution a second time."""
        shape = (self.x.shape[0], self.w.shape[0], *self.made)
        if all(isinstance(n, int) for n in (*self.x.shape, *shape)):
            return jax.ShapeDtypeStruct(shape, self.output)
        return jax.eval_shape(self, self.x, self.w)

    @property
    def made(self) -> Sequence[int]:
        """The spatial sizes of the output."""
        return [dim.count for dim in self.windows]


@dataclass(frozen=True)
class _TransposedCall(_Call):
    """The transpose of a convolution, with zeros between the elements of x.

    Args:
      x: shape and type of the input: the output of a convolution, or its cotangent.
      w: of the filter, reversed.
      windows: of the filter along each spatial dimension of x, with the sizes of x.
      sizes: the spatial sizes of the output.
    """

    sizes: Sequence[int]

    operation: ClassVar[str] = "transposed convolution"

    @property
    def made(self) -> Sequence[int]:
        return self.sizes

    def __call__(self, x: jax.Array, w: jax.Array) -> jax.Array:
        # With zeros in between, 3 elements at stride 2 are 5. A filter of 3 makes 7 of these, as 2 zeros are put on
        # either side. The padding of the convolution is cut from the 7: it was no part of the array.
        starts = [dim.span - 1 - dim.start for dim in self.windows]
        pairs = zip(self.sizes, self.windows, strict=True)
        ends = [n + dim.start - dim.stride * (dim.size - 1) - 1 for n, dim in pairs]
        apart = [dim.stride for dim in self.windows]
        return self._convolved(x, w, [1] * len(self.windows), list(zip(starts, ends, strict=True)), apart)


@dataclass(frozen=True)
class ConvolutionCase:
    """One convolution, or a part of its derivative, for the choice between implementations.

    Args:
      call: the convolution.
      gives: the array that is computed: the output, or the gradient of the input or of the filter.
      devices: among which XLA may divide an array.
    """

    call: _Call
    gives: Part
    devices: int

    @property
    def bytes(self) -> int:
        """The bytes of all arrays; the input counts once for each filter that multiplies it."""
        x, w, y = self.call.x, self.call.w, self.call.y
        filters = w.shape[0] // self.call.groups
        return known_bytes(w, y) + filters * self.column_bytes if all(map(known_bytes, (x, w, y))) else 0

    @property
    def result(self) -> jax.ShapeDtypeStruct:
        """Shape and type of the array that is computed."""
        return {"input": self.call.x, "filter": self.call.w, "output": self.call.y}[self.gives]

    @property
    def plain(self) -> Move:
        return self.computed_by(self.call) if self.devices == 1 else _on_several_devices(self)

    @property
    def is_depthwise(self) -> bool:
        """Whether each of several channels has filters of its own."""
        return 1 < self.call.groups == self.call.x.shape[1]

    @property
    def kernel(self) -> int:
        """Elements of a filter, per channel."""
        return prod(self.call.w.shape[2:])

    @property
    def places(self) -> int:
        """The number of positions of a filter, in all examples."""
        return self.call.y.shape[0] * prod(self.call.y.shape[2:])

    @property
    def column_bytes(self) -> int:
        """Bytes of the elements under the filter at all places, in the type of the sums."""
        return self.call.x.shape[1] * self.kernel * self.places * self.call.sums.itemsize

    def widened(self, convolve: Convolve) -> Move:
        """`computed_by` a convolution of arrays in the type of their sums."""
        sums = self.call.sums
        return self.computed_by(lambda x, w: convolve(x.astype(sums), w.astype(sums)).astype(self.call.output))

    def computed_by(self, convolve: Convolve) -> Move:
        """The function of (None, and the two other arrays) that computes the array `gives` by `convolve`."""
        moves: dict[Part, Move] = {
            "input": lambda _, w, y: transposed(lambda x: convolve(x, w), self.call.x, y),
            "filter": lambda _, x, y: transposed(lambda w: convolve(x, w), self.call.w, y),
            "output": lambda _, x, w: convolve(x, w),
        }
        return moves[self.gives]


def _on_several_devices(case: ConvolutionCase) -> Move:
    """The plain implementation on several devices: on a mesh of several axes each has whole pictures and filters.

    XLA may divide examples and channels. It adds up the products of too many devices (jaxlib 0.10.1 to 0.12.0.1) where
    it divides any operand over one axis of a mesh, and over another axis either pictures, or the examples that the
    gradient of a filter of several groups sums.
    """

    def move(_: None, *operands: jax.Array) -> jax.Array:
        mesh = mesh_of_axes(case.devices, *operands)  # on a mesh of one axis XLA is right
        if mesh is None:
            return case.computed_by(case.call)(None, *operands)
        if case.gives == "filter" and case.call.groups > 1:
            return _filter_gradient(case, mesh, *operands)
        spatial = range(2, operands[0].ndim)
        return case.computed_by(whole_along(mesh, case.call, (spatial, spatial), spatial))(None, *operands)

    return move


def _filter_gradient(case: ConvolutionCase, mesh: Any, x: jax.Array, y: jax.Array) -> jax.Array:
    """The filter's gradient as a sum over parts of the batch, as many as devices: none needs examples of another.

    Of 6 examples on 2 x 4 devices: the sum of 2 gradients, each of 3 examples. XLA may divide the parts alone: where
    it divides channels among more devices than there are groups, it ends the process.
    """
    (batch, *_), wide, every = x.shape, case.call.sums, range(x.ndim)
    parts = gcd(batch, case.devices) if isinstance(batch, int) else 1
    x, y = (array.astype(wide).reshape(parts, batch // parts, *array.shape[1:]) for array in (x, y))
    of = partial(jax.ShapeDtypeStruct, dtype=wide)
    call = replace(case.call, x=of(x.shape[1:]), w=of(case.result.shape), output=wide)
    # Under jax.vmap the dimension of the parts stays free, and XLA may divide it.
    convolve = whole_along(mesh, call, (every, every), every)
    gradients = jax.vmap(partial(replace(case, call=call).computed_by(convolve), None))(x, y)
    return gradients.sum(0).astype(case.result.dtype)


def convolve(
    x: jax.Array,
    w: jax.Array,
    windows: Sequence[Windows],
    groups: int = 1,
    precision: lax.Precision | None = None,
    sums: Any = None,
) -> jax.Array:
    """Convolves each group of channels.

    Floats of 16 bits are multiplied as they are. In derivatives the output's cotangent is rounded to x's type first.

    Args:
      x: [N, C, *sizes].
      w: [O, C / groups, *kernel], of x's type.
      windows: of the filter along each spatial dimension of x.
      groups: divides C and O.
      precision: of products on accelerators; None is the one that JAX is set to.
      sums: the type of the result, wider than x's or, by default, the same.

    Returns:
      [N, O, *counts].
    """
    (of_x, of_w), sums = shapes_of(x, w), jnp.dtype(sums or x.dtype)
    return _contract(_Call(of_x, of_w, tuple(windows), groups, precision, sums, sums), "output", x, w)


def _contract(call: _Call, gives: Part, *operands: jax.Array) -> jax.Array:
    """One of the arrays of a convolution from the other two, in the order of `PARTS`."""
    others: Sequence[Part] = [part for part in PARTS if part != gives]
    narrow = replace(call, output=call.x.dtype)

    def back(_: None, cotangent: jax.Array, like: Sequence[jax.Array]) -> Sequence[jax.Array]:
        # Each gradient is again one of the three arrays made from two others, so it has variants and derivatives, too.
        known = {**dict(zip(others, like, strict=True)), gives: cotangent.astype(narrow.output)}
        return [_contract(narrow, part, *(known[other] for other in PARTS if other != part)) for part in others]

    @jax.custom_jvp
    def contract(*operands: jax.Array) -> jax.Array:
        case_of = partial(ConvolutionCase, call, gives)
        return choose(call.operation, case_of, back, is_back_open=True)(None, *operands)

    def differentiate(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
        """Linear in each operand; nothing is computed for one that does not vary, such as the pictures of a network."""
        (a, b), (of_a, of_b), result = primals, tangents, contract(*primals)
        terms = [] if isinstance(of_a, SymbolicZero) else [_contract(call, gives, of_a, b)]
        terms += [] if isinstance(of_b, SymbolicZero) else [_contract(call, gives, a, of_b)]
        return result, reduce(add, terms) if terms else jnp.zeros_like(result)

    contract.defjvp(differentiate, symbolic_zeros=True)
    return contract(*operands)


def convolve_back(
    x: jax.Array,
    w: jax.Array,
    windows: Sequence[Windows],
    sizes: Sequence[int],
    groups: int,
    precision: lax.Precision | None,
    sums: Any = None,
) -> jax.Array:
    """The transpose of `convolve`, for a filter that is reversed: a convolution with zeros between the elements of x.

    Args:
      x: [N, C, *counts], the output of a convolution, or its cotangent.
      w: [C, O / groups, *kernel], of x's type.
      windows: of the filter along each spatial dimension of x, with the sizes *counts.
      sizes: the spatial sizes of the output.
      groups: divides C and O.
      precision: of products on accelerators; None is the one that JAX is set to.
      sums: the type of the result, wider than x's or, by default, the same.

    Returns:
      [N, O, *sizes].
    """
    channels, outputs, *spatial = w.shape
    # A filter of a transposed convolution has its input channels first, over all groups. lax wants the outputs of all
    # groups first: [2 groups of 3, 5] becomes [2 groups of 5, 3].
    by_group = w.reshape(groups, channels // groups, outputs, *spatial).swapaxes(1, 2)
    by_group = by_group.reshape(groups * outputs, channels // groups, *spatial)
    (of_x, of_w), sums = shapes_of(x, by_group), jnp.dtype(sums or x.dtype)
    call = _TransposedCall(of_x, of_w, tuple(windows), groups, precision, sums, sums, tuple(sizes))
    return _contract(call, "output", x, by_group)
