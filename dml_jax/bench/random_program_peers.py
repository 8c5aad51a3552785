"""Random programs and their gradients in jax.numpy and torch, where `operators` has no counterpart."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from . import gather_gradients
from .operators import OPERATORS

Function = Callable[..., Any]
Way = Callable[[Function], Function]
Torch = Mapping[str, Callable[[Any], Function]]


class Twins(NamedTuple):
    """The functions of jax.numpy and torch; None means those that `operators` has for the operator.

    Args:
      jnp: a function of the operator's arrays, of which the gradient is taken where the program is one.
      torch: the whole program by the implementation's name: of torch, a function that writes into its first argument,
        or that returns what holds the result.
    """

    jnp: Function | None = None
    torch: Torch | None = None


USUAL = Twins()


# What is called of an operator's function.


def forward(function: Function) -> Function:
    return function


def gradient(function: Function) -> Function:
    """The vjp of a function, with its first result as the cotangent."""

    def pulled_back(*arrays: Any) -> Any:
        result, pull_back = jax.vjp(lambda *arrays: jax.tree.leaves(function(*arrays))[0], *arrays)
        return pull_back(result)

    return pulled_back


def _autograd(function: Callable[[Any], Function]) -> Torch:
    """The gradient of a function that `function` makes of torch."""

    def form(torch: Any) -> Function:
        called = function(torch)

        def pulled_back(out: Any, *arrays: Any) -> Any:
            leaves = [array.detach().requires_grad_() for array in arrays]
            result = called(*leaves)
            return torch.autograd.grad(result, leaves, result.detach())

        return pulled_back

    return {"torch autograd": form}


# Of groups.


def view(shape: Sequence[int], order: Sequence[int], sizes: Sequence[int]) -> Twins:
    """Reshape, transpose, and a slice of the last dimension."""
    return Twins(lambda x: x.reshape(shape).transpose(order)[tuple(slice(size) for size in sizes)])


def reads(operator: str, axis: int) -> Twins:
    """Gradients of reads; jax.numpy has its best form if it adds in float32."""
    read: Function = {"gather": jnp.take, "gather_elements": jnp.take_along_axis}[operator]
    names = [name for name in gather_gradients.TORCH if operator == "gather" or "scatter" in name]

    def form(write: Function) -> Callable[[Any], Function]:
        return lambda torch: lambda out, updates, indices: write(out, updates, indices, axis)

    return Twins(
        lambda table, at: read(table.astype(jnp.float32), at, axis=axis, mode="clip").astype(table.dtype),
        {name: form(gather_gradients.TORCH[name]) for name in names},
    )


def softmax(way: Way, axis: int) -> Twins:
    """Softmax in float32, as dml_jax computes it."""
    into: Torch = {"torch out": lambda torch: lambda out, x: torch.ops.aten._softmax.out(x, axis, False, out=out)}
    others = into if way is forward else _autograd(lambda torch: lambda x: torch.softmax(x, axis))
    return Twins(lambda x: jax.nn.softmax(x.astype(jnp.float32), axis).astype(x.dtype), others)


def windows(operator: str, way: Way, attributes: Mapping[str, Any]) -> Twins:
    """Pooling, columns of windows, and convolutions, without padding; forward they are usual, but for remainders."""
    step, (side, *_) = attributes["strides"], attributes.get("window_sizes", (0,))
    functions: Mapping[str, Callable[[Any], Function]] = {
        "max_pooling": lambda torch: lambda x: torch.nn.functional.max_pool2d(x, side, step),
        "average_pooling": lambda torch: lambda x: torch.nn.functional.avg_pool2d(x, side, step),
        "unfold": lambda torch: lambda x: torch.nn.functional.unfold(x, side, stride=step),
        "convolution": lambda torch: lambda x, w: torch.nn.functional.conv2d(x, w, stride=step),
    }
    form = OPERATORS[operator].jnp
    assert form  # all windows have one
    usual = form(attributes)

    def whole_windows(x: jax.Array) -> jax.Array:
        """Drops the rows and columns after the last window, if windows do not overlap."""
        return usual(x[..., : x.shape[2] // side * side, : x.shape[3] // side * side] if side == step[0] else x)

    def greatest(x: jax.Array) -> jax.Array:
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, side, side), (1, 1, *step), "VALID")

    special = {"unfold": whole_windows, "max_pooling": usual if way is forward else greatest}
    return Twins(special.get(operator, usual), None if way is forward else _autograd(functions[operator]))
