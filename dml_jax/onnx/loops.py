"""ONNX's Loop and Scan: their inputs and outputs, for loop_execution.py."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..errors import ConstraintError
from .block_execution import Body
from .flattened_values import as_arrays
from .int64_ranges import Bounded, move_bounded
from .layout import axis_of
from .loop_execution import Iteration, iterate
from .stated_sizes import Maximum
from .values import Operators

# Greater counts are those of loops that a condition ends: exporters write the greatest number of 64 bits.
ENDLESS = 2**31 - 1


def loop(*, v_initial: tuple[Any, ...], body: Body, count: int, maximum: Maximum) -> tuple[Any, ...]:
    trips, cond, *state = v_initial
    kept = len(state)
    body.check(inputs=2 + kept, outputs=1 + max(kept, count))
    stated = {name: k for k, name in enumerate(maximum.outputs) if name in maximum.sizes}
    if states := [name for name, k in stated.items() if k < kept]:
        raise ConstraintError(f"maximum must be of a scan output, but {states[0]!r} is a state")
    trips, go = _scalar("M", trips), True if cond is None else _scalar("cond", cond)
    if not isinstance(trips, Tracer) and trips is not None:
        trips = None if trips >= ENDLESS else max(0, int(trips))
    if not isinstance(go, Tracer):
        trips, go = (trips if go else 0), True

    def run(number: Any, go: Any, state: list[Any], _: Any) -> tuple[Any, list[Any], list[Any]]:
        after, *values = body.at(number)(number, go, *state)
        return np.asarray(True) if cond is None else after, values[:kept], values[kept:count]

    sizes = {k - kept: maximum.sizes[name] for name, k in stated.items()}
    state, rows = iterate(Iteration(body.label, run, trips, go, state, [], body.read[kept:], sizes))
    return *state, *rows


def scan(
    *,
    initial_state_and_scan_inputs: tuple[Any, ...],
    body: Body,
    num_scan_inputs: int,
    count: int,
    scan_input_axes: Sequence[int] = (),
    scan_input_directions: Sequence[int] = (),
    scan_output_axes: Sequence[int] = (),
    scan_output_directions: Sequence[int] = (),
) -> tuple[Any, ...]:
    kept = _state_count(initial_state_and_scan_inputs, num_scan_inputs)
    state, inputs = initial_state_and_scan_inputs[:kept], initial_state_and_scan_inputs[kept:]
    axes = _per("scan_input_axes", scan_input_axes, len(inputs))
    flips = _per("scan_input_directions", scan_input_directions, len(inputs))
    inputs = [_leading("scan_input_axes", x, *way) for x, *way in zip(inputs, axes, flips, strict=True)]
    state, rows = _scan(body, list(state), inputs, count)
    axes = _per("scan_output_axes", scan_output_axes, len(rows))
    flips = _per("scan_output_directions", scan_output_directions, len(rows))
    return *state, *(_trailing("scan_output_axes", y, *way) for y, *way in zip(rows, axes, flips, strict=True))


def scan_of_batch(
    *,
    initial_state_and_scan_inputs: tuple[Any, ...],
    body: Body,
    num_scan_inputs: int,
    count: int,
    directions: Sequence[int] = (),
) -> tuple[Any, ...]:
    """Scan of opset 8: dimension 0 is the batch, dimension 1 is scanned up to `sequence_lens`."""
    lengths, *values = initial_state_and_scan_inputs
    arrays, form = as_arrays(values)
    kept = _state_count(values, num_scan_inputs)
    sizes = {x.shape[:2] for x in arrays[kept:]} | {(x.shape[0], arrays[-1].shape[1]) for x in arrays[:kept]}
    if len(sizes) > 1:
        rule = "the batch and the length of the scan inputs must be equal, and the batch of the state"
        raise ConstraintError(f"{rule}, but the shapes are {', '.join(str(x.shape) for x in arrays)}")
    ((batch, longest),) = sizes
    lengths = jnp.full(batch, longest) if lengths is None else as_arrays(lengths)[0][0]
    flips = _per("directions", directions, num_scan_inputs)
    forms = []

    def scanned(example: Any, length: Any, arrays: Any) -> Any:
        values = form.values(arrays)
        inputs = [_leading("directions", x, 0, flip) for x, flip in zip(values[kept:], flips, strict=True)]
        results, form_made = as_arrays(_scan(body.at(example), values[:kept], inputs, count, length))
        forms.append(form_made)
        return results

    results = jax.vmap(scanned)(jnp.arange(batch), lengths, arrays)
    state, rows = forms[-1].values(results)
    return *state, *rows


def _scan(
    body: Body, state: list[Any], inputs: list[Any], count: int, length: Any = None
) -> tuple[list[Any], list[Any]]:
    """Scans inputs along their first dimension, as far as `length` says."""
    kept, trips = len(state), inputs[0].shape[0]
    body.check(inputs=kept + len(inputs), outputs=max(kept, count))
    if any(x.shape[0] != trips for x in inputs):
        rule = "all scan inputs must have one size along the scanned dimension"
        raise ConstraintError(f"{rule}, but they have {[x.shape[0] for x in inputs]}")

    def run(number: Any, go: Any, state: list[Any], elements: list[Any]) -> tuple[Any, list[Any], list[Any]]:
        outputs = body.at(number)(*state, *elements)
        after, rows = list(outputs[:kept]), list(outputs[kept:count])
        if length is not None:
            is_before = getattr(number, "array", number) < length
            after = [
                move_bounded(lambda new, old: jnp.where(is_before, new, old), *pair)
                for pair in zip(after, state, strict=True)
            ]
            arrays, form = as_arrays(rows)
            rows = form.with_zero().values([jnp.where(is_before, y, jnp.zeros_like(y)) for y in arrays])
        return go, after, rows

    return iterate(Iteration(body.label, run, trips, True, state, inputs, body.read[kept:], {}))


def _scalar(name: str, value: Any) -> Any:
    """Returns a number that is known, one that is traced as an array of no dimensions, or None."""
    if value is None:
        return None
    value = value.array if isinstance(value, Bounded) else value
    if np.size(value) != 1:
        raise ConstraintError(f"{name} must have one element, but its shape is {np.shape(value)}")
    return value.reshape(()) if isinstance(value, Tracer) else np.asarray(value).item()


def _state_count(values: Sequence[Any], num_scan_inputs: int) -> int:
    """Returns how many of the values are the state."""
    if not 1 <= num_scan_inputs <= len(values):
        raise ConstraintError(f"num_scan_inputs must be in [1, {len(values)}], but it is {num_scan_inputs}")
    return len(values) - num_scan_inputs


def _per(name: str, given: Sequence[int], count: int) -> list[int]:
    """Returns an attribute with a number for each input or output, 0 by default."""
    if given and len(given) != count:
        raise ConstraintError(f"{name} must have {count} numbers, but it has {len(given)}")
    if name.endswith("directions") and not {0, 1}.issuperset(given):
        raise ConstraintError(f"{name} must be 0 or 1, but they are {list(given)}")
    return list(given) or [0] * count


def _leading(name: str, x: Any, axis: int, flip: int) -> Any:
    """Returns a scan input with the scanned dimension first, from its end to its beginning if `flip` is set."""
    axis = axis_of(name, axis, x.ndim)
    return x if axis == flip == 0 else move_bounded(lambda x: _flip(_moveaxis(x, axis, 0), flip), x)


def _trailing(name: str, rows: Any, axis: int, flip: int) -> Any:
    """Returns a scan output with the rows along a dimension, the last one first if `flip` is set."""
    if rows is None:
        return None
    axis = axis_of(name, axis, rows.ndim)
    return rows if axis == flip == 0 else move_bounded(lambda x: _moveaxis(_flip(x, flip), 0, axis), rows)


def _moveaxis(x: Any, source: int, target: int) -> Any:
    return np.moveaxis(x, source, target) if isinstance(x, np.ndarray) else jnp.moveaxis(x, source, target)


def _flip(x: Any, flip: int) -> Any:
    return x[::-1] if flip else x


OPERATORS: Operators = {"Loop": {1: loop}, "Scan": {8: scan_of_batch, 9: scan}}
