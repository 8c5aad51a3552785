"""Cases among which `benchmarks.forms` looks for those of a row: the benchmark's, and some of the row's own values."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp

from dml_jax.bench import accumulate, cases
from dml_jax.bench.case import Case, data, normal, random_indices

if TYPE_CHECKING:
    from .forms import Row

__all__ = ["Candidate", "candidates"]


class Candidate(NamedTuple):
    """A case, and what of it runs: the operator or its gradient."""

    case: Case
    function: Callable[..., Any]


def candidates(rows: Sequence["Row"], size: int) -> Iterator[Candidate]:
    """Cases of about `size` bytes, those of the rows' own values first."""
    of_operators = [
        *(case for row in rows if row.table == "depth_space" for case in _blocks(row.choice.where, size)),
        *(case for kind in _OTHERS for case in kind(size)),
        *cases.full(size),
        *cases.real(size),
    ]
    # Sorted indices that nobody has promised are another program's case, but for rows.
    distinct = {case.name: case for case in of_operators if "sorted" not in case.name or case.operator == "gather"}
    yield from (Candidate(case, case.call) for case in distinct.values())
    gradients = (
        *accumulate.cases(size),
        *(accumulate.of_rows(*of, {}) for of in GRADIENTS),
        *(accumulate.of_elements((size // 2**20, 2**17), 1, *of) for of in LONG_ROWS),
    )
    for case in gradients if any(row.table == "combine" for row in rows) else ():
        if case.moved <= 8 * size and "one id" not in case.name:
            yield Candidate(case, accumulate.gradient_of(case))


# Gradients that the benchmark of them lacks: rows, width, number of indices, type, distribution; and of long rows.
GRADIENTS = (
    (1024, 1024, 8192, "bfloat16", "uniform"),
    (1000000, 64, 65536, "float32", "uniform"),
    *((16384, 32, 262144, "float64", kind) for kind in ("uniform", "Zipf")),
)
LONG_ROWS = tuple((dtype, kind) for dtype in ("float32", "bfloat16") for kind in ("uniform", "Zipf"))

# What a row of depth_space that does not name a field is measured with.
FREE = {
    "to": ("space", "depth"),
    "data_format": ("NCHW", "NHWC"),
    "order": ("DCR", "CRD"),
    "block_size": (2, 4),
    "itemsize": (1, 2, 4),
    "channels": (16, 12, 3),
}


def _blocks(where: Mapping[str, Any], size: int) -> Iterator[Case]:
    """Pictures whose rows of blocks fill lines of 64 bytes; with larger blocks also others."""
    values = [_values(where.get(field), usual) for field, usual in FREE.items()]
    for to, data_format, order, b, itemsize, c in product(*values):
        for width in _widths(b):
            side = b * width
            n = max(1, round(size / (itemsize * c * side * side)))
            shape = (n, c, side, side) if to == "depth" else (n, c * b * b, width, width)
            laid = shape if data_format == "NCHW" else (shape[0], *shape[2:], shape[1])
            yield Case(
                "depth_to_space" if to == "space" else "space_to_depth",
                f"{data_format} {order} b={b} of {'x'.join(map(str, laid))}, {itemsize} bytes",
                {"block_size": b, "order": order, "data_format": data_format},
                lambda laid=laid, itemsize=itemsize: (data(laid, itemsize),),
                2 * prod(shape) * itemsize,
            )


def _widths(b: int) -> Sequence[int]:
    """How many blocks are in a row."""
    filling = max(64, 768 // b // 64 * 64)
    return (filling, 50, 32) if b >= 5 else (filling, 14) if b == 2 else (filling,)


def _values(allowed: Any, usual: Sequence[Any]) -> Sequence[Any]:
    """What a field may be: all that a row lists, the usual values that lie in its range, or all usual ones."""
    if isinstance(allowed, range):
        return [value for value in usual if value in allowed]
    return sorted(allowed) if allowed else usual


# Bytes of an element or its type, sizes in memory, and the order of the dimensions of a view; the first size grows with
# the data.
TURNED = (
    (1, (8192, 32, 128), (1, 0, 2)),
    (1, (1, 4096, 11008), (0, 2, 1)),
    (2, (1, 4096, 11008), (0, 2, 1)),
    (1, (1, 196, 768), (0, 2, 1)),
    (2, (1, 196, 768), (0, 2, 1)),
    (1, (1, 196, 256), (0, 2, 1)),
    (2, (1, 196, 256), (0, 2, 1)),
    (1, (16384, 12, 20), (1, 0, 2)),
    (1, (8192, 12, 96), (1, 0, 2)),
    (1, (1, 1024, 1024), (0, 2, 1)),
    (2, (1, 1024, 1024), (0, 2, 1)),
    (2, (32000, 512), (1, 0)),
    (1, (32000, 1024), (1, 0)),
    (1, (32000, 512), (1, 0)),
    (4, (1024, 1024), (1, 0)),
    (8, (1024, 1024), (1, 0)),
    (1, (64, 64, 4096), (2, 1, 0)),
    (2, (64, 64, 4096), (2, 1, 0)),
    ("bfloat16", (1024, 1024), (1, 0)),
    ("bfloat16", (1, 56, 56, 64), (0, 3, 1, 2)),
    (4, (1, 224, 224, 3), (0, 3, 1, 2)),
    (4, (1, 3, 224, 224), (0, 2, 3, 1)),
    *(
        (itemsize, (1, *sizes), order)
        for itemsize in (1, 2)
        for pixels, c in (
            (224, 2),
            (224, 3),
            (56, 8),
            (56, 5),
            (28, 9),
            (56, 10),
            (56, 12),
            (56, 64),
            (14, 64),
            (28, 96),
            (28, 192),
            (56, 256),
        )
        for sizes, order in (((pixels, pixels, c), (0, 3, 1, 2)), ((c, pixels, pixels), (0, 2, 3, 1)))
    ),
)


def _written(size: int) -> Iterator[Case]:
    """Rows that are combined with those of a table: all of it, a small part, or few."""
    rows = size // 256
    for dtype, reduction, count, written in (
        ("int8", "add", rows, rows),
        ("int8", "add", rows, 1024),
        ("uint16", "add", rows, rows),
        ("bfloat16", "max", rows // 64, rows),
        ("bfloat16", "add", rows // 64, rows),
    ):
        width = 256 // jnp.dtype(dtype).itemsize
        yield Case(
            "scatter_nd",
            f"{reduction} {count} rows of 256 bytes into {written} of {rows}, {dtype}",
            {"reduction": reduction},
            lambda dtype=dtype, count=count, written=written, width=width: (
                data((rows, width), dtype),
                random_indices(written, (count, 1)),
                data((count, width), dtype),
            ),
            512 * rows + 256 * count,
            tolerance=1e-2 if dtype == "bfloat16" else 0.0,
        )


def _reduced(size: int) -> Iterator[Case]:
    of_rows = (("bfloat16", "multiply"), ("bfloat16", "log_sum_exp"), ("int32", "sum_square"))
    for dtype, function, axis, shape in (
        *((dtype, function, 1, (size // 1024, 1024)) for dtype, function in of_rows),
        *(("float32", function, 0, (16, size // 64)) for function in ("sum", "max")),
    ):
        yield Case(
            "reduce",
            f"{function}, axes {axis} of {'x'.join(map(str, shape))} {dtype}",
            {"function": function, "axes": (axis,)},
            lambda shape=shape, dtype=dtype: ((1 + 0.01 * normal(shape, "float32")).astype(dtype),),
            prod(shape) * jnp.dtype(dtype).itemsize,
            tolerance={"bfloat16": 1e-2, "int32": 0.0, "float32": 2**-16}[dtype],
        )


def _turned(size: int) -> Iterator[Case]:
    for kind, (first, *sizes), order in TURNED:
        of_one, name = (kind, f"{kind} bytes") if isinstance(kind, int) else (jnp.dtype(kind).itemsize, kind)
        shape = max(first, size // (of_one * prod(sizes))), *sizes
        count = prod(shape)
        yield Case(
            "as_strided",
            f"{'x'.join(map(str, shape))} with dimensions {order}, {name}",
            {"sizes": tuple(shape[d] for d in order), "strides": tuple(prod(shape[d + 1 :]) for d in order)},
            lambda n=count, kind=kind: (data((n,), kind),),
            2 * count * of_one,
        )


def _repeated(size: int) -> Iterator[Case]:
    """A row again and again, of a buffer whose last word is torn."""
    columns = 2**16
    for itemsize in (1, 2):
        yield Case(
            "as_strided",
            f"broadcast rows of an odd buffer, {itemsize} bytes",
            {"sizes": (size // itemsize // columns, columns), "strides": (0, 1)},
            lambda itemsize=itemsize: (data((columns + 1,), itemsize),),
            size,
        )


def _gathered(size: int) -> Iterator[Case]:
    cold = 2**26  # bytes of a table that no cache holds
    warm_rows = (1, 24, 0), (2, 24, 0), (4, 24, 0)
    cold_rows = [(*row, cold) for row in ((4, 8), (4, 12), (4, 16), (1, 64), (2, 64))]
    for itemsize, width, least in (*warm_rows, *cold_rows):
        count = max(size, least) // (width * itemsize)
        yield Case(
            "gather",
            f"rows of {width} elements of {count}, {itemsize} bytes",
            {"axis": 0},
            lambda itemsize=itemsize, width=width, count=count: (
                data((count, width), itemsize),
                random_indices(count, (count,)),
            ),
            2 * width * itemsize * count + 4 * count,
        )
    for itemsize, columns in product((1, 2), (64, 512, 8192)):
        shape = (size // (itemsize * columns), columns)
        yield Case(
            "gather",
            f"columns of {shape[0]}x{columns}, {itemsize} bytes",
            {"axis": 1},
            lambda shape=shape, itemsize=itemsize: (data(shape, itemsize), random_indices(shape[1], (shape[1],))),
            2 * size,
        )
    for length in (1024, 8192, 32768):
        shape = (length, size // (4 * length))
        yield Case(
            "gather_elements",
            f"axis 0 of {shape[0]}x{shape[1]} float32",
            {"axis": 0},
            lambda shape=shape: (normal(shape, "float32"), random_indices(shape[0], shape)),
            3 * size,
        )


def _scanned(size: int) -> Iterator[Case]:
    """Rows of odd lengths, added up from their end."""
    for dtype in ("float32", "bfloat16"):
        shape = (size // (1000 * jnp.dtype(dtype).itemsize), 1000)
        yield Case(
            "cumulative_summation",
            f"axis 1, decreasing, of {shape[0]}x1000 {dtype}",
            {"axis": 1, "direction": "decreasing"},
            lambda shape=shape, dtype=dtype: ((normal(shape, "float32") > 0).astype(dtype),),
            2 * size,
            tolerance=1e-2,
        )


def _bordered(size: int) -> Iterator[Case]:
    """Borders along one dimension."""
    for mode in ("edge", "reflection"):
        shape = (size // 224**2, 224, 224)
        yield Case(
            "pad",
            f"{mode} 0+0,3+3 of {'x'.join(map(str, shape))} uint8",
            {"mode": mode, "start_padding": (0, 0, 3), "end_padding": (0, 0, 3)},
            lambda shape=shape: (data(shape, 1),),
            2 * size,
        )


# What no benchmark of an operator has.
_OTHERS: Sequence[Callable[[int], Iterator[Case]]] = (
    *(_written, _reduced, _turned, _repeated, _gathered, _scanned, _bordered),
)
