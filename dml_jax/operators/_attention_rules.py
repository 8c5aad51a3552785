"""The rules of the operands of MULTIHEAD_ATTENTION: which are given, their ranks, data types and sizes."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..core.rules import Fact, Law, Operands, Rule, Sizes, at_least, custom
from ..errors import DataTypeError


class MultiheadAttentionMaskType(enum.IntEnum):
    """DML_MULTIHEAD_ATTENTION_MASK_TYPE: how the mask says which keys count."""

    NONE = 0
    KEY_SEQUENCE_LENGTH = 1
    KEY_SEQUENCE_END_START = 2
    KEY_QUERY_SEQUENCE_LENGTH_START_END = 3
    BOOLEAN = 4


# The contents of these tensors; a stacked one holds several matrices for every head, in this order.
HOLDS: Mapping[str, tuple[str, ...]] = {
    "query": ("query",),
    "key": ("key",),
    "value": ("value",),
    "stacked_query_key": ("query", "key"),
    "stacked_key_value": ("key", "value"),
    "stacked_query_key_value": ("query", "key", "value"),
}
SOURCES = {part: [name for name, parts in HOLDS.items() if part in parts] for part in ("query", "key", "value")}
PAST = {"key": "past_key", "value": "past_value"}


def source_of(part: str, x: Operands) -> str | None:
    """The tensor that holds the queries, the new keys or the new values; None if there is none."""
    return next((name for name in SOURCES[part] if x[name] is not None), None)


@dataclass(frozen=True)
class Counts:
    """The counts that make up sizes.

    Args:
      batch: B.
      queries: S, of each row of the batch.
      new_keys: L, beside those of the past.
      past: P, keys of the past.
      heads: N, of the queries.
      key_heads: G, of the keys and the values; N / G heads of queries share one.
      size: D, of a query and of a key.
      value_size: V, of a value.
      mask_type: which decides the sizes of the mask.
      is_cached: whether the past is a cache, which has room for the new keys.
    """

    batch: int
    queries: int
    new_keys: int
    past: int
    heads: int
    key_heads: int
    size: int
    value_size: int
    mask_type: int
    is_cached: bool

    @property
    def keys(self) -> int:
        """T, all keys: those of the past, then the new ones."""
        return (self.past or self.new_keys) if self.is_cached else self.past + self.new_keys

    @property
    def widths(self) -> tuple[int, int, int]:
        """All heads of a query, of a key and of a value, side by side."""
        return self.heads * self.size, self.key_heads * self.size, self.key_heads * self.value_size

    @classmethod
    def of(cls, x: Operands) -> Counts | None:
        """The counts of a struct's operands; None where a broken rule leaves them undefined."""
        heads, key_heads = _heads(x)
        past = {name: x[name].sizes for name in PAST.values() if x[name] is not None}
        if min(heads, key_heads) < 1 or any(_sources(part, x) for part in SOURCES) or len(past) == 1:
            return None
        given = {part: _rows(part, x, heads if part == "query" else key_heads) for part in SOURCES}
        if any(source_of(part, x) and rows is None for part, rows in given.items()):
            return None
        if any(len(sizes) < 4 for sizes in past.values()):
            return None
        batch, queries, size = given["query"] or (0, 0, 0)
        new_keys = given["key"][1] if given["key"] else 0
        value_size = given["value"][2] if given["value"] else past["past_value"][-1]
        before = past["past_key"][-2] if past else 0
        is_cached = x.get("past_sequence_lengths") is not None
        return cls(batch, queries, new_keys, before, heads, key_heads, size, value_size, x["mask_type"], is_cached)


def _heads(x: Operands) -> tuple[int, int]:
    return (x["head_count"],) * 2 if "head_count" in x else (x["query_head_count"], x["key_value_head_count"])


def _rows(part: str, x: Operands, heads: int) -> tuple[int, int, int] | None:
    """The batch, the rows, and the size of one head of queries, keys or values."""
    name = source_of(part, x)
    sizes = x[name].sizes if name else ()
    if name == part and len(sizes) >= 3:
        return sizes[-3], sizes[-2], sizes[-1] // heads
    return (sizes[0], sizes[1], sizes[-1]) if name != part and len(sizes) == 5 else None


