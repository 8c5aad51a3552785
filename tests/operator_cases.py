"""Dataclasses for an operator's test file: a call, and for each of its structs a descriptor and its facts.

tests/operators/test_NAME.py has `oracle`, CASE, BREAKS, VARIANTS and STRUCTS; catalogue_cases.py finds them all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

import dml_jax
from dml_jax import Activation, DataType, TensorDesc


def _tensors(data_type):
    return lambda *sizes, **keywords: TensorDesc(data_type, sizes, **keywords)


f32, f16, i64, i32 = map(_tensors, ("FLOAT32", "FLOAT16", "INT64", "INT32"))
i8, u64, u32, u8 = map(_tensors, ("INT8", "UINT64", "UINT32", "UINT8"))


# A function.

# What is said of a call, beside its arguments.
SAID = ("is_linear", "is_weighted", "has_symbolic_batches", "indexed")


@dataclass(eq=False)
class Call:
    """A call that the function accepts.

    Args:
      function: the function.
      arrays: the arguments that are traced: arrays, or tuples of them.
      static: those that are not.
      is_linear: whether the result is linear in the floats and exact: data movement and sums are, a cast to integers
        is not.
      is_weighted: of what is linear, whether elements are weighed: derivatives are not only 0 and 1.
      has_symbolic_batches: whether jax.export takes jax.vmap of it over all arrays with a batch of unknown size.
      indexed: the size of the dimension that the first of `indices` counts in; None without indices, or where each
        is right.
    """

    function: Callable[..., Any]
    arrays: Mapping[str, Any]
    static: Mapping[str, Any] = field(default_factory=dict)
    is_linear: bool = True
    is_weighted: bool = False
    has_symbolic_batches: bool = True
    indexed: int | None = None

    def __call__(self, *leaves):
        """The call with other arrays, those of tuples one by one."""
        arrays = jax.tree.unflatten(jax.tree.structure([*self.arrays.values()]), leaves)
        return self.function(**dict(zip(self.arrays, arrays, strict=True)), **self.static)

    @property
    def leaves(self):
        """All arrays, those of tuples one by one, in the order in which a call takes them."""
        return jax.tree.leaves([*self.arrays.values()])

    @property
    def floats(self):
        """Which of `leaves` are differentiable."""
        return [i for i, a in enumerate(self.leaves) if a.dtype.kind == "f"]

    @property
    def arguments(self):
        """All of them by name."""
        return {**self.arrays, **self.static}

    def changed(self, **changes):
        """The call with other arrays and attributes; what is said of it is one too."""
        own = {name: changes.pop(name) for name in SAID if name in changes}
        arrays = {name: changes.pop(name, value) for name, value in self.arrays.items()}
        return replace(self, arrays=arrays, static={**self.static, **changes}, **own)


# A struct.


@dataclass(frozen=True)
class Level:
    """One row of DirectML's table of a struct: from feature level `since` on, these ranks, and the types by tensor.

    Tensors that must have the type of another at every level are left out. `of_one_type` says that all these tensors
    have one type.
    """

    since: str
    ranks: Set[int]
    types: Mapping[str, Set[str]]
    of_one_type: bool = False


def _levels(rows):
    for since, (least, most), types, *of_one_type in rows:
        yield Level(
            since, {*range(least, most + 1)}, {name: {*of.split()} for name, of in types.items()}, bool(of_one_type)
        )


# DirectML's table of every struct, the newest row first.
_TABLES = Path(__file__).parent / "data/feature_levels.json"
LEVELS = {name: tuple(_levels(rows)) for name, rows in json.loads(_TABLES.read_text()).items()}


def levels_of(name, otherwise):
    """DirectML's table of a struct; without one, the error says what a test gives `otherwise`."""
    if name not in LEVELS:
        raise LookupError(f"{name} is not in tests/data/{_TABLES.name}: {otherwise}")
    return LEVELS[name]


FLOATS = {"FLOAT32", "FLOAT16"}
UP_TO_32_BITS = FLOATS | {"INT32", "INT16", "INT8", "UINT32", "UINT16", "UINT8"}
ALL_TYPES = UP_TO_32_BITS | {"FLOAT64", "INT64", "UINT64"}
INDEX_TYPES = {"INT64", "INT32", "UINT64", "UINT32"}
RANKS_1_TO_8 = set(range(1, 9))


