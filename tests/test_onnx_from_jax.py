"""JAX's control flow comes back equal from jax2onnx. Skipped where that is not installed: it brings much along."""

import subprocess
import sys
from importlib.util import find_spec

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

pytest.importorskip("onnx")
if find_spec("jax2onnx") is None:
    pytest.skip("jax2onnx is not installed: pip install jax2onnx", allow_module_level=True)

from dml_jax.onnx import to_jax

ROWS, X = np.arange(36, dtype=np.float32).reshape(12, 3) / 9, np.arange(3, dtype=np.float32)


def decay(total, row):
    return total * 0.5 + row, total + row


# What is exported, its input, and the primitive that comes back.
FUNCTIONS = {
    "scan": (lambda x: lax.scan(decay, jnp.zeros(3), x), ROWS, "scan"),
    "scan_without_inputs": (lambda x: lax.scan(lambda c, _: (c * 0.5 + 1, c), x, None, length=20), X, "scan"),
    "unrolled": (lambda x: lax.scan(lambda c, _: (c * 0.5 + 1, c), x, None, length=5), X, None),
    "rnn": (lambda x: lax.scan(lambda h, e: (jnp.tanh(h @ np.eye(3) + e), h), jnp.zeros(3), x), ROWS, "scan"),
    "map": (lambda x: lax.map(lambda row: jnp.sin(row).sum(), x), ROWS, "scan"),
    "fori_loop": (lambda x: lax.fori_loop(0, 20, lambda i, c: c * 0.9 + i, x), X, "scan"),
    "while_loop": (lambda x: lax.while_loop(lambda c: c.sum() < 99, lambda c: c * 1.5 + 1, x), X, "while"),
    "while_loop_of_two": (
        lambda x: lax.while_loop(lambda c: c[0] < 7, lambda c: (c[0] + 1, c[1] * 2), (0, x)),
        X,
        "while",
    ),
    "cond": (lambda x: lax.cond(x.sum() > 2, lambda x: x * 2, lambda x: -x, x), X, "cond"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the models are; another process exports them, because jax2onnx changes JAX."""
    folder = tmp_path_factory.mktemp("exported")
    subprocess.run([sys.executable, __file__, str(folder)], check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_jax_exports_comes_back(folder, name):
    function, x, primitive = FUNCTIONS[name]
    back = to_jax(folder / f"{name}.onnx")
    found = {eqn.primitive.name for eqn in jax.make_jaxpr(back)(x).eqns}
    assert found & {"scan", "while", "cond"} == ({primitive} if primitive else set())
    wanted = jax.tree.leaves(jax.jit(function)(x))
    for y, expected in zip(jax.tree.leaves(jax.jit(back)(x)), wanted, strict=True):
        assert y.dtype == expected.dtype
        np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_gradients_come_back(folder):
    function, x, _ = FUNCTIONS["rnn"]
    made, wanted = (
        jax.jit(jax.grad(lambda x, f=f: sum(y.sum() for y in f(x))))(x) for f in (to_jax(folder / "rnn.onnx"), function)
    )
    np.testing.assert_allclose(made, wanted, rtol=1e-5)


if __name__ == "__main__":
    from jax2onnx import to_onnx

    for name, (function, x, _) in FUNCTIONS.items():
        to_onnx(
            function,
            [jax.ShapeDtypeStruct(x.shape, x.dtype)],
            return_mode="file",
            output_path=f"{sys.argv[1]}/{name}.onnx",
        )
