"""Attention and its gradients in float64, query by query: only the keys that a query sees are read."""

from types import SimpleNamespace

import numpy as np


def merged(heads):
    """Heads (batch, heads, rows, size) side by side: (batch, rows, heads * size)."""
    batch, count, rows, size = heads.shape
    return heads.transpose(0, 2, 1, 3).reshape(batch, rows, count * size)


def seen_keys(queries, lengths, keys, starts=None, before=None, after=None):
    """Whether a query sees a key, (batch, 1, queries, keys): by the lengths, and by a window around its own key."""
    key, own = np.arange(keys), np.arange(queries)[:, None] + np.reshape(0 if starts is None else starts, (-1, 1, 1))
    seen = np.broadcast_to(key < np.reshape(lengths, (-1, 1, 1)), (len(lengths), queries, keys))
    seen = seen if before is None else seen & (key >= own - before)
    return (seen if after is None else seen & (key <= own + after))[:, None]


def attended(query, key, value, seen, cotangent=None, *, scale, softcap=0.0, bias=0.0, sinks=None):
    """The output, the scores and the weights of attention, and the derivatives of output * cotangent.

    Args:
      query: (batch, N heads, queries, D).
      key: (batch, G heads, keys, D); N / G heads of queries share one.
      value: (batch, G heads, keys, V).
      seen: whether a query sees a key; it broadcasts to (batch, N, queries, keys), as the bias.
      cotangent: of the shape of the output, by default ones.
      scale, softcap, bias, sinks: as in `dml_jax.operations.attention_steps.attention_steps`.
    """
    query, key, value = (np.asarray(x, np.float64) for x in (query, key, value))
    sizes = (*query.shape[:3], key.shape[2])
    seen, bias = np.broadcast_to(seen, sizes), np.broadcast_to(np.float64(bias), sizes)
    shapes = {"output": (*sizes[:3], value.shape[3]), "scores": sizes, "weights": sizes, "of_bias": sizes}
    r = SimpleNamespace(**{name: np.zeros(shape) for name, shape in shapes.items()})
    r.of_query, r.of_key, r.of_value = (np.zeros(x.shape) for x in (query, key, value))
    r.scores[...] = -np.inf
    for b, h, s in np.ndindex(*sizes[:3]):
        g, t = h * key.shape[1] // sizes[1], np.flatnonzero(seen[b, h, s] & (bias[b, h, s] > -np.inf))
        if not len(t):
            continue
        scores = scale * (key[b, g, t] @ query[b, h, s])
        slopes = 1 - np.tanh(scores / softcap) ** 2 if softcap else 1.0
        scores = (softcap * np.tanh(scores / softcap) if softcap else scores) + bias[b, h, s, t]
        every = scores if sinks is None else np.append(scores, sinks[h])
        weights = np.exp(scores - every.max()) / np.exp(every - every.max()).sum()
        back = np.ones(value.shape[3]) if cotangent is None else np.float64(cotangent[b, h, s])
        of_scores = weights * (value[b, g, t] @ back - weights @ (value[b, g, t] @ back))
        r.output[b, h, s], r.scores[b, h, s, t], r.weights[b, h, s, t] = weights @ value[b, g, t], scores, weights
        r.of_bias[b, h, s, t] = of_scores
        r.of_query[b, h, s] = scale * (of_scores * slopes) @ key[b, g, t]
        r.of_key[b, g, t] += scale * np.outer(of_scores * slopes, query[b, h, s])
        r.of_value[b, g, t] += np.outer(weights, back)
    return r
