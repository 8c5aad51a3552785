"""as_strided_scatter: output = buffer; output[offset + sum(c * strides)] = updates[c]. See test_strided.py too."""

import numpy as np
import pytest
from checks import assert_same_bits
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
VARIANTS = {
    "window": {"strides": (6, 1)},
    "interleaved": {"strides": (3, 2)},
}
STRUCTS = ()  # DirectML has no such operator: its tensors have strides


def test_it_inverts_as_strided():
    written = as_strided_scatter(X, -numbered((2, 3)), (7, 2), offset=1)
    assert_same_bits(as_strided(np.asarray(written), (2, 3), (7, 2), offset=1), -numbered((2, 3)))


def test_buffer_is_not_modified():
    x = np.zeros(3, np.float32)
    as_strided_scatter(x, np.float32([1]), (1,))
    assert not x.any()
