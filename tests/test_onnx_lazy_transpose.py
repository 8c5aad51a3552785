"""Transposes wait for an operator that needs their order in memory, and the numbers are those of the nodes."""

from math import prod

import jax
import numpy as np
import pytest
from onnx_building import helper, model

import dml_jax.onnx.traced_memory as traced_memory
from dml_jax.onnx import to_jax

# How to draw a node: from a generator and its operand, the operator, its other inputs, its attributes, and the result.


def transpose(rng, x):
    perm = rng.permutation(x.ndim).tolist()
    return "Transpose", [], {"perm": perm}, x.transpose(perm)


def merge(rng, x):
    at = int(rng.integers(0, max(1, x.ndim - 1)))
    return reshaped(x, [*x.shape[:at], prod(x.shape[at : at + 2]), *x.shape[at + 2 :]])


def divide(rng, x):
    at = int(rng.integers(0, x.ndim))
    n = x.shape[at]
    part = int(rng.choice([k for k in range(1, n + 1) if n % k == 0]))
    return reshaped(x, [*x.shape[:at], part, n // part, *x.shape[at + 1 :]])


def reshaped(x, shape):
    return "Reshape", [np.int64(shape)], {}, x.reshape(shape)


def ones(rng, x):
    return ("Squeeze", [], {}, x.squeeze()) if 1 in x.shape else ("Unsqueeze", [np.int64([1])], {}, x[:, None])


def flatten(rng, x):
    axis = int(rng.integers(0, x.ndim + 1))
    return "Flatten", [], {"axis": axis}, x.reshape(prod(x.shape[:axis]), -1)


def gather(rng, x):
    axis = int(rng.integers(-x.ndim, x.ndim))
    at = int(rng.integers(-x.shape[axis], x.shape[axis]))
    return "Gather", [np.int64(at)], {"axis": axis}, x.take(at, axis)


def split(rng, x):
    axis = int(rng.integers(0, x.ndim))
    size = int(rng.integers(0, x.shape[axis])) + 1
    return "Split", [np.int64([size, x.shape[axis] - size])], {"axis": axis}, np.split(x, [size], axis)[0]


def arithmetic(rng, x):
    operator, function = [("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply)][rng.integers(0, 3)]
    other = small(rng, [(), (1,), x.shape[-1:], x.shape][rng.integers(0, 4)])
    return operator, [other], {}, function(x, other)


def product(rng, x):
    b = small(rng, (x.shape[-1], int(rng.integers(1, 5))))
    return "MatMul", [b], {}, x @ b


def gemm(rng, x):
    if x.ndim != 2:
        return flatten(rng, x)
    b, c = small(rng, (3, x.shape[-1])), small(rng, 3)
    return "Gemm", [b, c], {"transB": 1}, x @ b.T + c


DRAWS = (transpose, transpose, transpose, merge, divide, ones, flatten, gather, split, arithmetic, product, gemm)


def small(rng, sizes):
    """Numbers whose sums of products are exact."""
    return rng.integers(-1, 2, sizes).astype(np.float32)


def check_chain(seed):
    rng = np.random.default_rng(seed)
    x = first = small(rng, rng.choice([1, 2, 3, 4, 6], int(rng.integers(2, 5))).tolist())
    nodes, constants, read = [], {}, {}
    for _ in range(12):
        if not x.ndim or not x.size or np.abs(x).max() > 2**15:
            break
        operator, others, attributes, y = DRAWS[rng.integers(0, len(DRAWS))](rng, x)
        names = [f"c{len(constants) + k}" for k in range(len(others))]
        constants |= dict(zip(names, others, strict=True))
        before, name = f"y{len(nodes) - 1}" if nodes else "x", f"y{len(nodes)}"
        outputs = [name, f"{name}_rest"] if operator == "Split" else [name]
        nodes.append(helper.make_node(operator, [before, *names], outputs, **attributes))
        x = y
        if rng.integers(0, 4) == 0 or len(nodes) == 12:
            read[name] = x
    read[name] = x
    function = to_jax(model(nodes, {"x": first}, list(read), constants))
    for run in (jax.jit(lambda x: function(x)), function):
        for result, expected in zip(jax.tree.leaves(run(first)), read.values(), strict=True):
            np.testing.assert_array_equal(result, expected, strict=True)


@pytest.mark.parametrize("seed", range(5))
def test_chains_of_moves_and_products(seed):
    check_chain(seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(5, 300))
def test_more_chains_of_moves_and_products(seed):
    check_chain(seed)


B, S, N, D = 2, 5, 3, 4
E = N * D


def attention(rng):
    """torch's attention as its exporter writes it: everything is (length, batch, width)."""
    texts = [
        ("Transpose", "x", "t", {"perm": [1, 0, 2]}),
        ("MatMul", "t w", "p", {}),
        ("Add", "p bias", "l", {}),
        ("Reshape", "l parts", "r", {}),
        ("Unsqueeze", "r zero", "u", {}),
        ("Transpose", "u", "v", {"perm": [3, 1, 2, 0, 4]}),
        ("Squeeze", "v three", "all", {}),
        *(("Gather", f"all i{i}", f"g{i}", {"axis": 0}) for i in range(3)),
        *(("Reshape", f"g{i} rows", f"h{i}", {}) for i in range(3)),
        *(("Transpose", f"h{i}", f"t{i}", {"perm": [1, 0, 2]}) for i in range(3)),
        ("Reshape", "t0 heads", "q", {}),
        ("Transpose", "t1", "k0", {"perm": [0, 2, 1]}),
        ("Reshape", "k0 keys", "k", {}),
        ("Reshape", "t2 heads", "value", {}),
        ("MatMul", "q k", "s", {}),
        ("Softmax", "s", "weights", {"axis": -1}),
        ("MatMul", "weights value", "o", {}),
        ("Transpose", "o", "o0", {"perm": [2, 0, 1, 3]}),
        ("Reshape", "o0 flat", "o1", {}),
        ("Gemm", "o1 w2", "o2", {"transB": 1}),
        ("Reshape", "o2 back", "o3", {}),
        ("Transpose", "o3", "o4", {"perm": [1, 0, 2]}),
        ("Add", "o4 x", "y", {}),
    ]  # fmt: skip
    constants = {
        "w": rng.standard_normal((E, 3 * E)), "bias": rng.standard_normal(3 * E), "w2": rng.standard_normal((E, E)),
    }  # fmt: skip
    sizes = {"parts": [S, B, 3, E], "rows": [S, B * N, D], "heads": [B, N, S, D], "keys": [B, N, D, S]}
    sizes |= {"flat": [S * B, E], "back": [S, B, E], "zero": [0], "three": [-2], "i0": 0, "i1": 1, "i2": 2}
    nodes = [helper.make_node(op, names.split(), [out], **at) for op, names, out, at in texts]
    weights = {name: x.astype(np.float32) for name, x in constants.items()}
    x = rng.standard_normal((B, S, E)).astype(np.float32)
    return model(nodes, {"x": x}, ["y"], weights | {name: np.int64(n) for name, n in sizes.items()}), x, constants


def test_attention_of_torch_transposes_its_heads_alone():
    proto, x, weights = attention(np.random.default_rng(0))
    function = to_jax(proto)
    parts = (np.float64(x) @ weights["w"] + weights["bias"]).reshape(B, S, 3, N, D)
    q, k, v = parts.transpose(2, 0, 3, 1, 4)
    powers = np.exp(q @ k.swapaxes(2, 3))
    heads = powers / powers.sum(-1, keepdims=True) @ v
    expected = heads.transpose(0, 2, 1, 3).reshape(B, S, E) @ weights["w2"].T + x
    lowered = jax.jit(lambda x: function(x)).lower(x)
    np.testing.assert_allclose(lowered.compile()(x), expected, rtol=1e-4, atol=1e-4)
    # Of queries, keys, values and the output, which the heads of a batch ask for.
    assert lowered.as_text().count("stablehlo.transpose") == 4


def test_gradients_and_batches_pass_through():
    proto, x, _ = attention(np.random.default_rng(1))
    function = to_jax(proto)
    jitted, plainly = jax.jit(lambda x: function(x)), lambda x: function(x)
    several = np.stack([x, 2 * x])
    np.testing.assert_allclose(jax.vmap(jitted)(several)[1], plainly(2 * x), rtol=1e-4, atol=1e-4)
    loss = lambda f: jax.grad(lambda x: (f(x) ** 2).sum())(x)  # noqa: E731
    np.testing.assert_allclose(loss(jitted), loss(plainly), rtol=1e-3, atol=1e-3)


def test_a_node_that_is_traced_for_its_bytes_keeps_no_array_of_that_trace(monkeypatch):
    monkeypatch.setattr(traced_memory, "memory_limit", lambda _: (1, "a small machine"))
    monkeypatch.setattr(traced_memory, "SURELY_FITS", 0)
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["t", "x"], ["p"]),
        helper.make_node("Relu", ["t"], ["r"]),
    ]
    x = np.float32([[[1, 2, 3], [4, 5, 6]]])
    function = to_jax(model(nodes, {"x": x}, ["p", "r"]))
    transposed = x.transpose(0, 2, 1)
    for result, expected in zip(jax.jit(lambda x: function(x))(x), (transposed @ x, transposed), strict=True):
        np.testing.assert_array_equal(result, expected)
