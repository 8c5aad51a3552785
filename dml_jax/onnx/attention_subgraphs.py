"""Attention that exporters write as several nodes: MatMul, Mul or Div, Add or Where, Softmax, MatMul.

Of 16-bit floats, each node makes `Scores`, and the last one computes attention of what these were made of. To any other
operator they are the array that the nodes compute one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from operator import is_
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np

from ..operations.attention import attend
from .deferred import Deferred, Row, Rows, plain
from .model_loading import dtype_of
from .values import Array, on_device

Keywords = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Scores(Deferred):
    """Products of queries and keys, what is made of them, and whether they were followed by Softmax.

    Args:
      a: queries, (..., S, D), of 16 bits.
      b: keys, (..., D, T).
      kind: the type of the numbers, the queries' own or float32.
      steps: the nodes so far: the function, the name of its operand that the one before makes, and other operands.
      scale: by which the products were multiplied.
      term: what was added, or None.
      mask: where not -inf was selected, or None.
      stage: what the numbers are; "nan" are flags of weights that are NaN.
      of_nothing: the weights of a query that sees no key.
    """

    is_counted: ClassVar[bool] = True

    a: Array
    b: Array
    kind: np.dtype[Any]
    steps: tuple[tuple[Callable[..., Any], str, Keywords], ...]
    scale: float = 1.0
    term: Array | None = None
    mask: Array | None = None
    stage: Literal["scores", "weights", "nan"] = "scores"
    of_nothing: float = np.nan

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(bool) if self.stage == "nan" else self.kind

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.a.shape[:-1], self.b.shape[-1])

    def compute(self) -> Array:
        (first, _, operands), *others = self.steps
        value = first(**operands)
        for function, name, others_of in others:
            value = function(**{name: value}, **{key: plain(other) for key, other in others_of.items()})
        return value

    def made_of(self, other: Scores) -> bool:
        """Whether the last node had the other as its operand."""
        return len(self.steps) == len(other.steps) + 1 and all(map(is_, self.steps, other.steps))

    def after(self, function: Callable[..., Any], name: str, keywords: Keywords, **changed: Any) -> Scores:
        """What a node makes of these scores, its operand of that name."""
        others = {key: value for key, value in keywords.items() if key != name}
        return replace(self, steps=(*self.steps, (function, name, others)), **changed)


def _is_half(*values: Any) -> bool:
    return all(isinstance(x, (np.ndarray, jax.Array)) and x.dtype in (jnp.float16, jnp.bfloat16) for x in values)


def _number(value: Any) -> float | None:
    """A constant of one element; None for others."""
    return float(value.reshape(())) if isinstance(value, np.ndarray) and value.size == 1 else None


def _matmul(function: Callable[..., Any], keywords: Keywords) -> Any:
    a, b = keywords["a"], keywords["b"]
    if isinstance(a, Scores):
        fits = a.stage == "weights" and a.kind == b.dtype and not isinstance(b, Scores)
        return _product_of(a, plain(b)) if fits else None
    if not _is_half(a, b) or a.dtype != b.dtype or not 3 <= a.ndim == b.ndim <= 4 or a.shape[:-2] != b.shape[:-2]:
        return None
    return Scores(a, b, a.dtype, ((function, "a", keywords),)) if a.shape[-1] == b.shape[-2] else None


def _product_of(weights: Scores, value: Array) -> jax.Array | None:
    is_product = value.ndim == weights.ndim and value.shape[:-1] == (*weights.shape[:-2], weights.shape[-1])
    return _attention(weights, value) if is_product and _is_half(value) else None


def _attention(weights: Scores, value: Array) -> jax.Array:
    def of_rank_4(x: Array) -> jax.Array:
        aligned = on_device(x).reshape((1,) * (weights.ndim - x.ndim) + x.shape)
        return aligned if aligned.ndim == 4 else aligned[:, None]

    output = attend(
        *(of_rank_4(x) for x in (weights.a, jnp.swapaxes(on_device(weights.b), -1, -2), value)),
        dtype=value.dtype,
        scale=weights.scale,
        added=() if weights.term is None else (of_rank_4(weights.term),),
        mask=None if weights.mask is None else of_rank_4(weights.mask),
        of_nothing=weights.of_nothing,
    )
    return output.reshape(*weights.shape[:-1], value.shape[-1])


def _scaled(function: Callable[..., Any], keywords: Keywords, name: str, other: str, exponent: int) -> Any:
    scores, factor = keywords[name], _number(keywords[other])
    if not isinstance(scores, Scores) or scores.stage != "scores" or not factor or scores.mask is not None:
        return None
    return (
        scores.after(function, name, keywords, scale=scores.scale * factor**exponent) if scores.term is None else None
    )


def _mul(function: Callable[..., Any], keywords: Keywords) -> Any:
    name, other = ("a", "b") if isinstance(keywords["a"], Scores) else ("b", "a")
    return _scaled(function, keywords, name, other, 1)


def _div(function: Callable[..., Any], keywords: Keywords) -> Any:
    return _scaled(function, keywords, "a", "b", -1)


def _fits(scores: Any, term: Any) -> bool:
    """Whether an array broadcasts to scores that nothing was added to."""
    if not isinstance(scores, Scores) or scores.stage != "scores" or not isinstance(term, (np.ndarray, jax.Array)):
        return False
    is_first = scores.term is None and scores.mask is None
    return is_first and term.ndim <= scores.ndim and np.broadcast_shapes(term.shape, scores.shape) == scores.shape


def _add(function: Callable[..., Any], keywords: Keywords) -> Any:
    name, other = ("a", "b") if isinstance(keywords["a"], Scores) else ("b", "a")
    scores, term = keywords[name], keywords[other]
    return scores.after(function, name, keywords, term=term) if _fits(scores, term) else None


def _where(function: Callable[..., Any], keywords: Keywords) -> Any:
    """Scores where a flag is set, else -inf; or weights where they are no NaN, else 0."""
    condition, x, y = (keywords[name] for name in ("condition", "x", "y"))
    if isinstance(condition, Scores):
        is_zero_of_weights = isinstance(y, Scores) and y.stage == "weights" and _number(x) == 0
        is_own = is_zero_of_weights and condition.stage == "nan" and condition.made_of(y)
        return y.after(function, "y", keywords, of_nothing=0.0) if is_own else None
    for name, fill, flags in (("x", y, condition), ("y", x, condition)):
        if _number(fill) == -np.inf and _fits(keywords[name], flags):
            mask = flags if name == "x" else ~flags
            return keywords[name].after(function, name, keywords, mask=mask)
    return None


def _softmax(function: Callable[..., Any], keywords: Keywords) -> Any:
    scores = keywords["input"]
    is_last = isinstance(scores, Scores) and scores.stage == "scores" and keywords["axis"] in (-1, scores.ndim - 1)
    return scores.after(function, "input", keywords, stage="weights") if is_last else None


def _is_nan(function: Callable[..., Any], keywords: Keywords) -> Any:
    weights = keywords["x"]
    is_weights = isinstance(weights, Scores) and weights.stage == "weights"
    return weights.after(function, "x", keywords, stage="nan") if is_weights else None


def _cast(function: Callable[..., Any], keywords: Keywords) -> Any:
    """To float32 before Softmax, and back."""
    scores = keywords["input"]
    if not isinstance(scores, Scores) or scores.stage == "nan" or not isinstance(keywords["to"], int):
        return None
    kind = np.dtype(dtype_of(keywords["to"], "to"))
    is_kept = kind == np.float32 or (kind == scores.a.dtype and scores.stage == "weights")
    return scores.after(function, "input", keywords, kind=kind) if is_kept else None


def _of_arrays(row: Row) -> Row:
    """The rule for operands whose other deferred values are arrays."""
    return lambda function, keywords: row(
        function, {name: x if isinstance(x, Scores) else plain(x) for name, x in keywords.items()}
    )


ATTENTION: Rows = {
    "MatMul": _of_arrays(_matmul),
    "Mul": _of_arrays(_mul),
    "Div": _of_arrays(_div),
    "Add": _of_arrays(_add),
    "Where": _of_arrays(_where),
    "Softmax": _of_arrays(_softmax),
    "IsNaN": _of_arrays(_is_nan),
    "Cast": _of_arrays(_cast),
}
