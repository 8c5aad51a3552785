"""ONNX's NonMaxSuppression: which boxes are kept decides a size, so all inputs must be known; in NumPy."""

from typing import Any

import numpy as np

from ..errors import ConstraintError
from .values import Array, Operators, known

__all__ = ["OPERATORS", "non_max_suppression"]

_DECIDES = "how many boxes are kept"


def non_max_suppression(
    *,
    boxes: Array,
    scores: Array,
    max_output_boxes_per_class: Array | None = None,
    iou_threshold: Array | None = None,
    score_threshold: Array | None = None,
    center_point_box: int = 0,
) -> np.ndarray:
    """Returns batch, class and number of each box that is kept, the best first; of equal scores the first box first."""
    boxes, scores = known("boxes", boxes, _DECIDES), known("scores", scores, _DECIDES)
    if boxes.ndim != 3 or boxes.shape[2] != 4 or scores.ndim != 3 or scores.shape[::2] != boxes.shape[:2]:
        rule = "boxes must be (batches, boxes, 4) and scores (batches, classes, boxes)"
        raise ConstraintError(f"{rule}, but they are {boxes.shape} and {scores.shape}")
    most = int(_number("max_output_boxes_per_class", max_output_boxes_per_class, 0))
    overlap = _number("iou_threshold", iou_threshold, 0.0)
    if not 0 <= overlap <= 1:
        raise ConstraintError(f"iou_threshold must be in [0, 1], but it is {overlap}")
    least = _number("score_threshold", score_threshold, -np.inf)
    corners = _corners(boxes, bool(center_point_box))
    found = [
        (batch, label, box)
        for batch, rows in enumerate(scores)
        for label, row in enumerate(rows)
        for box in _kept(corners[batch], row, most, overlap, least)
    ]
    return np.asarray(found, np.int64).reshape(-1, 3)


def _number(name: str, value: Array | None, default: float) -> Any:
    """Returns the only element of an array, in its type."""
    if value is None:
        return default
    if value.size != 1:
        raise ConstraintError(f"{name} must be one number, but its shape is {value.shape}")
    return known(name, value, _DECIDES).reshape(-1)[0]


def _corners(boxes: np.ndarray, are_centered: bool) -> np.ndarray:
    """Returns the least and the greatest coordinates of each box."""
    first, second = boxes[..., :2], boxes[..., 2:]
    if are_centered:
        first, second = first - second / 2, first + second / 2
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], -1)


def _kept(corners: np.ndarray, scores: np.ndarray, most: int, overlap: float, least: float) -> list[int]:
    left = np.argsort(-scores, kind="stable")
    left = left[scores[left] > least]
    kept: list[int] = []
    while len(left) and len(kept) < most:
        best, left = int(left[0]), left[1:]
        kept.append(best)
        left = left[~(_ratios(corners[best], corners[left]) > overlap)]
    return kept


def _ratios(one: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The area that boxes have in common with one, divided by the area of both; 0 where there is none."""
    sides = np.minimum(one[2:], others[:, 2:]) - np.maximum(one[:2], others[:, :2])
    common = np.maximum(sides, 0).prod(-1)
    union = (one[2:] - one[:2]).prod() + (others[:, 2:] - others[:, :2]).prod(-1) - common
    return np.where(common > 0, common / np.where(common > 0, union, 1), 0)


OPERATORS: Operators = {"NonMaxSuppression": {10: non_max_suppression}}