@dataclass(eq=False)
class Example:
    """One of DirectML's documented examples: the numbers of every input and output, in DirectML's order, flat."""

    desc: dml_jax.OperatorDesc
    inputs: Sequence[Sequence[Any]]
    outputs: Sequence[Sequence[Any]]


@dataclass(eq=False)
class Struct:
    """Facts of a struct for its tests.

    Args:
      desc: a valid descriptor of rank 4 at most whose tensors have the types of the struct's oldest level; an array
        of tensors holds two or more.
      breaks: for each rule of `desc.constraints` the fields that, changed so, break it.
      examples: DirectML's, one at least.
      draw: takes a NumPy generator, returns random fields: of a tensor its sizes (of an array of them a list), and the
        attributes; as `data_types`, by tensor, those that the attributes decide.
      expected: takes a descriptor and a NumPy view per input field (of an array of tensors a tuple); returns the
        output, a tuple of the outputs, or for a scatter the candidates of every element.
      leading: what a leading dimension of size 1, added to all tensors, adds to a number, or puts before an array.
      fill: takes a generator, a port such as "inputs[0]", its tensor and a count; returns that many elements, or None
        for random bits (and for indices, small and far numbers). Random graphs give it numbers like them.
      typed: takes the type of each tensor of the table, by name; returns, by port, those of the tensors that must have
        the type of another tensor than the first.
      units: by how many of float32's last places, of 1 or of what is greater, outputs may differ from `expected`, which
        gives float64 numbers, before they are rounded to their type; None where bits are compared, as those of integers
        always are.
      levels: the table of a struct that LEVELS lacks.
    """

    desc: dml_jax.OperatorDesc
    breaks: Mapping[str, Mapping[str, Any]]
    examples: Sequence[Example]
    draw: Callable[[np.random.Generator], dict[str, Any]]
    expected: Callable[..., Any]
    leading: Mapping[str, int] = field(default_factory=dict)
    fill: Callable[..., Any] | None = None
    typed: Callable[[Mapping[str, str]], Mapping[str, str]] = lambda types: {}
    units: float | None = None
    levels: Sequence[Level] = ()

    def __post_init__(self):
        self.levels = self.levels or levels_of(self.name, "give `levels` in its Struct")

    @property
    def name(self):
        return self.desc.operator_type

    def listed(self, desc):
        """The tensor whose ranks the table lists: that of its first column."""
        of_first = next(iter(self.levels[0].types))
        return next(tensor for port, tensor in desc.ports().items() if port.partition("[")[0] == of_first)

    def padded(self, rank):
        """The fields of the descriptor with its tensors at a higher rank."""
        fields = self.desc.operands()
        more = rank - len(self.listed(self.desc).sizes)

        def wider(tensor):
            return like(tensor, sizes=(*(1,) * more, *tensor.sizes))

        for name, kind in self.desc.fields().items():
            if kind.is_tensor and name not in self.desc.other_ranks:
                fields[name] = jax.tree.map(wider, fields[name], is_leaf=_is_tensor)
        for name, each in self.leading.items():
            fields[name] = (
                (*(each,) * more, *fields[name]) if isinstance(fields[name], tuple) else fields[name] + more * each
            )
        return fields

    def retyped(self, fields, name, data_type):
        """The fields with another type of one of the tensors of the table, and of those that must have the same.

        A data type that is a field itself is that of the table's first tensor.
        """
        cls, own = type(self.desc), self.levels[0].types
        alike = (
            [n for n, kind in cls.fields().items() if kind.is_tensor and n not in own]
            if name == next(iter(own))
            else []
        )
        named = [n for n, value in fields.items() if isinstance(value, DataType)] if name == next(iter(own)) else []
        retype = lambda tensor: like(tensor, data_type=data_type)  # noqa: E731
        fields = {**fields, **dict.fromkeys(named, DataType.of(data_type))}
        fields |= {n: jax.tree.map(retype, fields[n], is_leaf=_is_tensor) for n in (name, *alike)}
        types = {n: next(iter(jax.tree.leaves(fields[n], is_leaf=_is_tensor))).data_type.name for n in own}
        for port, of_port in self.typed(types).items():
            n, _, number = port.partition("[")
            at = int(number.rstrip("]")) if number else None
            change = (
                [like(one, data_type=of_port) if i == at else one for i, one in enumerate(fields[n])]
                if number
                else None
            )
            fields[n] = tuple(change) if number else like(fields[n], data_type=of_port)
        return fields

    def all_breaks(self):
        """A change per rule, at the newest level: what all structs share follows from the fields, the table's rules
        from the table. None for a rule that no TensorDesc can break."""
        return _shared_breaks(self.desc) | dict(self.breaks) | self._table_breaks() | self._fused_breaks()

    def _fused_breaks(self):
        """Breaks of supported_activation by SOFTMAX, which GEMM alone fuses; GEMM has no break."""
        kinds = {name: kind for name, kind in self.desc.fields().items() if kind.kind.startswith("activation")}
        softmax = Activation("ACTIVATION_SOFTMAX")
        every = {n: (softmax,) * len(getattr(self.desc, n)) if kind.is_array else softmax for n, kind in kinds.items()}
        return {f"supported_activation({n})": {n: x} if self.name != "GEMM" else None for n, x in every.items()}

    def _table_breaks(self):
        newest, fields = self.levels[0], self.desc.operands()
        ranks = RANKS_1_TO_8 - newest.ranks
        listed = self.listed(self.desc)
        higher = [rank for rank in ranks if rank > len(listed.sizes)]
        found = {"supported_rank": self.padded(min(higher)) if higher else None}
        if ranks and not higher:
            lower = like(listed, sizes=listed.sizes[-max(ranks) :])
            found["supported_rank"] = {next(iter(newest.types)): lower}
        for name, accepted in newest.types.items():
            others = sorted(ALL_TYPES - accepted)
            found[f"supported_type({name})"] = self.retyped(fields, name, others[0]) if others else None
        return found


