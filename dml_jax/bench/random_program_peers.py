"""Random programs and their gradients in jax.numpy and torch, where `operators` has no counterpart."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from . import gather_gradients
from .operators import OPERATORS
from .operators.operator_benchmark import Attributes, Form, Operator

Function = Callable[..., Any]
Way = Callable[[Function], Function]
AUTOGRAD = "autograd"  # the name of torch's gradients


# What is called of an operator's function.


def forward(function: Function) -> Function:
    return function


def gradient(function: Function) -> Function:
    """The vjp of a function, with its first result as the cotangent."""

    def pulled_back(*arrays: Any) -> Any:
        result, pull_back = jax.vjp(lambda *arrays: jax.tree.leaves(function(*arrays))[0], *arrays)
        return pull_back(result)

    return pulled_back


def _autograd(function: Callable[[Any], Function]) -> Mapping[str, Form]:
    """The gradient of a function that `function` makes of torch."""

    def form(torch: Any, _: Attributes) -> Function:
        called = function(torch)

        def pulled_back(out: Any, *arrays: Any) -> Any:
            leaves = [array.detach().requires_grad_() for array in arrays]
            result = called(*leaves)
            return torch.autograd.grad(result, leaves, result.detach())

        return pulled_back

    return {AUTOGRAD: form}


# Of groups.


def view(shape: Sequence[int], order: Sequence[int], sizes: Sequence[int]) -> Operator:
    """Reshape, transpose, and a slice of the last dimension."""
    part = tuple(slice(size) for size in sizes)
    return replace(OPERATORS["as_strided"], jnp=lambda _: lambda x: x.reshape(shape).transpose(order)[part])


def read_back(operator: str, table: tuple[int, int]) -> Operator:
    """Gradients of reads from a table of this shape, as they are measured by themselves."""
    row: Any = gather_gradients.FORMS[operator]
    return replace(row, jnp=lambda a: row.jnp({**a, "shape": table}))


def softmax(way: Way, axis: int) -> Operator:
    """Softmax in float32, as dml_jax computes it."""

    def into(torch: Any, _: Attributes) -> Function:
        return lambda out, x: torch.ops.aten._softmax.out(x, axis, False, out=out)

    forms = {"out": into} if way is forward else _autograd(lambda torch: lambda x: torch.softmax(x, axis))
    function = way(lambda x: jax.nn.softmax(x.astype(jnp.float32), axis).astype(x.dtype))
    return Operator(jnp=lambda _: function, torch=forms)


def windows(operator: str, way: Way, attributes: Attributes) -> Operator:
    """Pooling, columns of windows, and convolutions, without padding; forward they are usual, but for remainders."""
    step, (side, *_) = attributes["strides"], attributes.get("window_sizes", (0,))
    functions: Mapping[str, Callable[[Any], Function]] = {
        "max_pooling": lambda torch: lambda x: torch.nn.functional.max_pool2d(x, side, step),
        "average_pooling": lambda torch: lambda x: torch.nn.functional.avg_pool2d(x, side, step),
        "unfold": lambda torch: lambda x: torch.nn.functional.unfold(x, side, stride=step),
        "convolution": lambda torch: lambda x, w: torch.nn.functional.conv2d(x, w, stride=step),
    }
    row: Any = OPERATORS[operator]
    usual = row.jnp(attributes)

    def whole_windows(x: jax.Array) -> jax.Array:
        """Drops the rows and columns after the last window, if windows do not overlap."""
        return usual(x[..., : x.shape[2] // side * side, : x.shape[3] // side * side] if side == step[0] else x)

    def greatest(x: jax.Array) -> jax.Array:
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, side, side), (1, 1, *step), "VALID")

    special = {"unfold": whole_windows, "max_pooling": usual if way is forward else greatest}
    function = way(special.get(operator, usual))
    return replace(row, jnp=lambda _: function, torch=row.torch if way is forward else _autograd(functions[operator]))
