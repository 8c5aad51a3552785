"""Corners of convolution: rounding, narrow and wide types, empty arrays, sizes that cannot be."""

import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close, assert_same_bits
from operator_cases import f32

from dml_jax import Activation, ConstraintError, ConvolutionDesc, convolution
from operators.test_convolution import BIAS, FILTER, INPUT, LEAKY_RELU, exact

pytestmark = pytest.mark.device


# Rounding and types.


def test_products_are_as_exact_as_float32():
    """TF32 would drop half of the bits, bfloat16 two thirds."""
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=size).astype(np.float32) for size in ((2, 8, 6, 6), (8, 8, 3, 3)))
    for direction in ("forward", "backward"):
        assert_close(convolution(x, w, direction=direction), exact(x, w, direction=direction), units=72)
    whole = np.full((1, 1, 1), 2**12 + 1, np.float32)
    assert_same_bits(
        convolution(whole, np.full((1, 1, 1), 2**11 - 1, np.float32)), np.full((1, 1, 1), 4097 * 2047, np.float32)
    )


def test_sixteen_bit_floats_are_rounded_once():
    """2049 is no float16, and 65536 is out of its range."""
    ones = np.ones((1, 2049, 1), np.float16)
    assert_same_bits(convolution(ones, ones, np.float16([-1])), np.full((1, 1, 1), 2048, np.float16))
    linear = Activation("ACTIVATION_LINEAR", (2, 2))
    assert_same_bits(convolution(ones, ones, activation=linear), np.full((1, 1, 1), 4100, np.float16))
    big = np.full((1, 1, 1), 256, np.float16)
    assert_same_bits(convolution(big, big, np.float16([-64])), np.full((1, 1, 1), 65472, np.float16))


# Sizes.


def test_backward_outputs_of_every_size_that_forward_makes_the_input_of():
    """Those between the least one and a stride more; the elements behind the least one are sums too."""
    ones, zeros = (1,), (0,)
    for size, fits in ((6, False), (7, True), (8, True), (9, True), (10, False)):
        arguments = (f32(1, 1, 3), f32(1, 1, 3), None, f32(1, 1, size), 1, 1, (3,), ones, ones, ones, zeros)
        if not fits:
            with pytest.raises(ConstraintError, match=rf"\(1, 1, {size}\) is not \(1, 1\) by 7 to 9"):
                ConvolutionDesc(*arguments)
            continue
        made = ConvolutionDesc(*arguments).compute(jnp.float32([[[1, 2, 3]]]), jnp.float32([[[10, 20, 30]]]))
        assert_same_bits(made[0, 0], np.float32([20, 30, 20, 40, 60, 30, 60, 90, 0][:size]))


def test_zeros_are_appended_before_the_bias_and_the_activation():
    made = convolution(np.float32([[[1, 2]]]), np.float32([[[3]]]), np.float32([-4]), output_padding=(2,))
    assert_same_bits(made, np.float32([[[-1, 2, -4, -4]]]))
    made = convolution(
        np.float32([[[1]]]), np.float32([[[3]]]), np.float32([-4]), output_padding=(1,), activation=LEAKY_RELU
    )
    assert_same_bits(made, np.float32([[[-0.5, -2]]]))


def test_empty_arrays():
    assert convolution(INPUT[:0], FILTER).shape == (0, 3, 2, 3)
    assert convolution(INPUT, FILTER[:0]).shape == (2, 0, 2, 3)
    bias = np.broadcast_to(BIAS.reshape(3, 1, 1), (2, 3, 2, 3))
    assert_same_bits(convolution(INPUT[:, :0], FILTER[:, :0], BIAS), bias)
    none = np.zeros((1, 1, 0), np.float32)
    assert_same_bits(
        convolution(none, np.ones((1, 1, 2), np.float32), start_padding=(3,)), np.zeros((1, 1, 2), np.float32)
    )
    back = convolution(INPUT[:, :0], FILTER[:0], direction="backward")
    assert_same_bits(back, np.zeros((2, 2, 4, 5), np.float32))