def _is_tensor(value):
    return isinstance(value, TensorDesc) or value is None


def like(tensor, **changes):
    """A tensor without strides, some of its properties replaced."""
    return None if tensor is None else TensorDesc(**{"data_type": tensor.data_type, "sizes": tensor.sizes, **changes})


def _shared_breaks(desc):
    """The changes that break what all structs share: one rank, one data type, outputs that can be written."""
    kinds = {name: kind for name, kind in desc.fields().items() if kind.is_tensor}
    ranked = [name for name in kinds if name not in desc.other_ranks]
    typed = [name for name, kind in kinds.items() if not kind.is_index and name not in desc.other_types]
    model = next(iter(desc.ports().values()))

    def with_last(name, **changes):
        """The field with one tensor changed: the last one of an array, a new one where it is left out."""
        value = getattr(desc, name)
        changes = {
            key: change(value[-1] if kinds[name].is_array else value or model) for key, change in changes.items()
        }
        return {
            name: (*value[:-1], like(value[-1], **changes)) if kinds[name].is_array else like(value or model, **changes)
        }

    def alike(names, what, **changes):
        first = names[0] if names else None
        compared = [name for name in names if name != first or kinds[name].is_array]
        return {f"same_{what}({name}, {first})": with_last(name, **changes) for name in compared}

    def two_or_more(tensor):
        return (*tensor.sizes[:-1], max(2, tensor.sizes[-1]))

    def no_strides(tensor):
        return (0,) * len(tensor.sizes)

    outputs = desc.output_names()
    other_type = "INT8" if model.data_type.name != "INT8" else "UINT8"
    return {
        **{f"not_empty({name})": {name: ()} for name, kind in kinds.items() if kind.is_array},
        **alike(ranked, "rank", sizes=lambda tensor: (1, *tensor.sizes)),
        **alike(typed, "dtype", data_type=lambda tensor: other_type),
        **{f"not_owned({name})": with_last(name, flags=lambda tensor: "OWNED_BY_DML") for name in outputs},
        **{f"injective({name})": with_last(name, sizes=two_or_more, strides=no_strides) for name in outputs},
    }
