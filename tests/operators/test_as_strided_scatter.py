"""as_strided_scatter: output = buffer; output[offset + sum(c * strides)] = updates[c]. See test_strided.py too."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P
from operator_cases import Call
from oracles import coordinates
from small_arrays import numbered

from dml_jax import as_strided, as_strided_scatter

pytestmark = pytest.mark.device


def oracle(buffer, updates, strides, offset=0):
    output = buffer.copy()
    for c in coordinates(updates.shape):
        output[offset + sum(at * stride for at, stride in zip(c, strides, strict=True))] = updates[c]
    return output


X = numbered(24)
CASE = Call(as_strided_scatter, {"buffer": X, "updates": -numbered((2, 3))}, {"strides": (2, 8), "offset": 3})
BREAKS = {
    "one_dimension(buffer)": {"buffer": X.reshape(4, 6)},
    "same_dtype(updates, buffer)": {"updates": np.int32([[1, 2, 3]])},
    "not_negative(strides)": {"strides": (-2, 8)},
    "not_negative(offset)": {"offset": -1},
    "stride_count": {"strides": (1,)},
    "inside": {"buffer": X[:21]},
    "injective": {"strides": (2, 1)},
}
VARIANTS = {"window": {"strides": (6, 1)}, "interleaved": {"strides": (3, 2)}}
STRUCTS = ()  # DirectML has no such operator: its tensors have strides


def test_it_inverts_as_strided():
    written = as_strided_scatter(X, -numbered((2, 3)), (7, 2), offset=1)
    assert_same_bits(as_strided(np.asarray(written), (2, 3), (7, 2), offset=1), -numbered((2, 3)))


def test_buffer_is_not_modified():
    x = np.zeros(3, np.float32)
    as_strided_scatter(x, np.float32([1]), (1,))
    assert not x.any()


def test_a_buffer_that_all_devices_have_and_updates_that_differ():
    """Of a size that is copied by a loop of its own on CPUs."""
    mesh = jax.make_mesh((2,), ("d",), axis_types=(AxisType.Auto,), devices=jax.devices("cpu")[:2])
    buffer, updates = jnp.zeros(2**19, jnp.int32), jnp.arange(2**18, dtype=jnp.int32).reshape(512, 512)
    write = lambda buffer, updates: as_strided_scatter(buffer, updates, (1024, 1), offset=0)  # noqa: E731
    made = jax.shard_map(write, mesh=mesh, in_specs=(P(), P("d")), out_specs=P("d"))(buffer, updates)
    assert_same_bits(made, jnp.concatenate([write(buffer, updates[:256]), write(buffer, updates[256:])]))
