"""Executes loop bodies: unrolled, by `jax.lax.scan`, or by `jax.lax.while_loop`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..errors import DataTypeError
from ..operations.programs.primitive import by_target
from ..operations.values.bit_exact import as_float16_bits, from_float16_bits
from .errors import STATIC, NotConstantError, OnnxError
from .flattened_values import Form, as_arrays, types_text
from .int64_ranges import INT32, Bounded, move_bounded
from .memory_limits import check_array, holding
from .node_limits import count_node
from .sequence_pytrees import type_text
from .values import is_narrowed, move_bits

# Compiling takes longer with each iteration that is unrolled. Up to about eight it takes no longer than a loop of XLA,
# and the program is at least as fast: bodies of 3 to 40 nodes, two cores of an x86 CPU, November 2026.
FEW = 8
Results = tuple[list[Any], list[Any]]  # the state, and the rows of each scan output


@dataclass(frozen=True)
class Iteration:
    """A loop body, with its state, inputs and outputs.

    Args:
      label: of the node, for messages.
      run: one iteration. It takes its number, the condition, the state, and an element of each input; it returns the
        condition, the state, and a row of each scan output.
      trips: the most iterations; an array that is traced, or None for any number.
      go: the condition before the first iteration; True, or an array that is traced.
      state: the values before the first iteration.
      inputs: values along whose first dimension the iterations take their elements.
      read: names of the scan outputs, "" for one that nothing needs.
      maximum: the number of rows of a scan output that is stated, by its position.
    """

    label: str
    run: Callable[[Any, Any, list[Any], list[Any]], tuple[Any, list[Any], list[Any]]]
    trips: Any
    go: Any
    state: list[Any]
    inputs: list[Any]
    read: Sequence[str]
    maximum: Mapping[int, int]


def iterate(loop: Iteration) -> Results:
    """Returns the state after the last iteration, and the rows of each scan output, None for one that nothing needs.

    A few iterations are unrolled. More of them are a loop of XLA, if all keep the types of the state and need no value
    that only an unrolled one knows; else they are unrolled, too.

    Raises:
      NotConstantError: only an unrolled loop could do it, and the number of iterations is not known.
      OnnxError: an unrolled loop has too many iterations, or the body breaks a rule.
    """
    is_small = isinstance(loop.trips, int) and loop.trips <= FEW
    results = _run_unrolled(loop) if is_small else None
    if results is None:
        try:
            results = _run_compiled(loop)
        except (NotConstantError, DataTypeError):
            results = None if is_small else _run_unrolled(loop)
            if results is None:
                raise
    state, rows = results
    return state, [
        _pad_rows(name, y, loop.maximum[k]) if k in loop.maximum and name else y
        for k, (name, y) in enumerate(zip(loop.read, rows, strict=True))
    ]


def _run_unrolled(loop: Iteration) -> Results | None:
    """Runs iterations one by one; returns None if their number is not known, or scan outputs of none have no shape."""
    if isinstance(loop.trips, Tracer) or isinstance(loop.go, Tracer):
        return None
    state, rows, number, go = loop.state, [], 0, True
    while go and (loop.trips is None or number < loop.trips):
        count_node()  # also of a body without nodes
        elements = [move_bounded(lambda x, i=number: x[i, ...], x) for x in loop.inputs]
        with holding() as keep:
            go, after, row = loop.run(np.asarray(number), np.asarray(True), state, elements)
            keep(row)
        if isinstance(go, Tracer):
            return None
        _check_types(state, after)
        state, go, number = after, bool(np.asarray(go).item()), number + 1
        rows.append(row)
    if not rows and any(loop.read):
        return None
    return state, [_stack([row[k] for row in rows]) if name else None for k, name in enumerate(loop.read)]


def _check_types(before: Sequence[Any], after: Sequence[Any]) -> None:
    # An optional with an element is the element, so either may come after the other.
    texts = [[type_text(y).removeprefix("optional(").rstrip(")") for y in state] for state in (before, after)]
    if texts[0] != texts[1]:
        rule = "an iteration must keep the types of the state"
        raise OnnxError(f"{rule}, but they are {types_text(before)} before and {types_text(after)} after one")


def _stack(rows: Sequence[Any]) -> Any:
    shapes = {tuple(row.shape) for row in rows}
    if len(shapes) > 1:
        rule = "the rows of a scan output must have one shape"
        raise OnnxError(f"{rule}, but they have {' and '.join(map(str, sorted(shapes)))}")
    is_known = all(isinstance(row, np.ndarray) for row in rows)
    return move_bounded(lambda *rows: (np if is_known else jnp).stack(rows), *rows)


def _pad_rows(name: str, rows: Any, size: int) -> Any:
    """Pads the rows of a scan output with zeros to a number of rows."""
    (array,), form = as_arrays([rows])
    check_array(f"output {name!r}", jax.ShapeDtypeStruct((size, *array.shape[1:]), array.dtype))
    pads = [(0, max(0, size - array.shape[0])), *([(0, 0)] * (array.ndim - 1))]
    return form.with_zero().values([move_bits(lambda x: jnp.pad(x[:size], pads), array)])[0]


@dataclass(frozen=True)
class _Traced:
    """An iteration traced on arrays of JAX.

    Args:
      loop: of it.
      state: the form of the state.
      inputs: the form of the inputs.
      go: the condition that is known, or None if it is data.
    """

    loop: Iteration
    state: Form
    inputs: Form
    go: Any

    def run(self, number: Any, go: Any, arrays: Any, elements: Any) -> tuple[Any, tuple[Any, Form], tuple[Any, Form]]:
        """Returns the condition, and the arrays and forms of the state and of the rows that are read."""
        trips = self.loop.trips if isinstance(self.loop.trips, int) else int(INT32.max)
        number = Bounded(number, (0, max(0, trips - 1))) if is_narrowed(np.int64) else number
        go = go if self.go is None else self.go
        go, state, rows = self.loop.run(number, go, self.state.values(arrays), self.inputs.values(elements))
        read = [row if name else None for row, name in zip(rows, self.loop.read, strict=True)]
        return go, as_arrays(state), as_arrays(read)


def _run_compiled(loop: Iteration) -> Results:
    """Runs iterations as a loop of XLA.

    Raises:
      NotConstantError: it cannot be one.
      DataTypeError: 64-bit numbers may not fit 32 bits while x64 is off.
    """
    start, state = as_arrays(loop.state)
    inputs, input_form = as_arrays(loop.inputs)
    if loop.go is True and not isinstance(loop.trips, Tracer):
        traced, go, rows, row_form = _find_invariant_ranges(
            _Traced(loop, state, input_form, np.asarray(True)), start, inputs
        )
        if loop.trips == 0:
            return loop.state, row_form.values([jnp.zeros((0, *y.shape), y.dtype) for y in rows])
        is_always = isinstance(go, np.ndarray) and bool(go.all())
        if is_always and loop.trips is None:
            raise OnnxError("the loop must end, but it has no number of iterations, and its condition is always true")
        if is_always:
            return _scan(traced, start, inputs, rows, row_form)
    traced, _, rows, row_form = _find_invariant_ranges(_Traced(loop, state, input_form, None), start, inputs)
    return _while(traced, start, rows, row_form)


def _find_invariant_ranges(traced: _Traced, start: Any, inputs: Any) -> tuple[_Traced, Any, Any, Form]:
    """Finds int64 ranges that are loop invariants; a range that an iteration leaves becomes all of int32.

    Returns:
      The iteration with them, the condition after it, the shapes of its rows, and their form.
    """
    elements = [jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in inputs]
    forms: list[Any] = []

    def shapes(number: Any, go: Any, arrays: Any, elements: Any) -> Any:
        go, (after, form), (rows, row_form) = traced.run(number, go, arrays, elements)
        forms[:] = [go, form, row_form]
        return after, rows

    while True:
        after, rows = jax.eval_shape(shapes, jnp.asarray(0), jnp.asarray(True), start, elements)
        go, form, row_form = forms
        if isinstance(traced.loop.trips, int) and traced.loop.trips == 0:  # the state stays as it is
            return traced, go, rows, row_form
        before, joined = traced.state, traced.state.joined(form)
        if joined is None or [(x.shape, x.dtype) for x in start] != [(y.shape, y.dtype) for y in after]:
            texts = types_text(before.values(start)), types_text(form.values(after))
            rule = "the number of iterations must be known, because an iteration changes the types of the state"
            fact = f"from {texts[0]} to {texts[1]}, but it depends on the data of an input"
            hint = f"`to_jax(model, {STATIC})` makes an input known"
            raise NotConstantError(f"{rule}, {fact}; {hint}")
        if joined == before:
            return traced, go, rows, row_form
        all_numbers = (int(INT32.min), int(INT32.max))
        wide = (r if r == s else all_numbers for r, s in zip(before.ranges, joined.ranges, strict=True))
        traced = _Traced(traced.loop, Form(before.structure, tuple(wide)), traced.inputs, traced.go)


def _scan(traced: _Traced, start: Any, inputs: Any, shapes: Any, row_form: Form) -> Results:
    types = [x.dtype for x in inputs]

    def step(carry: Any, elements: Any) -> Any:
        number, arrays = carry
        elements = list(map(from_float16_bits, elements, types))
        _, (after, _), (rows, _) = traced.run(number, None, arrays, elements)
        return (number + 1, after), list(map(as_float16_bits, rows))

    for name, row in zip(filter(None, traced.loop.read), shapes, strict=True):
        check_array(f"output {name!r}", jax.ShapeDtypeStruct((traced.loop.trips, *row.shape), row.dtype))
    elements = list(map(as_float16_bits, inputs))
    (_, after), rows = jax.lax.scan(step, (jnp.asarray(0), start), elements, length=traced.loop.trips)
    return traced.state.values(after), _restore(rows, shapes, row_form)


def _while(traced: _Traced, start: Any, shapes: Any, row_form: Form) -> Results:
    """Runs iterations whose number depends on data; of scan outputs there are as many rows as are stated."""
    loop = traced.loop
    read = [k for k, name in enumerate(loop.read) if name]
    if unknown := [loop.read[k] for k in read if k not in loop.maximum]:
        raise NotConstantError(
            f"the number of iterations must be known, because it is the size of the scan output {unknown[0]!r}, but it "
            f"depends on the data of an input; to_jax(model, maximum={{{unknown[0]!r}: 100}}) makes it 100 rows, those "
            "after the last iteration 0"
        )
    for k, row in zip(read, shapes, strict=True):
        check_array(f"output {loop.read[k]!r}", jax.ShapeDtypeStruct((loop.maximum[k], *row.shape), row.dtype))
    empty = [jnp.zeros((loop.maximum[k], *y.shape), y.dtype) for k, y in zip(read, shapes, strict=True)]

    def goes_on(carry: Any) -> Any:
        number, go, _, _ = carry
        return go if loop.trips is None else go & (number < loop.trips)

    def step(carry: Any) -> Any:
        number, go, arrays, buffers = carry
        go, (after, _), (rows, _) = traced.run(number, go, arrays, [])
        rows = map(as_float16_bits, rows)
        filled = [buffer.at[number].set(row, mode="drop") for buffer, row in zip(buffers, rows, strict=True)]
        return number + 1, jnp.asarray(go).reshape(()), after, filled

    first = jnp.asarray(0), jnp.asarray(loop.go), start, list(map(as_float16_bits, empty))
    _, _, *results = jax.lax.while_loop(goes_on, step, first)
    after, buffers = jax.tree.map(partial(_refuse_reverse_mode, loop.label), results)
    return traced.state.values(after), _restore(buffers, shapes, row_form)  # `_pad_rows` knows of the zeros


def _refuse_reverse_mode(label: str, y: jax.Array) -> jax.Array:
    """Returns a result of a loop of an unknown number of iterations; its transpose names the node, as JAX does not."""

    def back(*_: Any) -> Any:
        raise NotConstantError(
            f"{label}: the number of iterations must be known for reverse mode, such as jax.grad, but it depends on "
            f"the data of an input; `to_jax(model, {STATIC})` makes an input known, and forward mode, such as jax.jvp, "
            "needs no such number"
        )

    def keep(_: Any, y: jax.Array) -> jax.Array:
        return y

    return by_target(lambda _: keep, keep, back, is_back_open=True)(None, y)


def _restore(rows: Any, shapes: Any, form: Form) -> Any:
    """Returns the values of scan outputs, of the rows of `as_float16_bits`."""
    return form.values([from_float16_bits(y, row.dtype) for y, row in zip(rows, shapes, strict=True)])