_MASKS: Mapping[int, Callable[[Counts], Sizes]] = {
    MultiheadAttentionMaskType.NONE: lambda n: (1,),
    MultiheadAttentionMaskType.KEY_SEQUENCE_LENGTH: lambda n: (1, n.batch),
    MultiheadAttentionMaskType.KEY_SEQUENCE_END_START: lambda n: (2, n.batch),
    MultiheadAttentionMaskType.KEY_QUERY_SEQUENCE_LENGTH_START_END: lambda n: (3 * n.batch + 2,),
    MultiheadAttentionMaskType.BOOLEAN: lambda n: (n.batch, n.heads, n.queries, n.keys),
}


@dataclass(frozen=True)
class _Tensor:
    """The demands on a tensor: its least and greatest rank, and its sizes, in words and by the counts."""

    ranks: tuple[int, int]
    formula: str
    sizes: Callable[[Counts], Sizes]


_MASK = "(1, B), (2, B), (3 * B + 2) or (B, N, S, T), as {mask_type} has it"
_TENSORS: Mapping[str, _Tensor] = {
    "query": _Tensor((3, 5), "(B, S, N * D)", lambda n: (n.batch, n.queries, n.widths[0])),
    "key": _Tensor((3, 5), "(B, L, G * D)", lambda n: (n.batch, n.new_keys, n.widths[1])),
    "value": _Tensor((3, 5), "(B, L, G * V)", lambda n: (n.batch, n.new_keys, n.widths[2])),
    "stacked_query_key": _Tensor((5, 5), "(B, S, N, 2, D)", lambda n: (n.batch, n.queries, n.heads, 2, n.size)),
    "stacked_key_value": _Tensor((5, 5), "(B, L, G, 2, D)", lambda n: (n.batch, n.new_keys, n.key_heads, 2, n.size)),
    "stacked_query_key_value": _Tensor((5, 5), "(B, S, N, 3, D)", lambda n: (n.batch, n.queries, n.heads, 3, n.size)),
    "bias": _Tensor((1, 5), "(N * D + G * D + G * V)", lambda n: (sum(n.widths),)),
    "mask": _Tensor((1, 5), _MASK, lambda n: _MASKS[n.mask_type](n)),
    "relative_position_bias": _Tensor((4, 5), "(B, N, S, T)", lambda n: (n.batch, n.heads, n.queries, n.keys)),
    "past_key": _Tensor((4, 5), "(B, G, P, D)", lambda n: (n.batch, n.key_heads, n.past, n.size)),
    "past_value": _Tensor((4, 5), "(B, G, P, V)", lambda n: (n.batch, n.key_heads, n.past, n.value_size)),
    "past_sequence_lengths": _Tensor((1, 5), "(B)", lambda n: (n.batch,)),
    "output": _Tensor((3, 5), "(B, S, N * V)", lambda n: (n.batch, n.queries, n.heads * n.value_size)),
    "output_present_key": _Tensor((4, 5), "(B, G, T, D)", lambda n: (n.batch, n.key_heads, n.keys, n.size)),
    "output_present_value": _Tensor((4, 5), "(B, G, T, V)", lambda n: (n.batch, n.key_heads, n.keys, n.value_size)),
}
_OF_1 = "past_sequence_lengths"
_INTEGERS = ("mask", _OF_1)


def _rank_of(name: str) -> Rule:
    least, most = _TENSORS[name].ranks

    def broken_by(x: Operands) -> Fact:
        rank = least if x[name] is None else len(x[name].sizes)
        return None if least <= rank <= most else f"it is {rank}"

    accepted = f"{least}" if least == most else f"in [{least}, {most}]"
    return custom(f"rank_of({name})", f"{{{name}}}.{{rank}} must be {accepted}", broken_by)


def _type_of(name: str) -> Rule:
    """A tensor has the data type of the output, which is left out by a graph's builder: then the queries decide."""

    def broken_by(x: Operands) -> Fact:
        types = [x[tensor].data_type.name for tensor in (name, "output") if x[tensor] is not None]
        return None if len({*types}) < 2 else f"they are {' and '.join(types)}"

    def law(x: Operands) -> Any:
        queries = source_of("query", x)
        return queries and x[queries].data_type

    text = f"{{{name}}}.{{dtype}} must equal {{output}}.{{dtype}}"
    decided = "output" if name == "query" else name
    return Rule(f"same_dtype({name}, output)", text, broken_by, DataTypeError, Law(decided, "data_type", law))


