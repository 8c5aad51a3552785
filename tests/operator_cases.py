"""One table of the operators that every promise test runs over."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import dml_jax
from dml_jax.core.rules import Rule

X = np.arange(1, 25, dtype=np.float32).reshape(4, 6)
ROWS = np.int32([[3, 0, -1, 2, 9, 1]])  # one index per column, one of them out of range
PAIRS = np.int32([[0, 0], [3, -1], [-2, 9]])  # the last one out of range
IMAGE = np.arange(2 * 8 * 4 * 6, dtype=np.float32).reshape(2, 8, 4, 6)


@dataclass(eq=False)
class Case:
    """An operator call: `arrays` are traced, `static` is not; each change of `breaks` breaks one rule."""

    function: Callable[..., Any]
    rules: tuple[Rule, ...]
    arrays: dict[str, np.ndarray]
    static: dict[str, Any] = field(default_factory=dict)
    breaks: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __call__(self, *arrays):
        return self.function(**dict(zip(self.arrays, arrays, strict=True)), **self.static)

    @property
    def floats(self):
        """Positions of the differentiable arrays."""
        return [i for i, a in enumerate(self.arrays.values()) if a.dtype.kind == "f"]


NO_INTEGERS = {"integer(indices)": {"indices": np.float32([0])}}
CASES = {
    "gather": Case(
        dml_jax.gather,
        dml_jax.gather.rules,
        {"input": X, "indices": np.int32([[3, 0], [-1, 9]])},
        {"axis": 1},
        NO_INTEGERS
        | {
            "minimum_rank(input, 1)": {"input": np.float32(1)},
            "axis_of(input)": {"axis": 2},
            "one_of(mode)": {"mode": "wrap"},
            "indexed_axes_not_empty": {"input": np.zeros((4, 0), np.float32)},
        },
    ),
    "gather_elements": Case(
        dml_jax.gather_elements,
        dml_jax.gather_elements.rules,
        {"input": X, "indices": ROWS},
        {"axis": 0},
        {
            "integer(indices)": {"indices": ROWS.astype(np.float32)},
            "minimum_rank(input, 1)": {"input": np.float32(1), "indices": np.int32(0)},
            "same_rank(indices, input)": {"indices": ROWS[0]},
            "axis_of(input)": {"axis": -3},
            "one_of(mode)": {"mode": "drop"},
            "same_sizes(indices, input, except_along=axis)": {"indices": ROWS[:, :1]},
            "indexed_axes_not_empty": {"input": np.zeros((0, 6), np.float32)},
        },
    ),
    "gather_nd": Case(
        dml_jax.gather_nd,
        dml_jax.gather_nd.rules,
        {"input": X, "indices": PAIRS},
        {},
        {
            "integer(indices)": {"indices": PAIRS.astype(np.float32)},
            "minimum_rank(input, 1)": {"input": np.float32(1)},
            "minimum_rank(indices, 1)": {"indices": np.int32(1)},
            "batch_fits": {"batch_dims": 2},
            "tuples_fit": {"indices": np.zeros((3, 3), np.int32)},
            "batch_sizes_agree": {"batch_dims": 1, "indices": np.zeros((3, 1), np.int32)},
            "one_of(mode)": {"mode": "drop"},
            "indexed_axes_not_empty": {"input": np.zeros((4, 0), np.float32)},
        },
    ),
    "scatter_elements": Case(
        dml_jax.scatter_elements,
        dml_jax.scatter_elements.rules,
        {"input": X, "indices": ROWS, "updates": -X[:1]},
        {"axis": 0},
        {
            "integer(indices)": {"indices": ROWS.astype(np.float32)},
            "same_dtype(updates, input)": {"updates": X[:1].astype(np.float16)},
            "minimum_rank(input, 1)": {"input": np.float32(1), "indices": np.int32(0), "updates": np.float32(1)},
            "same_rank(indices, input)": {"indices": ROWS[0], "updates": X[0]},
            "axis_of(input)": {"axis": 2},
            "one_of(reduction)": {"reduction": "mean"},
            "reducible(input)": {
                "reduction": "max",
                "input": X.astype(np.complex64),
                "updates": -X[:1].astype(np.complex64),
            },
            "one_of(mode)": {"mode": "fill"},
            "same_sizes(indices, input, except_along=axis)": {"indices": ROWS[:, :3], "updates": X[:1, :3]},
            "same_sizes(updates, indices)": {"updates": X[:2]},
            "indexed_axes_not_empty": {"input": np.zeros((0, 6), np.float32)},
        },
    ),
    "scatter_nd": Case(
        dml_jax.scatter_nd,
        dml_jax.scatter_nd.rules,
        {"input": X, "indices": PAIRS, "updates": np.float32([-1, -2, -3])},
        {},
        {
            "integer(indices)": {"indices": PAIRS.astype(np.float32)},
            "same_dtype(updates, input)": {"updates": np.int32([1, 2, 3])},
            "minimum_rank(input, 1)": {"input": np.float32(1)},
            "minimum_rank(indices, 1)": {"indices": np.int32(1)},
            "tuples_fit": {"indices": np.zeros((3, 0), np.int32)},
            "one_of(reduction)": {"reduction": "mean"},
            "reducible(input)": {
                "reduction": "max",
                "input": X.astype(np.complex64),
                "updates": np.complex64([1, 2, 3]),
            },
            "one_of(mode)": {"mode": "fill"},
            "sizes_follow(updates)": {"updates": np.float32([1, 2])},
            "indexed_axes_not_empty": {"input": np.zeros((4, 0), np.float32)},
        },
    ),
    "depth_to_space": Case(
        dml_jax.depth_to_space,
        dml_jax.depth_to_space.rules,
        {"input": IMAGE},
        {"block_size": 2, "data_format": "NCHW"},
        {
            "minimum_rank(input, 3)": {"input": IMAGE[0, 0]},
            "at_least(block_size, 1)": {"block_size": 0},
            "one_of(data_format)": {"data_format": "CHWN"},
            "divisible(channels)": {"block_size": 3},
        },
    ),
    "space_to_depth": Case(
        dml_jax.space_to_depth,
        dml_jax.space_to_depth.rules,
        {"input": IMAGE},
        {"block_size": 2, "data_format": "NHWC"},
        {
            "minimum_rank(input, 3)": {"input": IMAGE[0, 0]},
            "at_least(block_size, 1)": {"block_size": -1},
            "one_of(data_format)": {"data_format": "nhwc"},
            "divisible(rows)": {"input": IMAGE[:, :7]},
            "divisible(columns)": {"input": IMAGE[:, :, :3]},
            "block_fits": {"input": np.zeros((1, 1, 0, 0), np.float32), "block_size": 2**40, "data_format": "NCHW"},
        },
    ),
    "as_strided": Case(
        dml_jax.as_strided,
        dml_jax.as_strided.rules,
        {"buffer": X.ravel()},
        {"sizes": (2, 3, 2), "strides": (9, 1, 4), "offset": 1},
        {
            "one_dimension(buffer)": {"buffer": X},
            "not_negative(sizes)": {"sizes": (2, -1, 2)},
            "not_negative(strides)": {"strides": (9, 1, -1)},
            "not_negative(offset)": {"offset": -1},
            "representable": {"sizes": (2, 3, 2**62), "strides": (9, 1, 0)},
            "stride_count": {"strides": (9, 1)},
            "inside": {"offset": 9},
        },
    ),
    "as_strided_scatter": Case(
        dml_jax.as_strided_scatter,
        dml_jax.as_strided_scatter.rules,
        {"buffer": X.ravel(), "updates": -X[:2, :3]},
        {"strides": (2, 8), "offset": 3},
        {
            "one_dimension(buffer)": {"buffer": X},
            "same_dtype(updates, buffer)": {"updates": np.int32([[1, 2, 3]])},
            "not_negative(strides)": {"strides": (-2, 8)},
            "not_negative(offset)": {"offset": -1},
            "stride_count": {"strides": (1,)},
            "inside": {"buffer": X.ravel()[:21]},
            "injective": {"strides": (2, 1)},
        },
    ),
}


def variant(name, arrays=None, **static):
    """A case with other arrays and attributes."""
    case = CASES[name]
    return Case(case.function, case.rules, {**case.arrays, **(arrays or {})}, {**case.static, **static})


# The same promises hold in every mode; clamped writes go to different elements, so that none is a duplicate.
VARIANTS = CASES | {
    "gather fill": variant("gather", mode="fill"),
    "gather_elements fill": variant("gather_elements", mode="fill"),
    "gather_elements promise": variant("gather_elements", {"indices": ROWS % 4}, mode="promise_in_bounds"),
    "gather_nd fill": variant("gather_nd", mode="fill"),
    "gather_nd batch": variant("gather_nd", {"indices": np.int32([[[5], [-9]]] * 4)}, batch_dims=1),
    "scatter_elements clip": variant("scatter_elements", mode="clip"),
    "scatter_nd add": variant("scatter_nd", {"indices": PAIRS // 2}, reduction="add", mode="clip"),
    "gather deterministic": variant("gather", deterministic=True),
    "gather unique": variant("gather", {"indices": np.int32([5, 3, -6, 1, 2, 4])}, unique_indices=True),
    "scatter_nd clip": variant("scatter_nd", mode="clip"),
    "depth_to_space DCR": variant("depth_to_space", order="DCR"),
    "as_strided overlapping": variant("as_strided", sizes=(3, 4, 2), strides=(2, 2, 1)),
    "as_strided broadcast": variant("as_strided", sizes=(2, 3, 2), strides=(0, 5, 1)),
    "as_strided padded": variant("as_strided", sizes=(3, 4), strides=(9, 1), offset=2),
    "as_strided_scatter window": variant("as_strided_scatter", strides=(6, 1)),
    "as_strided_scatter interleaved": variant("as_strided_scatter", strides=(3, 2)),
    "space_to_depth CRD": variant("space_to_depth", order="CRD", data_format="NCHW"),
}
