"""ONNX nodes that move data keep every bit of all 16-bit floats, of an input and of a constant, alone and in pairs."""

from functools import reduce
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits, sampled, spread
from matrix_moves import every_number
from onnx_matrix_moves import MOVES, chain, takes

from dml_jax.onnx import to_jax

pytestmark = pytest.mark.device

WAYS = ("argument", "constant", "eager argument", "eager constant")


def assert_moved(names, dtype, way):
    x = every_number(dtype)
    function = to_jax(chain(names, x, "constant" in way))
    result = (function if "eager" in way else jax.jit(function))(*() if "constant" in way else (x,))
    expected = reduce(lambda b, name: MOVES[name][1](b), names, x.view(np.uint16))
    assert_same_bits(result, expected.view(dtype))


@pytest.mark.parametrize("dtype", sampled(["bfloat16", "float16"], ["bfloat16"]))
@pytest.mark.parametrize(("way", "part"), spread(WAYS, WAYS, 4))
def test_each_node(dtype, way, part):
    for name in [*MOVES][part]:
        if takes(name, jnp.dtype(dtype)):
            assert_moved([name], jnp.dtype(dtype), way)


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", MOVES)
@pytest.mark.parametrize("way", ["constant", "argument"])
def test_each_node_after_another(first, way):
    for names in product([first], MOVES):
        if all(takes(name, jnp.bfloat16) for name in names):
            assert_moved(names, jnp.dtype(jnp.bfloat16), way)


@pytest.mark.parametrize("way", WAYS)
def test_a_constant_that_is_padded(way):
    """Folding computes whatever is known, and so what XLA and LLVM must not know."""
    assert_moved(["Pad", "Slice"], jnp.dtype(jnp.bfloat16), way)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_static_value(dtype):
    """NumPy warns of signaling NaNs that it compares."""
    x = every_number(jnp.dtype(dtype))
    assert_same_bits(to_jax(chain(["Identity"], x, False), static={"m0": x})(), x)
