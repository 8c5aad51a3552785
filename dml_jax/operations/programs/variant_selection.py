"""Choice of how an operation runs: the first variant of its platform that pays, or its plain implementation.

An operation is a function of arrays with a plain implementation in jax.numpy and lax. A variant computes the same, bit
for bit if it moves data, by a mechanism that is faster on one platform. `register` adds those of lowering/.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from math import prod
from typing import Any, NamedTuple, Protocol

import jax

from .forced_form import forced_form
from .primitive import Back, Move, Target, by_target

SMALL = 2**17  # bytes read and written: a kernel that moves fewer takes no longer than its launch


class Case(Protocol):
    """Facts of one call that are known while it is traced: shapes and types, attributes, the number of devices."""

    @property
    def devices(self) -> int:
        """Among how many devices XLA may divide an array."""
        ...

    @property
    def bytes(self) -> int:
        """The bytes read and written; 0 where a size is symbolic, or only the plain implementation runs."""
        ...

    @property
    def plain(self) -> Move:
        """The plain implementation, of (where, *data)."""
        ...

    @property
    def result(self) -> Any:
        """The shape and type of the result, or a tuple of those of several."""
        ...


@dataclass(frozen=True)
class Variant:
    """How an operation runs on a platform, instead of plainly.

    Args:
      name: the mechanism.
      operation: as `choose` is told.
      platform: as jax.lax.platform_dependent names it.
      run: takes a case; returns the function of (where, *data), or None where the mechanism cannot do it.
      pays: takes a case; whether the mechanism is faster than the plain implementation, by its own arithmetic.
      on_several: whether `run` takes a case of several devices, too. Most mechanisms cut, merge or number dimensions,
        which is right only where no other device has a part of them.
    """

    name: str
    operation: str
    platform: str
    run: Callable[[Any], Callable[..., Any] | None]
    pays: Callable[[Any], bool]
    on_several: bool = False


class Choice(NamedTuple):
    """A choice that was made while a program was lowered: the name of a variant, or "plain"."""

    operation: str
    platform: str
    name: str
    case: Any


_SOURCES: list[Callable[[], Sequence[Variant]]] = []
_WATCHED: ContextVar[list[Choice] | None] = ContextVar("watched", default=None)


def choose(
    operation: str,
    case_of: Callable[[int], Case],
    back: Back | None = None,
    *,
    is_opaque: bool = True,
    is_back_open: bool = False,
) -> Move:
    """A function of (where, *data) that runs the first variant that can run and pays where a program is lowered.

    Args:
      operation: its name, by which variants say what they do.
      case_of: the number of devices among which XLA may divide an array to the case.
      back: the transpose of an operation that is linear in data; None for one that has the derivative of its plain
        meaning.
      is_opaque: whether JAX must not differentiate the plain implementation on its own, even where no variant pays.
      is_back_open: as of `by_target`.
    """
    forced, case = forced_form(), case_of(1)
    run_by = partial(by_target, plain=case.plain, back=back, result=case.result, is_back_open=is_back_open)

    def chosen(target: Target) -> Move:
        case = case_of(target.devices)
        name, run = _first(operation, target.platform, case, forced)
        note(Choice(operation, target.platform, name, case))
        return run

    # An operation that runs plainly on one device does so on several, where its meaning may keep other bits.
    if all(_first(operation, platform, case, forced)[0] == "plain" for platform in _platforms(operation)):
        on_devices = lambda target: case_of(target.devices).plain  # noqa: E731
        return run_by(on_devices) if back and is_opaque else case.plain
    return run_by(chosen)


def _first(operation: str, platform: str, case: Case, forced: str | None) -> tuple[str, Move]:
    """The name and the function of the forced variant, on any platform, or else of the first one that pays."""
    # `use_form` forces variants for small calls, too. Calls of 0 bytes, of empty or symbolic arrays, run plainly.
    variants = _variants(operation) if case.bytes >= (1 if forced else SMALL) else []
    for variant in variants:
        is_named = variant.name == forced if forced else variant.platform == platform
        can = is_named and (variant.on_several or case.devices == 1)
        if can and (forced or variant.pays(case)) and (run := variant.run(case)):
            return variant.name, run
    return "plain", case.plain


def register(source: Callable[[], Sequence[Variant]]) -> None:
    """Adds variants, in the order in which they are asked; `source` is called with the first choice."""
    _SOURCES.append(source)
    for known in (registered, _variants, _platforms):
        known.cache_clear()


@cache
def registered() -> Sequence[Variant]:
    """All variants."""
    return [variant for source in _SOURCES for variant in source()]


@cache
def _variants(operation: str) -> Sequence[Variant]:
    return [variant for variant in registered() if variant.operation == operation]


@cache
def _platforms(operation: str) -> Sequence[str]:
    return sorted({variant.platform for variant in _variants(operation)})


# Watching.


@contextmanager
def watch_choices() -> Iterator[list[Choice]]:
    """Collects the choices for all programs that are lowered inside."""
    seen: list[Choice] = []
    token = _WATCHED.set(seen)
    try:
        yield seen
    finally:
        _WATCHED.reset(token)


def note(choice: Choice) -> None:
    """Tells the innermost `watch_choices`."""
    if (watched := _WATCHED.get()) is not None:
        watched.append(choice)


# Sizes.


def shapes_of(*arrays: Any) -> Sequence[Any]:
    """Shapes and types, which outlive a trace, of arrays that do not."""
    return [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]


def known_bytes(*arrays: Any) -> int:
    """The bytes of arrays, or of jax.ShapeDtypeStructs, together; 0 while a size is symbolic."""
    known = all(isinstance(n, int) for array in arrays for n in array.shape)
    return sum(prod(array.shape) * array.dtype.itemsize for array in arrays) if known else 0
