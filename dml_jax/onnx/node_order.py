"""`in_order`: sorts nodes topologically, as some exporters write them in another order."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from .errors import OnnxError

_Step = TypeVar("_Step", bound=Any)  # has a label, outputs, and the names that it reads: inputs and captured
_SHOWN = 6  # nodes of a cycle


def in_order(steps: Sequence[_Step]) -> list[_Step]:
    """Returns each step behind those whose outputs it reads; steps that are in such an order keep it.

    Of c = f(b), d = g(a), b = h(a) it makes b, c, d. It searches depth first, in time linear in the names.

    Raises:
      OnnxError: steps form a cycle.
    """
    makers = {name: number for number, step in enumerate(steps) for name in step.outputs if name}
    done: dict[int, _Step] = {}
    for number in range(len(steps)):
        # The steps that wait for one another, the last one for none; each with the makers of its inputs still to see.
        path = {} if number in done else {number: _makers_of(steps[number], makers)}
        while path:
            current, rest = path.popitem()
            needed = next((maker for maker in rest if maker not in done), None)
            if needed is None:
                done[current] = steps[current]
                continue
            path[current] = rest
            if needed in path:
                raise _cycle_error([steps[n].label for n in list(path)[list(path).index(needed) :]])
            path[needed] = _makers_of(steps[needed], makers)
    return list(done.values())


def _makers_of(step: Any, makers: dict[str, int]) -> Iterator[int]:
    return (makers[name] for name in (*step.inputs, *step.captured) if name in makers)


def _cycle_error(labels: Sequence[str]) -> OnnxError:
    more = f" and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else ""
    rule = "no node may need its own output, through others neither"
    return OnnxError(f"{rule}, but there is a cycle of {', '.join(labels[:_SHOWN])}{more}")
