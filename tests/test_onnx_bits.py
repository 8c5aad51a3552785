"""ONNX nodes that move data keep every bit of all narrow floats, of an input and of a constant, alone and in pairs."""

import platform
import subprocess
import sys
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import onnx_matrix_moves
import pytest
from batch_jobs import environment
from checks import assert_same_bits, sampled, spread
from matrix_moves import every_number
from onnx_building import onnx
from onnx_matrix_moves import MOVES, WAYS, assert_moved, chain, takes

from dml_jax.onnx import to_jax

pytestmark = pytest.mark.device

KINDS = {"bfloat16": jnp.bfloat16, "float16": np.float16, "float8e5m2": jnp.float8_e5m2}


@pytest.mark.parametrize(
    "dtype", sampled(["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"], ["bfloat16", "float8_e5m2"])
)
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


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the other instructions are those of x86-64")
@pytest.mark.parametrize("devices", sampled([1, 4, 8], [4]))
def test_nodes_with_fewer_instructions(devices, exhaustive):
    """On CPUs of AVX2 alone, with as many devices as XLA divides loops among."""
    names = MOVES if exhaustive else ["Gather columns", "Pad", "Scan", "Slice"]
    command = [sys.executable, onnx_matrix_moves.__file__, str(devices), *names]
    flags = {"XLA_FLAGS": "--xla_cpu_max_isa=AVX2"}
    run = subprocess.run(command, env={**environment(), **flags}, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


LOOP = """<ir_version: 10, opset_import: ["": 21]>
copies (KIND[m, n] x, int64 trips) => (KIND[k, m, n] rows)
{
    last, rows = Loop (trips, "", x) <
        body = step (int64 i, bool go, KIND[m, n] before) => (bool on, KIND[m, n] after, KIND[m, n] row)
        { on = Identity (go) after = Identity (before) row = Identity (before) }>
}"""


@pytest.mark.parametrize("kind", sampled(KINDS, ["bfloat16", "float8e5m2"]))
@pytest.mark.parametrize("options", [{"static": {"trips": 9}}, {"maximum": {"rows": 11}, "int32": ["trips"]}], ids=str)
def test_rows_of_a_loop(kind, options):
    """Of a known number of iterations, or of one that is data, XLA writes the rows one by one."""
    dtype = jnp.dtype(KINDS[kind])
    x = np.arange(2**16).astype(f"u{dtype.itemsize}").view(dtype).reshape(256, 256)
    copies = jax.jit(to_jax(onnx.parser.parse_model(LOOP.replace("KIND", kind)), **options))
    is_known = "static" in options
    expected = np.stack([x] * 9 + [np.zeros_like(x)] * (0 if is_known else 2))
    assert_same_bits(copies(x) if is_known else copies(x, np.int32(9)), expected)


def test_gradients_of_a_loop():
    """Narrow floats move through the loop as the bits of others, and derivatives with them."""
    x, weights = np.float32([[1, 2], [3, 4]]).astype(jnp.bfloat16), np.arange(36).reshape(9, 2, 2).astype(jnp.bfloat16)
    copies = to_jax(onnx.parser.parse_model(LOOP.replace("KIND", "bfloat16")), static={"trips": 9})
    slope = jax.jit(jax.grad(lambda x: (copies(x) * weights).sum()))(x)
    np.testing.assert_array_equal(slope, weights.sum(0))
    _, forward = jax.jvp(copies, (x,), (x,))
    assert_same_bits(forward, np.stack([x] * 9))
    np.testing.assert_array_equal(jax.vmap(copies)(x[None])[0], np.stack([x] * 9))