def _sizes_of(name: str) -> Rule:
    """Sizes by the counts, with or without leading ones."""
    tensor = _TENSORS[name]

    def law(x: Operands) -> Sizes | None:
        counts = Counts.of(x)
        return counts and tensor.sizes(counts)

    def broken_by(x: Operands) -> Fact:
        expected = None if x[name] is None else law(x)
        if expected is None:
            return None
        actual = x[name].sizes
        if name.startswith("output_present") and _begins_a_cache(x):
            expected = (*expected[:2], max(actual[-2], expected[2]), expected[3])
        return None if _without_ones(actual) == _without_ones(expected) else f"{actual} is not {expected}"

    text = f"{{{name}}}.{{sizes}} must be {tensor.formula}"
    return Rule(f"sizes_of({name})", text, broken_by, law=Law(name, "sizes", law))


def _begins_a_cache(x: Operands) -> bool:
    """Whether the present is a cache that no past says the sizes of: it may have room for more keys."""
    return x.get(_OF_1) is not None and x["past_key"] is None


def _without_ones(sizes: Sizes) -> Sizes:
    return sizes[next((d for d, n in enumerate(sizes) if n != 1), len(sizes)) :]


def _sources(part: str, x: Operands) -> Fact:
    present = [name for name in SOURCES[part] if x[name] is not None]
    is_past = part in PAST and all(x[past] is not None and source_of(of, x) is None for of, past in PAST.items())
    return None if len(present) == 1 or is_past else f"{len(present)} of them are given"


def _one_source(part: str) -> Rule:
    names = ", ".join(f"{{{name}}}" for name in SOURCES[part])
    alone = ", or neither keys nor values beside {past_key} and {past_value}" if part in PAST else ""
    return custom(f"one_source({part})", f"one of {names} must be given{alone}", lambda x: _sources(part, x))


def _one_past(x: Operands) -> Fact:
    present = [name for name in PAST.values() if x[name] is not None]
    return "one of them is" if len(present) == 1 else None


def _other_mask(x: Operands) -> Fact:
    is_none = x["mask_type"] == MultiheadAttentionMaskType.NONE
    fact = "none is given" if x["mask"] is None else "one is given"
    return f"{fact} and {MultiheadAttentionMaskType(x['mask_type']).name}" if is_none != (x["mask"] is None) else None


def _ungrouped(x: Operands) -> Fact:
    heads, key_heads = _heads(x)
    return f"they are {heads} and {key_heads}" if key_heads and heads % key_heads else None


def _stacked_groups(x: Operands) -> Fact:
    heads, key_heads = _heads(x)
    is_stacked = source_of("query", x) not in (None, "query")
    return f"they are {heads} and {key_heads}" if is_stacked and heads != key_heads else None


def _other_cache(x: Operands) -> Fact:
    n = Counts.of(x)
    if n is None or not n.is_cached or n.queries == n.new_keys <= n.keys:
        return None
    return f"there are {n.queries} queries, {n.new_keys} new keys, and room for {n.keys}"


def _of_tensors(*names: str) -> tuple[Rule, ...]:
    """The output's rank and type stand in the table of feature levels."""
    others = [name for name in names if name != "output"]
    floats = [name for name in others if name not in _INTEGERS]
    return (*map(_rank_of, others), *map(_type_of, floats))


_NAMES = tuple(name for name in _TENSORS if name != _OF_1)
_COMMON = (
    *_of_tensors(*_NAMES),
    *map(_one_source, SOURCES),
    custom("both(past)", "{past_key} and {past_value} must be given together", _one_past),
    custom("given(mask)", "{mask} must be given if {mask_type} is not NONE, and only then", _other_mask),
    *map(_sizes_of, _NAMES),
)
# The tensors whose ranks and types rules of their own compare with those of the output.
OF_OTHER_RANK = tuple(name for name in _NAMES if name != "output")
# The rules of MULTIHEAD_ATTENTION, and of MULTIHEAD_ATTENTION1.
RULES = (at_least("head_count", 1), *_COMMON)
RULES_OF_1 = (
    at_least("query_head_count", 1),
    at_least("key_value_head_count", 1),
    custom("grouped", "{query_head_count} must be a multiple of {key_value_head_count}", _ungrouped),
    custom(
        "stacked_heads", "with stacked queries {query_head_count} must equal {key_value_head_count}", _stacked_groups
    ),
    *_of_tensors(_OF_1),
    *_COMMON,
    _sizes_of(_OF_1),
    custom(
        "cached",
        "with {past_sequence_lengths} there must be a new key for each query, and {past_key} must have room for them",
        _other_cache,
    ),
)
