"""The rules of operators whose indices are tuples of coordinates: real dimension counts, batches, slices."""

from .rules import Fact, Operands, Rule, custom, sizes_follow
from .struct_rules import dimension_count, fits_rank, ignored_sizes_are_1, right_aligned

__all__ = ["BATCH_RULES", "slices", "tuple_rules"]


def _counts_hold(x: Operands) -> bool:
    input, indices, ic, xc = len(x["input"].sizes), len(x["indices"].sizes), *_counts(x)
    return 1 <= ic <= input and 1 <= xc <= indices and 0 <= _batch(x) < min(ic, xc)


def _counts(x: Operands) -> tuple[int, int]:
    return x["input_dimension_count"], x["indices_dimension_count"]


def _batch(x: Operands) -> int:
    return x.get("batch_dimension_count", 0)


def _tuple_size(x: Operands) -> Fact:
    if not _counts_hold(x):
        return None
    t, most = x["indices"].sizes[-1], _counts(x)[0] - _batch(x)
    return None if 1 <= t <= most else f"a tuple has {t} and {most} dimensions can be indexed"


def slices(x: Operands) -> tuple[int, ...] | None:
    """The sizes of the slices that the tuples address: all but the last real size of indices, then the input's rest."""
    if not _counts_hold(x) or _tuple_size(x):
        return None
    (ic, xc), input, indices = _counts(x), x["input"].sizes, x["indices"].sizes
    return (*indices[len(indices) - xc : -1], *input[len(input) - ic + _batch(x) + indices[-1] :])


def tuple_rules(sliced: str, batch: str = "") -> tuple[Rule, ...]:
    """The rules of the operators whose indices are tuples; `sliced` is the tensor of slices."""
    minus_batch, from_batch = (f" - {batch}", f"{batch} + ") if batch else ("", "")
    head = f"X[:-1] + I[{from_batch}X[-1]:]"
    legend = (
        "where X is the last {indices_dimension_count} of {indices}.{sizes} "
        "and I the last {input_dimension_count} of {input}.{sizes}"
    )
    fits = fits_rank(sliced, slices, f"{head} must have at most {{input}}.{{rank}} sizes, {legend}", crop=False)

    def aligned(x: Operands) -> tuple[int, ...] | None:
        sizes = slices(x)
        return None if sizes is None or fits.broken_by(x) else right_aligned(sizes, len(x["input"].sizes))

    return (
        dimension_count("input_dimension_count", "input"),
        dimension_count("indices_dimension_count", "indices"),
        ignored_sizes_are_1("input", "input_dimension_count"),
        ignored_sizes_are_1("indices", "indices_dimension_count"),
        custom(
            "tuple_size",
            f"{{indices}}.{{sizes}}[-1] must be in [1, {{input_dimension_count}}{minus_batch}]",
            _tuple_size,
        ),
        fits,
        sizes_follow(sliced, aligned, f"{head}, right-aligned, {legend}"),
    )


def _batch_range(x: Operands) -> Fact:
    least = min(_counts(x))
    return None if 0 <= _batch(x) < least else f"it is {_batch(x)} and the smaller count is {least}"


def _batch_sizes(x: Operands) -> Fact:
    if not _counts_hold(x):
        return None
    (ic, xc), b = _counts(x), _batch(x)
    one, other = x["input"].sizes[-ic:][:b], x["indices"].sizes[-xc:][:b]
    return None if one == other else f"the batch sizes are {one} and {other}"


BATCH_RULES = (
    custom(
        "batch_range",
        "{batch_dimension_count} must be in [0, min({input_dimension_count}, {indices_dimension_count}))",
        _batch_range,
    ),
    custom(
        "batch_sizes",
        "the first {batch_dimension_count} real {input}.{sizes} and {indices}.{sizes} must be equal",
        _batch_sizes,
    ),
)
