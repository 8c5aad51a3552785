"""as_strided: output[c] = buffer[offset + sum(c * strides)]. test_strided.py has the classes of layouts."""

import jax
import numpy as np
import pytest
from checks import assert_same_bits
from operator_cases import Call
from oracles import coordinates
from small_arrays import numbered

import dml_jax
from dml_jax import ConstraintError, DataTypeError, as_strided

pytestmark = pytest.mark.device


def oracle(buffer, sizes, strides, offset=0):
    output = np.empty(sizes, buffer.dtype)
    for c in coordinates(output.shape):
        output[c] = buffer[offset + sum(at * stride for at, stride in zip(c, strides, strict=True))]
    return output


X = numbered(24)
CASE = Call(as_strided, {"buffer": X}, {"sizes": (2, 3, 2), "strides": (9, 1, 4), "offset": 1})
BREAKS = {
    "one_dimension(buffer)": {"buffer": X.reshape(4, 6)},
    "not_negative(sizes)": {"sizes": (2, -1, 2)},
    "not_negative(strides)": {"strides": (9, 1, -1)},
    "not_negative(offset)": {"offset": -1},
    "representable": {"sizes": (2, 3, 2**60), "strides": (9, 1, 0)},
    "stride_count": {"strides": (9, 1)},
    "inside": {"offset": 9},
}
VARIANTS = {
    "overlapping": {"sizes": (3, 4, 2), "strides": (2, 2, 1)},
    "broadcast": {"sizes": (2, 3, 2), "strides": (0, 5, 1)},
    "padded": {"sizes": (3, 4), "strides": (9, 1), "offset": 2},
}
STRUCTS = ()  # DirectML has no such operator: its tensors have strides


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"sizes": 6}, DataTypeError, "sizes must be a sequence of integers, but it is 6"),
        ({"sizes": "23"}, DataTypeError, "sizes must be a sequence of integers, but it is '23'"),
        ({"strides": (1.0, 1)}, DataTypeError, r"strides\[0\] must be an integer, but it is 1.0"),
        ({"strides": (True, 1)}, DataTypeError, r"strides\[0\] must be an integer, but it is True"),
        ({"offset": 0.5}, DataTypeError, "offset must be an integer"),
        ({"buffer": [1, 2]}, DataTypeError, "buffer must be an array"),
        ({"buffer": np.arange(6)}, DataTypeError, "buffer of type int64 needs 64-bit types"),
        ({"sizes": (0, 2**63)}, ConstraintError, r"sizes must give an array of fewer than 2\*\*63 bytes"),
        ({"strides": (4, 1)}, ConstraintError, "the last coordinate is element 6 and there are 6"),
    ],
)
def test_what_is_no_layout_is_refused(change, error, match):
    call = {"buffer": np.zeros(6, np.float32), "sizes": (2, 3), "strides": (3, 1), **change}
    with pytest.raises(error, match=match):
        dml_jax.as_strided(**call)


def test_layouts_from_arrays_are_accepted():
    sizes, strides = np.array([2, 3]), [np.uint8(3), 1]
    assert_same_bits(as_strided(X, sizes, strides, offset=np.int64(2)), oracle(X, (2, 3), (3, 1), 2))


def test_an_element_repeats_more_often_than_32_bits_count():
    for dtype in ("bfloat16", "float16"):
        x = jax.ShapeDtypeStruct((2,), dtype)
        assert jax.eval_shape(lambda x: as_strided(x, (2**31 + 5, 2), (0, 1)), x).shape == (2**31 + 5, 2)
