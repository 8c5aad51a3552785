"""The functions, as a program that is checked strictly calls them."""

from functools import partial
from typing import Any, assert_type

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from untyped import mesh_of_one, on_device

import dml_jax
from dml_jax import ConstraintError, DataTypeError, DepthSpaceOrder


def main() -> None:
    """Calls every function, in each way that its signature offers."""
    table = on_device(np.arange(12, dtype=np.float32).reshape(3, 4))
    reads(table)
    writes(table)
    pictures(np.zeros((2, 8, 4, 4), np.float32))
    strided(table.ravel())
    placed(table)
    refused()


def reads(table: jax.Array) -> None:
    rows = np.array([[0, 2], [1, -1]], np.int64)
    assert_type(dml_jax.gather(table, rows, 0), jax.Array)
    assert_type(dml_jax.gather(table, 2, axis=-1), jax.Array)
    assert_type(dml_jax.gather(table, np.int32(2), 0, mode="promise_in_bounds"), jax.Array)
    for value in (0, 0.5, True, np.float32(2), jnp.float32(3), on_device(np.zeros((), np.float32))):
        assert_type(dml_jax.gather(table, rows, 0, mode="fill", fill_value=value), jax.Array)
    assert_type(dml_jax.gather(table, [0, -1], 0), jax.Array)
    assert_type(dml_jax.gather_nd(table, [[0, 2], [1, -1]]), jax.Array)
    columns = np.zeros((3, 2), np.uint8)
    assert_type(dml_jax.gather_elements(table, columns, 1, mode="clip", indices_are_sorted=True), jax.Array)
    assert_type(dml_jax.gather_nd(table, rows, batch_dims=0, mode="fill", fill_value=np.nan), jax.Array)
    assert_type(dml_jax.gather(table, rows, 0, unique_indices=False, deterministic=True), jax.Array)


def writes(table: jax.Array) -> None:
    rows = np.array([[0, 2], [1, 1]], np.int64)
    assert_type(dml_jax.scatter_nd(table, rows, np.ones(2, np.float32), mode="clip"), jax.Array)
    assert_type(dml_jax.scatter_nd(table, rows, np.ones(2, np.float32), reduction="add", deterministic=True), jax.Array)
    columns, updates = np.zeros((3, 1), np.int32), on_device(np.ones((3, 1), np.float32))
    assert_type(dml_jax.scatter_elements(table, columns, updates, axis=1, mode="drop"), jax.Array)


def pictures(batch: np.ndarray) -> None:
    for order in DepthSpaceOrder:
        assert_type(order, DepthSpaceOrder)
        assert_type(dml_jax.depth_to_space(batch, 2, order=order), jax.Array)
    small = dml_jax.space_to_depth(batch, 2, order="CRD", data_format="NCHW")
    assert_type(small, jax.Array)
    assert_type(dml_jax.depth_to_space(small, block_size=2, order="COLUMN_ROW_DEPTH"), jax.Array)
    assert_type(dml_jax.average_pooling(batch, 2, strides=(2, 1)), jax.Array)
    assert_type(dml_jax.convolution(batch, np.ones((1, 8, 3, 3), np.float32), start_padding=1), jax.Array)
    assert_type(dml_jax.upsample_2d(batch, 2), jax.Array)
    with dml_jax.use_form("plain"):
        assert_type(dml_jax.space_to_depth(batch, 2, data_format="NHWC"), jax.Array)


def strided(buffer: jax.Array) -> None:
    view = dml_jax.as_strided(buffer, (2, 3), [5, 1], offset=1)
    assert_type(view, jax.Array)
    assert_type(dml_jax.as_strided_scatter(buffer, view, (5, 1), offset=1), jax.Array)


def placed(table: jax.Array) -> None:
    sharding = NamedSharding(mesh_of_one("rows"), PartitionSpec("rows"))
    assert_type(dml_jax.gather(table, np.arange(2), 0, out_sharding=sharding), jax.Array)
    look_up = partial(dml_jax.gather, axis=0)
    assert_type(look_up(table, np.arange(2)), jax.Array)


def refused() -> None:
    try:
        dml_jax.gather(np.zeros(3, np.float32), np.zeros(3, np.float32), 0)
    except DataTypeError as error:
        assert_type(error.args[0], Any)
    try:
        dml_jax.gather(np.zeros(3, np.float32), 0, 1)
    except ConstraintError as error:
        assert_type(str(error), str)
