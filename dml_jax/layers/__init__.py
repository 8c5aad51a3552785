"""Parts of layers, functions without parameters: routing to experts, sharded tables, softmax over segments, patches."""

from .embedding import coalesce, embedding_gradients, embedding_lookup
from .patches import patches
from .routing import (
    buffer_slots,
    collect,
    dispatch,
    group_sizes,
    permute_rows,
    route,
    sort_by_group,
    weighted_sum,
)
from .segments import segment_softmax

__all__ = [
    "buffer_slots",
    "coalesce",
    "collect",
    "dispatch",
    "embedding_gradients",
    "embedding_lookup",
    "group_sizes",
    "patches",
    "permute_rows",
    "route",
    "segment_softmax",
    "sort_by_group",
    "weighted_sum",
]
