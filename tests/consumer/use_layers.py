"""Parts of layers, as a program that is checked strictly calls them."""

from typing import assert_type

import jax
import numpy as np
from jax.sharding import PartitionSpec
from untyped import mesh_of_one, on_device

from dml_jax.layers import (
    buffer_slots,
    coalesce,
    collect,
    dispatch,
    embedding_gradients,
    embedding_lookup,
    group_sizes,
    patches,
    permute_rows,
    route,
    segment_softmax,
    sort_by_group,
    weighted_sum,
)


def main() -> None:
    """Sends two tokens to experts and back, sorted and in buffers."""
    expert, weight = route(np.array([[0, 1, 2], [2, 1, 0]], np.float32), 2)
    assert_type(weight, jax.Array)
    group = expert.reshape(-1)
    rows = np.ones((4, 5), np.float32)
    order, inverse = sort_by_group(group)
    assert_type(order, jax.Array)
    assert_type(permute_rows(permute_rows(rows, order), inverse), jax.Array)
    assert_type(group_sizes(group, 3), jax.Array)
    slot = buffer_slots(group, 3, capacity=1)
    buffers = dispatch(rows, slot, on_device(np.zeros((3, 1, 5), np.float32)))
    assert_type(weighted_sum(collect(buffers, slot), weight), jax.Array)
    assert_type(segment_softmax(rows, np.array([0, 0, 1, 1], np.int32), 2), jax.Array)
    assert_type(patches(np.zeros((3, 4, 4), np.uint8), 2, data_format="NCHW"), jax.Array)
    assert_type(coalesce(np.zeros(4, np.int32), rows, 3), tuple[jax.Array, jax.Array])
    by_row = PartitionSpec("d")
    step = jax.shard_map(embedding_step, mesh=mesh_of_one("d"), in_specs=by_row, out_specs=by_row)
    step(on_device(rows), group)


def embedding_step(table: jax.Array, ids: jax.Array) -> jax.Array:
    """Reads rows of a table of one device, and sends them as gradients."""
    rows = embedding_lookup(table, ids, "d")
    assert_type(rows, jax.Array)
    assert_type(embedding_gradients(ids, rows, 4, "d"), tuple[jax.Array, jax.Array])
    return rows


if __name__ == "__main__":
    main()
