"""Softmax over the segments of an array, as attention over a graph needs it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..core.arguments.arrays import as_data
from ..errors import ConstraintError, message
from ..operations.values.accumulation_types import narrow_apart, wide_type
from ..operators import gather, scatter_nd
from .arguments import as_count, as_int32, check_floats, check_whole

_NAME = "segment_softmax"


def segment_softmax(scores: jax.Array | np.ndarray, segments: jax.Array | np.ndarray, count: int) -> jax.Array:
    """Turns scores into weights that add up to 1 in each segment, as jax.nn.softmax does for a whole axis.

    The greatest score of each segment is subtracted first. The weights do not depend on it, so it has no gradient.

    Args:
      scores: floats [element, ...], such as [edge, head].
      segments: integers [element], the segment of each score in [0, count), in any order. Give padding a segment of its
        own: a negative number counts from the end.
      count: how many segments there are; one may be empty.

    Returns:
      The weights, of the shape and dtype of `scores`. A segment whose scores are all -inf has NaN, and
      derivatives of 0: replace the NaN by `jnp.where`.

    Raises:
      DataTypeError: `scores` are no floats.
      ConstraintError: not a segment for each score, or an Explicit mesh divides these.

    Example:
      >>> import jax.numpy as jnp, numpy as np
      >>> from dml_jax.layers import segment_softmax
      >>> print(segment_softmax(jnp.float32([0, 5, 0]), np.int32([0, 1, 0]), 2))
      [0.5 1.  0.5]

    Source: softmax, by segment. Of floats of 16 bits and fewer it is computed in float32 and rounded once.
    """
    scores, segments = as_data(_NAME, "scores", scores), as_int32(_NAME, "segments", segments, "element")
    count = as_count(_NAME, "count", count)
    check_floats(_NAME, "scores", scores)
    check_whole(_NAME, scores=scores, segments=segments)
    if scores.shape[:1] != segments.shape:
        rule, fact = "scores must have a row for each of segments [element]", f"its shape is {scores.shape}"
        raise ConstraintError(message(_NAME, rule, fact, {"scores": scores, "segments": segments}))

    def by_segment(start: float, numbers: Any, reduction: Any) -> jax.Array:
        input = jnp.full((count, *numbers.shape[1:]), start, numbers.dtype)
        return scatter_nd(input, segments[:, None], numbers, reduction=reduction)

    wide = jnp.asarray(scores, wide_type(scores.dtype))
    greatest = gather(by_segment(-jnp.inf, jax.lax.stop_gradient(wide), "max"), segments, axis=0)
    # As in operations/softmax.py: where all are -inf a constant takes their place, and the result gets NaN by a sum.
    powers = jnp.exp(jnp.where(greatest == -jnp.inf, 0, wide - greatest))
    weights = powers / gather(by_segment(0, powers, "add"), segments, axis=0)
    return narrow_apart(weights + (greatest - greatest), scores.dtype)
