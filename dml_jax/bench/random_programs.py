"""Random programs of the operators: shapes, types and indices that nobody tuned for. A seed draws the same anywhere."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from math import prod
from typing import Any

import dml_jax

from ..core.structs.activation import Activation
from . import random_program_peers as peers
from .case import Case, Drawn, data, dims
from .gather_gradients import read_gradient
from .random_draws import Draws
from .random_program_peers import forward, gradient

Function = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class Program(Case):
    """A call of one operator, or of its gradient.

    Args:
      group: one of `GROUPS`.
      way: makes what is called of the operator's function.
    """

    group: str
    way: Callable[[Function], Function] = field(compare=False)

    def call(self, *arrays: Any) -> Any:
        return self.of(dml_jax)(*arrays)

    def of(self, package: Any) -> Function:
        """The program as a function of the operator in `package`, such as dml_jax."""
        function = partial(getattr(package, self.operator), **self.attributes)
        return self.way((lambda *arrays: function(arrays)) if self.operator == "join" else function)


def drawn(seed: int, size: int, seconds: float, groups: Sequence[str] = ()) -> Iterator[Program]:
    """A program of each group in turn, once at least, until the time is over; each is drawn on its own.

    Args:
      seed: of all.
      size: bytes of the data of each, about.
      seconds: from the first one on.
      groups: of `GROUPS`; all of them if none is named.
    """
    end = time.monotonic() + seconds
    for number, group in enumerate(cycle(groups or GROUPS)):
        if number >= len(groups or GROUPS) and time.monotonic() > end:
            return
        yield GROUPS[group](Draws((seed, number), size))


def _program(
    operator: str,
    group: str,
    attributes: Mapping[str, Any],
    arrays: Sequence[Drawn],
    *,
    way: Callable[[Function], Function] = forward,
    said: str | None = None,
    **rest: Any,
) -> Program:
    """Builds a program, named by operator, group, and the drawn attributes except zeros, or by `said`."""
    given = [f"{name}={value}" for name, value in attributes.items() if value not in ((0, 0), (0, 0, 0, 0))]
    words = [f"{group},", *(["gradient"] if way is gradient else []), *([said] if said else given)]
    detail = f"{' '.join(words)}: {', '.join(f'{x.dtype} {dims(x.shape)}' for x in arrays)}"
    return Program(operator, detail, attributes, arrays, group=group, way=way, **rest)


# Groups.


def _blocks(draws: Draws) -> Program:
    b, dtype = draws.pick(2, 2, 2, 3, 4, 4, 5, 6, 7, 8, 10, 12, 14, 16), draws.dtype()
    order, layout, to = draws.pick("DCR", "CRD"), draws.pick("NCHW", "NHWC"), draws.pick("space", "depth")
    sizes = draws.between(1, 128), draws.between(14, 180), draws.between(14, 480)
    n, c, h, w = draws.fitted(dtype, *sizes, parts=b * b)
    dims = (c * b * b, h, w) if to == "space" else (c, h * b, w * b)
    shape = (n, *dims) if layout == "NCHW" else (n, *dims[1:], dims[0])
    operator = "depth_to_space" if to == "space" else "space_to_depth"
    attributes = {"block_size": b, "order": order, "data_format": layout}
    return _program(operator, "blocks", attributes, [data(shape, dtype)])


def _views(draws: Draws) -> Program:
    """Views: permuted dimensions, or rows without their last few elements."""
    dtype, rank = draws.dtype(), draws.pick(2, 2, 3, 3, 4, 5)
    shape = [int(n) for n in draws.random.permutation(draws.fitted(dtype, *draws.many(rank - 1, 2, 1024)))]
    order, left_out = draws.random.permutation(rank).tolist(), 0
    if draws.pick(*[False] * 4, True):
        order, left_out = [*range(rank)], draws.pick(1, 2, 4)
    sizes = tuple(max(1, shape[d] - left_out * (d == rank - 1)) for d in order)
    attributes = {"sizes": sizes, "strides": tuple(prod(shape[d + 1 :]) for d in order)}
    needed, forms = 2 * prod(sizes) * dtype.itemsize, peers.view(shape, order, sizes)
    return _program("as_strided", "views", attributes, [data((prod(shape),), dtype)], forms=forms, needed=needed)


def _rows(draws: Draws) -> Program:
    dtype, width = draws.dtype(), draws.between(1, 8192)
    count = min(2**24, max(16, draws.size // (width * dtype.itemsize)))
    table = max(16, int(count * draws.pick(0.02, 0.25, 1, 2)))
    at = draws.indices(table, (count,))
    needed = 2 * count * width * dtype.itemsize + at.nbytes
    return _program("gather", "rows", {"axis": 0}, [data((table, width), dtype), at], needed=needed)


def _elements(draws: Draws) -> Program:
    dtype = draws.dtype()
    shape, axis = draws.matrix(dtype), draws.pick(0, 1, 1)
    at = draws.indices(shape[axis], shape, axis)
    return _program("gather_elements", "elements", {"axis": axis}, [data(shape, dtype), at])


def _gradients(draws: Draws) -> Program:
    dtype = draws.float()
    if draws.pick(True, True, False):
        operator, axis, width = "gather", 0, draws.between(4, 4096)
        count = max(16, draws.size // (width * dtype.itemsize))
        table = (max(16, int(count * draws.pick(0.01, 0.1, 1, 2, 4))), width)
        arrays = draws.few_signs((count, width), dtype), draws.indices(table[0], (count,))
    else:
        operator, table, axis = "gather_elements", draws.matrix(dtype), draws.pick(0, 1)
        arrays = draws.few_signs(table, dtype), draws.indices(table[axis], table, axis)
    way, forms = partial(read_gradient, table), peers.read_back(operator, table)
    return _program(operator, "gradients", {"axis": axis}, arrays, way=way, forms=forms)


def _narrow(draws: Draws) -> Program:
    dtype = draws.dtype()
    shape = draws.fitted(dtype, draws.between(1, 64), draws.between(30, 224), draws.between(17, 1000))
    _, _, h, w = shape
    array, axis = data(shape, dtype), draws.pick(0, 1, 2, 3)
    operator = draws.pick("pad", "slice", "tile", "join", "split")
    narrow = partial(_program, operator, "narrow")
    if operator == "join":
        return narrow({"axis": axis}, [array, array])
    if operator == "split":
        axis, size = draws.pick((2, h), (3, w))
        return narrow({"axis": axis, "sizes": (size // 3, size - size // 3)}, [array])
    if operator == "tile":
        return narrow({"repeats": tuple(1 + (d == axis) * draws.pick(1, 1, 3) for d in range(4))}, [array])
    if operator == "pad":
        borders = {
            side: (0, 0, draws.pick(0, 1, 3), draws.pick(1, 2, 3, 4)) for side in ("start_padding", "end_padding")
        }
        mode = draws.pick("constant", "edge", "reflection")
        return narrow({**borders, "mode": mode, **({"value": 0} if mode == "constant" else {})}, [array])
    starts, step = (0, 0, draws.pick(0, 1, 4), draws.pick(0, 1, 3, 4)), draws.pick(1, 1, 2, -1)
    sizes = (*shape[:2], h - 2 * starts[2], w - 2 * starts[3])
    window = {"input_window_offsets": starts, "input_window_sizes": sizes, "input_window_strides": (1, 1, 1, step)}
    made = prod(sizes[:3]) * (1 + (sizes[3] - 1) // abs(step)) * dtype.itemsize
    return narrow(window, [array], needed=array.nbytes // abs(step) + made)


def _reductions(draws: Draws) -> Program:
    dtype = draws.float()
    shape, axis = draws.matrix(dtype), draws.pick(0, 1, 1)
    operator = draws.pick("reduce", "cumulative_summation", "activate", "top_k")
    reduction, array = partial(_program, operator, "reductions"), draws.few_signs(shape, dtype)
    if operator == "reduce":
        function = draws.pick("sum", "average", "max", "argmax", "sum_square", "log_sum_exp")
        tolerance = 2**-6 if function in ("average", "log_sum_exp") else 0.0
        attributes = {"function": function, "axes": (axis,)}
        return reduction(attributes, [array], tolerance=tolerance)
    if operator == "activate":
        way = draws.pick(forward, gradient)
        attributes = {"activation": Activation("ACTIVATION_SOFTMAX1", ((axis,),))}
        forms = peers.softmax(way, axis)
        return reduction(attributes, [array], way=way, forms=forms, said=f"softmax axis={axis}", tolerance=2**-6)
    if operator == "top_k":
        k = min(shape[axis], draws.pick(1, 5, 50))
        return reduction({"axis": axis, "k": k}, [draws.different(shape, dtype, axis)])
    return reduction({"axis": axis, "direction": draws.pick("increasing", "decreasing")}, [array])


def _windows(draws: Draws) -> Program:
    dtype, side, way = draws.float(), draws.pick(1, 2, 3, 3, 5, 7), draws.pick(forward, gradient)
    shape = draws.fitted(dtype, draws.between(1, 128), draws.between(14, 224), draws.between(14, 224))
    step, none = draws.pick(1, 2, side), (0, 0)
    operator = draws.pick("max_pooling", "average_pooling", "unfold", "convolution")
    attributes = {"strides": (step, step), "start_padding": none, "end_padding": none}
    if operator != "convolution":
        attributes = {"window_sizes": (side, side), **attributes}
        arrays, rest = [draws.few_signs(shape, dtype)], {}
    else:  # of a sixteenth, as every element is multiplied many times
        n, (c, h, w), filters = -(-shape[0] // 16), shape[1:], draws.between(1, 64)
        attributes["group_count"] = 1
        arrays = [draws.few_signs((n, c, h, w), dtype), draws.few_signs((filters, c, side, side), dtype)]
        products = n * c * filters * side**2 * ((h - side) // step + 1) * ((w - side) // step + 1)
        rest = {"operations": 2 * products * (1 if way is forward else 3)}
    forms = peers.windows(operator, way, attributes)
    return _program(operator, "windows", attributes, arrays, way=way, forms=forms, tolerance=2**-6, **rest)


GROUPS: Mapping[str, Callable[[Draws], Program]] = {
    "blocks": _blocks,
    "views": _views,
    "rows": _rows,
    "elements": _elements,
    "gradients": _gradients,
    "narrow": _narrow,
    "reductions": _reductions,
    "windows": _windows,
}
