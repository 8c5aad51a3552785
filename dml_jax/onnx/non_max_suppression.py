"""ONNX's NonMaxSuppression: in NumPy for constants; in JAX with a maximum number of boxes, padded with -1."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

from ..errors import ConstraintError
from .int64_ranges import Bounded
from .operand_checks import one_number
from .stated_sizes import Maximum
from .values import Array, Operators, arrays, is_narrowed, on_device

_DECIDES = "how many boxes are kept"


def non_max_suppression(
    *,
    boxes: Array,
    scores: Array,
    max_output_boxes_per_class: Array | None = None,
    iou_threshold: Array | None = None,
    score_threshold: Array | None = None,
    center_point_box: int = 0,
    maximum: Maximum,
) -> Any:
    """Returns batch, class and index of each kept box, by falling score; of equal scores the first box comes first.

    With a stated `maximum` for the output, its only one, it has so many rows: -1 after the last box, and without those
    beyond. Then inputs may be data.
    """
    if boxes.ndim != 3 or boxes.shape[2] != 4 or scores.ndim != 3 or scores.shape[::2] != boxes.shape[:2]:
        rule = "boxes must be (batches, boxes, 4) and scores (batches, classes, boxes)"
        raise ConstraintError(f"{rule}, but they are {boxes.shape} and {scores.shape}")
    rows = maximum.of()
    if rows is not None:
        limits = max_output_boxes_per_class, iou_threshold, score_threshold
        return _up_to(rows, on_device(boxes), on_device(scores), *limits, bool(center_point_box))

    def number(name: str, value: Array | None, default: float) -> Any:
        """Returns the only element of an array, in its type."""
        return default if value is None else maximum.known(name, one_number(name, value), _DECIDES)[()]

    boxes, scores = maximum.known("boxes", boxes, _DECIDES), maximum.known("scores", scores, _DECIDES)
    most = int(number("max_output_boxes_per_class", max_output_boxes_per_class, 0))
    overlap = number("iou_threshold", iou_threshold, 0.0)
    if not 0 <= overlap <= 1:
        raise ConstraintError(f"iou_threshold must be in [0, 1], but it is {overlap}")
    least = number("score_threshold", score_threshold, -np.inf)
    corners = _corners(boxes, bool(center_point_box))
    selected = [
        (batch, label, box)
        for batch, rows in enumerate(scores)
        for label, row in enumerate(rows)
        for box in _select_boxes(corners[batch], row, most, overlap, least)
    ]
    return np.asarray(selected, np.int64).reshape(-1, 3)


def _corners(boxes: Any, are_centered: bool) -> Any:
    """Returns the least and the greatest coordinates of each box."""
    xp, boxes = arrays(boxes)
    first, second = boxes[..., :2], boxes[..., 2:]
    if are_centered:
        first, second = first - second / 2, first + second / 2
    return xp.concatenate([xp.minimum(first, second), xp.maximum(first, second)], -1)


def _select_boxes(corners: np.ndarray, scores: np.ndarray, most: int, overlap: float, least: float) -> list[int]:
    """Returns the kept boxes of one class, by falling score.

    A box is compared with those alone that begin before it ends, along the first coordinate, and less than the widest
    box before it begins: detectors move the boxes of each class to a place of its own, where few are near.
    """
    order = np.argsort(-scores, kind="stable")
    order = order[scores[order] > least]
    boxes, kept = corners[order], list[int]()
    is_left = np.ones(len(order), bool)
    by_start = np.argsort(boxes[:, 0], kind="stable")
    starts, ends = boxes[:, 0].astype(np.float64), boxes[:, 2].astype(np.float64)
    with np.errstate(all="ignore"):
        widest = np.nanmax(ends - starts, initial=0)
        first = np.searchsorted(starts[by_start], starts - widest)
        last = np.searchsorted(starts[by_start], ends, side="right")
        for number in range(len(order)):
            if len(kept) >= most:
                break
            if is_left[number]:
                kept.append(int(order[number]))
                near = by_start[first[number] : last[number]]
                near = near[is_left[near]]
                is_left[near] = ~(_ratios(boxes[number], boxes[near]) > overlap)
    return kept


def _ratios(one: Any, others: Any) -> Any:
    """Returns the intersection over union of boxes with one box; 0 if the union is empty."""
    xp, one, others = arrays(one[None], others)
    sides = xp.minimum(one[:, 2:], others[:, 2:]) - xp.maximum(one[:, :2], others[:, :2])
    sides = xp.maximum(sides, 0)
    common = sides[:, 0] * sides[:, 1]
    areas = [(boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]) for boxes in (one, others)]
    union = areas[0] + areas[1] - common
    return xp.where(common > 0, common / xp.where(common > 0, union, 1), 0)


def _up_to(
    rows: int,
    boxes: jax.Array,
    scores: jax.Array,
    most: Array | None,
    overlap: Array | None,
    least: Array | None,
    are_centered: bool,
) -> Any:
    """NonMaxSuppression of traced data: at most `rows` boxes in all, and -1 after them."""
    (batches, count, _), classes = boxes.shape, scores.shape[1]
    limit = _limit(0 if most is None else one_number("max_output_boxes_per_class", most))
    highest = 0.0 if overlap is None else one_number("iou_threshold", overlap)
    lowest = -np.inf if least is None else one_number("score_threshold", least)
    # Each step keeps one box of a class; where the limit is data, those beyond it keep none.
    steps = max(0, min(count, rows, limit if isinstance(limit, int) else count))

    def kept(corners: jax.Array, scores: jax.Array) -> jax.Array:
        """Returns the kept boxes of one class, by falling score, and -1 after them."""

        def step(is_left: jax.Array, number: jax.Array) -> tuple[jax.Array, jax.Array]:
            best = jnp.argmax(jnp.where(is_left, scores, -np.inf)).astype(np.int32)
            is_kept = is_left.any() & (number < limit)
            is_apart = ~(_ratios(corners[best], corners) > highest) & (lax.iota(np.int32, count) != best)
            return is_left & is_apart, jnp.where(is_kept, best, -1)

        return lax.scan(step, scores > lowest, jnp.arange(steps, dtype=np.int32))[1]

    of_classes = jax.vmap(kept, (None, 0))
    boxes_kept = jax.vmap(of_classes)(_corners(boxes, are_centered), scores)
    batch, label = (lax.broadcasted_iota(np.int32, boxes_kept.shape, d) for d in range(2))
    triples = jnp.stack([batch, label, boxes_kept], -1).reshape(-1, 3)
    at = jnp.nonzero(boxes_kept.reshape(-1) >= 0, size=rows, fill_value=len(triples))[0]
    triples = jnp.concatenate([triples, jnp.full((1, 3), -1, np.int32)])[at]
    greatest = max(batches, classes, count) - 1
    return Bounded(triples, (-1, greatest)) if is_narrowed(np.int64) else triples.astype(np.int64)


def _limit(most: Any) -> Any:
    """Clamps a limit to int32, because exporters write the greatest int64."""
    greatest = 2**31 - 1
    return jnp.minimum(most, greatest).astype(np.int32) if isinstance(most, Tracer) else min(int(most), greatest)


OPERATORS: Operators = {"NonMaxSuppression": {10: non_max_suppression}}
