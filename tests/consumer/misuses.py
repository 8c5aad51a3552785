"""Calls that a type checker refuses, each with the rule that says so; the library refuses them when they are run."""

# pyright: reportUnknownLambdaType=false

from collections.abc import Callable, Mapping

import numpy as np

import dml_jax
from dml_jax import TensorDesc
from dml_jax.batch import map_batches

DATA, INDICES = np.zeros((4, 4), np.float32), np.zeros((4, 4), np.int32)
PICTURE = np.zeros((1, 4, 2, 2), np.float32)
DEPTH, SPACE = TensorDesc("UINT8", (1, 4, 1, 1)), TensorDesc("UINT8", (1, 1, 2, 2))
BLOCKS = dml_jax.DepthToSpaceDesc(DEPTH, SPACE, 2)

MISUSES: Mapping[str, Callable[[], object]] = {
    "misspelled function": lambda: dml_jax.gathr(DATA, INDICES, 0),  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    "missing argument": lambda: dml_jax.gather(DATA, INDICES),  # pyright: ignore[reportCallIssue]
    "misspelled keyword": lambda: dml_jax.gather(DATA, INDICES, axes=0),  # pyright: ignore[reportCallIssue]
    "keyword by position": lambda: dml_jax.gather_nd(DATA, INDICES, 1),  # pyright: ignore[reportCallIssue]
    "list for an array": lambda: dml_jax.gather([1, 2], INDICES, 0),  # pyright: ignore[reportArgumentType]
    "list of floats for indices": lambda: dml_jax.gather(DATA, [0.5], 0),  # pyright: ignore[reportArgumentType]
    "float for windows": lambda: dml_jax.max_pooling(PICTURE, 2.0),  # pyright: ignore[reportArgumentType]
    "float for an index": lambda: dml_jax.gather(DATA, 0.5, 0),  # pyright: ignore[reportArgumentType]
    "number for indices": lambda: dml_jax.gather_elements(DATA, 1, 0),  # pyright: ignore[reportArgumentType]
    "string for an axis": lambda: dml_jax.gather(DATA, INDICES, "0"),  # pyright: ignore[reportArgumentType]
    "several axes": lambda: dml_jax.gather(DATA, INDICES, (0, 1)),  # pyright: ignore[reportArgumentType]
    "mode of jnp.take": lambda: dml_jax.gather(DATA, INDICES, 0, mode="wrap"),  # pyright: ignore[reportArgumentType]
    "mode of writes": lambda: dml_jax.gather_nd(DATA, INDICES, mode="drop"),  # pyright: ignore[reportArgumentType]
    "mode of reads": lambda: dml_jax.scatter_elements(DATA, INDICES, DATA, 0, mode="fill"),  # pyright: ignore[reportArgumentType]
    "text to fill": lambda: dml_jax.gather(DATA, INDICES, 0, mode="fill", fill_value="0"),  # pyright: ignore[reportArgumentType]
    "no such reduction": lambda: dml_jax.scatter_elements(DATA, INDICES, DATA, 0, reduction="sum"),  # pyright: ignore[reportArgumentType]
    "missing updates": lambda: dml_jax.scatter_nd(DATA, INDICES),  # pyright: ignore[reportCallIssue]
    "fill in a write": lambda: dml_jax.scatter_nd(DATA, INDICES, DATA, fill_value=0),  # pyright: ignore[reportCallIssue]
    "number for an order": lambda: dml_jax.depth_to_space(PICTURE, 2, order=3),  # pyright: ignore[reportArgumentType]
    "no such order": lambda: dml_jax.depth_to_space(PICTURE, 2, order="RCD"),  # pyright: ignore[reportArgumentType]
    "text for a block": lambda: dml_jax.space_to_depth(PICTURE, "2"),  # pyright: ignore[reportArgumentType]
    "two block sizes": lambda: dml_jax.space_to_depth(PICTURE, (2, 2)),  # pyright: ignore[reportArgumentType]
    "no such format": lambda: dml_jax.space_to_depth(PICTURE, 2, data_format="NCWH"),  # pyright: ignore[reportArgumentType]
    "number for sizes": lambda: dml_jax.as_strided(DATA.ravel(), 4, (1,)),  # pyright: ignore[reportArgumentType]
    "float strides": lambda: dml_jax.as_strided(DATA.ravel(), (4,), (1.0,)),  # pyright: ignore[reportArgumentType]
    "spec as text": lambda: dml_jax.gather(DATA, INDICES, 0, out_sharding="x"),  # pyright: ignore[reportArgumentType]
    "number for a data type": lambda: TensorDesc(1, (2, 3)),  # pyright: ignore[reportArgumentType]
    "no such data type": lambda: TensorDesc("FLOAT31", (2, 3)),  # pyright: ignore[reportArgumentType]
    "no such type": lambda: dml_jax.cast(DATA, "float31"),  # pyright: ignore[reportArgumentType]
    "float sizes": lambda: TensorDesc("INT8", (2.0,)),  # pyright: ignore[reportArgumentType]
    "missing field": lambda: dml_jax.DepthToSpaceDesc(DEPTH, SPACE),  # pyright: ignore[reportCallIssue]
    "sizes for a tensor": lambda: dml_jax.DepthToSpaceDesc((1, 4, 1, 1), SPACE, 2),  # pyright: ignore[reportArgumentType]
    "order that is missing": lambda: dml_jax.DepthToSpace1Desc(DEPTH, SPACE, 2),  # pyright: ignore[reportCallIssue]
    "float for a mode": lambda: dml_jax.ResampleDesc(SPACE, SPACE, 0.5, (1, 1, 1, 1)),  # pyright: ignore[reportArgumentType]
    "misspelled field": lambda: BLOCKS.blocksize,  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    "number of a level": lambda: BLOCKS.validate(3),  # pyright: ignore[reportArgumentType]
    "list to compute": lambda: BLOCKS.compute([1]),  # pyright: ignore[reportArgumentType]
    "function to compile": lambda: dml_jax.compile_operator(dml_jax.gather),  # pyright: ignore[reportArgumentType]
    "input without a tensor": lambda: dml_jax.GraphBuilder().input("x"),  # pyright: ignore[reportCallIssue]
    "text in arithmetic": lambda: dml_jax.GraphBuilder().input("x", ("INT8", (1,))) + "a",  # pyright: ignore[reportOperatorIssue]
    "array to build": lambda: dml_jax.GraphBuilder().build(DATA),  # pyright: ignore[reportArgumentType]
    "list to bind": lambda: dml_jax.compile_operator(BLOCKS)([0, 1]),  # pyright: ignore[reportArgumentType]
    "NumPy output": lambda: dml_jax.compile_operator(BLOCKS)(INDICES.ravel(), out=INDICES),  # pyright: ignore[reportArgumentType]
    "missing output": lambda: map_batches(dml_jax.gather, DATA),  # pyright: ignore[reportCallIssue]
    "number for inputs": lambda: map_batches(dml_jax.gather, 3, "out.npy"),  # pyright: ignore[reportArgumentType]
}
