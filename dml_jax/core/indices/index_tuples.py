"""The rules of operators whose indices are tuples of coordinates, such as gather_nd, for functions and for structs.

In a function every dimension counts. In a struct only the last ones count: its fields say how many. The rules compare
the dimensions that count, so that functions and structs share them; only the words differ.
"""

from dataclasses import dataclass, replace

from ..rules import Fact, Operands, Rule, custom, sizes_follow
from ..structs.struct_rules import dimension_count, fits_rank, ignored_sizes_are_1, right_aligned


@dataclass(frozen=True)
class Words:
    """The words for ranks and for batches, which differ between functions and structs."""

    input_rank: str
    indices_rank: str
    batch: str
    batch_sizes: str


FUNCTION = Words(
    "{input}.{rank}",
    "{indices}.{rank}",
    "{batch_dims}",
    "{indices}.{sizes}[:{batch_dims}] must equal {input}.{sizes}[:{batch_dims}]",
)
STRUCT = Words(
    "{input_dimension_count}",
    "{indices_dimension_count}",
    "{batch_dimension_count}",
    "the first {batch_dimension_count} real {indices}.{sizes} and {input}.{sizes} must be equal",
)


def _ranks(x: Operands) -> tuple[int, int]:
    """Returns how many dimensions of input and of indices count."""
    return (
        x.get("input_dimension_count", len(x["input"].shape)),
        x.get("indices_dimension_count", len(x["indices"].shape)),
    )


def _batch(x: Operands) -> int:
    return x.get("batch_dims", x.get("batch_dimension_count", 0))


def _ranks_hold(x: Operands) -> bool:
    (input_rank, indices_rank), batch = _ranks(x), _batch(x)
    inside = 1 <= input_rank <= len(x["input"].shape) and 1 <= indices_rank <= len(x["indices"].shape)
    return inside and 0 <= batch < min(input_rank, indices_rank)


def _real(x: Operands) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the sizes of input and of indices that count."""
    (input_rank, indices_rank), input, indices = _ranks(x), tuple(x["input"].shape), tuple(x["indices"].shape)
    return input[len(input) - input_rank :], indices[len(indices) - indices_rank :]


def tuple_size(x: Operands) -> int:
    """Returns how many coordinates an index tuple has."""
    return x["indices"].shape[-1] if x["indices"].shape else 0


def _tuple_too_long(x: Operands) -> Fact:
    if not _ranks_hold(x):
        return None
    t, most = tuple_size(x), _ranks(x)[0] - _batch(x)
    return None if 1 <= t <= most else f"a tuple has {t} and {most} dimensions can be indexed"


def with_hint(rule: Rule) -> Rule:
    """Adds a hint to a rule of a function: for flat indices, how each becomes a tuple."""

    def broken_by(x: Operands) -> Fact:
        fact = rule.broken_by(x)
        return f"{fact}; indices[:, None] has a tuple for each index" if fact and len(x["indices"].shape) == 1 else fact

    return replace(rule, broken_by=broken_by)


def tuples_fit(words: Words, *, has_batch: bool) -> Rule:
    """An index tuple has at least one coordinate, and at most one per dimension of input after the batch."""
    most = words.input_rank + (f" - {words.batch}" if has_batch else "")
    rule = custom("tuples_fit", f"{{indices}}.{{sizes}}[-1] must be in [1, {most}]", _tuple_too_long)
    return with_hint(rule) if words is FUNCTION else rule


def _batch_too_long(x: Operands) -> Fact:
    least = min(_ranks(x))
    return None if 0 <= _batch(x) < least else f"it is {_batch(x)} and the smaller rank is {least}"


def _batches_differ(x: Operands) -> Fact:
    if not _ranks_hold(x):
        return None
    batch, indices_batch = (sizes[: _batch(x)] for sizes in _real(x))
    return None if batch == indices_batch else f"the leading sizes are {batch} and {indices_batch}"


def batch_rules(words: Words) -> tuple[Rule, Rule]:
    """Input and indices have the batch dimensions, and these have equal sizes."""
    within = f"{words.batch} must be in [0, min({words.input_rank}, {words.indices_rank}))"
    return custom("batch_fits", within, _batch_too_long), custom(
        "batch_sizes_agree", words.batch_sizes, _batches_differ
    )


def slices(x: Operands) -> tuple[int, ...] | None:
    """Returns the sizes of the slices that the tuples address; None if another rule is broken.

    These are the sizes of indices without the last one, then the sizes of input that no coordinate addresses.
    """
    if not _ranks_hold(x) or _tuple_too_long(x):
        return None
    input, indices = _real(x)
    return (*indices[:-1], *input[_batch(x) + tuple_size(x) :])


def slice_rules(sliced: str, *, has_batch: bool = False) -> tuple[Rule, ...]:
    """Returns the rules of a struct whose indices are tuples; `sliced` is the field of the tensor of slices."""
    head = f"X[:-1] + I[{STRUCT.batch + ' + ' if has_batch else ''}X[-1]:]"
    legend = (
        "where X is the last {indices_dimension_count} of {indices}.{sizes} "
        "and I the last {input_dimension_count} of {input}.{sizes}"
    )
    fits = fits_rank(sliced, slices, f"{head} must have at most {{input}}.{{rank}} sizes, {legend}", crop=False)

    def aligned(x: Operands) -> tuple[int, ...] | None:
        sizes = slices(x)
        return None if sizes is None or fits.broken_by(x) else right_aligned(sizes, len(x["input"].sizes))

    return (
        *(batch_rules(STRUCT) if has_batch else ()),
        dimension_count("input_dimension_count", "input"),
        dimension_count("indices_dimension_count", "indices"),
        ignored_sizes_are_1("input", "input_dimension_count"),
        ignored_sizes_are_1("indices", "indices_dimension_count"),
        tuples_fit(STRUCT, has_batch=has_batch),
        fits,
        sizes_follow(sliced, aligned, f"{head}, right-aligned, {legend}"),
    )
