"""Attention that exporters write as several nodes runs as one operation, and means what the nodes mean."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from onnx import helper
from variant_cases import chosen_on

from dml_jax.onnx import to_jax

HALF, FLOAT = 10, 1
Q, K, V = (np.random.default_rng(i).standard_normal(shape).astype(np.float16) for i, shape in enumerate(
    ((2, 4, 256, 16), (2, 4, 16, 192), (2, 4, 192, 16))))  # fmt: skip
SEEN = np.random.default_rng(3).random((256, 192)) < 0.5
SEEN[:, 0] = True
BIAS = np.random.default_rng(4).standard_normal((4, 1, 192)).astype(np.float16)
HIDDEN = np.where(SEEN, 0, -np.inf).astype(np.float16)
HALF_OF_IT = np.float16(0.5)

# The nodes between the products: text of nodes with the products x and the weights w; and what is added to x / 2.
SUBGRAPHS = {
    "no scale": (["x Softmax w axis=-1"], None, 1.0),
    "Mul": (["x,half Mul s", "s Softmax w axis=3"], None, 0.5),
    "Mul from the left": (["half,x Mul s", "s Softmax w axis=-1"], None, 0.5),
    "Div": (["x,two Div s", "s Softmax w axis=-1"], None, 0.5),
    "Add": (["x,half Mul s", "s,bias Add t", "t Softmax w axis=-1"], BIAS, 0.5),
    "Add of a mask": (["x,half Mul s", "hidden,s Add t", "t Softmax w axis=-1"], HIDDEN, 0.5),
    "Where": (["x,half Mul s", "seen,s,lowest Where t", "t Softmax w axis=-1"], HIDDEN, 0.5),
    "Where the other way": (["x,half Mul s", "unseen,lowest,s Where t", "t Softmax w axis=-1"], HIDDEN, 0.5),
    "safe": (
        ["x,hidden Add t", "t Softmax v axis=-1", "v IsNaN n", "n,zero,v Where w"],
        HIDDEN,
        1.0,
    ),
    "in float32": (["x,half Mul s", "s Cast u to=1", "u Softmax v axis=-1", "v Cast w to=10"], None, 0.5),
}
CONSTANTS = {
    "half": HALF_OF_IT,
    "two": np.float16(2),
    "bias": BIAS,
    "hidden": HIDDEN,
    "seen": SEEN,
    "unseen": ~SEEN,
    "lowest": np.float16(-np.inf),
    "zero": np.float16(0),
}


def node(text):
    inputs, operator, output, *attributes = text.split()
    pairs = (attribute.split("=") for attribute in attributes)
    return helper.make_node(operator, inputs.split(","), [output], **{name: int(value) for name, value in pairs})


def model(texts, outputs=("y",)):
    nodes = [node("q,k MatMul x"), *map(node, texts), node("w,value MatMul y")]
    used = {name for each in nodes for name in each.input}
    tensors = [
        helper.make_tensor(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape, x.tobytes(), raw=True)
        for name, x in CONSTANTS.items()
        if name in used
    ]
    given = zip(("q", "k", "value"), (Q, K, V), strict=True)
    infos = [helper.make_tensor_value_info(name, HALF, x.shape) for name, x in given]
    returned = [helper.make_tensor_value_info(name, HALF, None) for name in outputs]
    graph = helper.make_graph(nodes, "attention", infos, returned, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def exact(term, scale):
    scores = np.float64(Q) @ np.float64(K) * scale + (0 if term is None else np.float64(term))
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    weights = powers / powers.sum(-1, keepdims=True)
    return weights, weights @ np.float64(V)


@pytest.fixture
def cudnn(monkeypatch):
    """cuDNN is there."""
    monkeypatch.setattr(jax.nn, "dot_product_attention", lambda q, *_, **__: q)


@pytest.mark.parametrize("name", SUBGRAPHS)
def test_nodes_are_one_attention(name, cudnn):
    texts, term, scale = SUBGRAPHS[name]
    function = to_jax(model(texts))
    np.testing.assert_allclose(np.float64(function(Q, K, V)), exact(term, scale)[1], atol=4e-3)
    wide = [jax.ShapeDtypeStruct((64, *x.shape[1:]), x.dtype) for x in (Q, K, V)]
    large = to_jax(with_batch(model(texts)))
    assert chosen_on("cuda", lambda *x: large(*x), *wide) == {"flash_attention"}


def with_batch(proto):
    for info in proto.graph.input:
        info.type.tensor_type.shape.dim[0].dim_param = "batch"
    return proto


def test_a_query_that_sees_nothing_is_nan_or_0_as_its_nodes_say():
    unseen = np.array(SEEN)
    unseen[3] = False
    for name, nothing in (("Where", np.nan), ("safe", 0.0)):
        proto = model(SUBGRAPHS[name][0])
        for tensor in proto.graph.initializer:
            if tensor.name in ("seen", "hidden"):
                value = unseen if tensor.name == "seen" else np.where(unseen, 0, -np.inf).astype(np.float16)
                tensor.raw_data = value.tobytes()
        y = np.asarray(to_jax(proto)(Q, K, V), np.float64)
        np.testing.assert_array_equal(y[:, :, 3], np.full_like(y[:, :, 3], nothing))
        assert np.isfinite(np.delete(y, 3, 2)).all()


def test_weights_and_scores_that_are_outputs_are_what_the_nodes_compute():
    texts, term, scale = SUBGRAPHS["Mul"]
    x, w, y = to_jax(model(texts, ("x", "w", "y")))(Q, K, V)
    weights, output = exact(term, scale)
    np.testing.assert_allclose(np.float64(x), np.float64(Q) @ np.float64(K), rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(np.float64(w), weights, atol=2e-3)
    np.testing.assert_allclose(np.float64(y), output, atol=4e-3)


@pytest.mark.parametrize("texts", [
    ["x Softmax w axis=2"],
    ["x,bias Add s", "s,half Mul t", "t Softmax w axis=-1"],
    ["x Softmax v axis=-1", "v,half Mul w"],
    ["x Relu s", "s Softmax w axis=-1"],
    ["x,bias Add s", "s,hidden Add t", "t Softmax w axis=-1"],
    ["seen,x,half Where t", "t Softmax w axis=-1"],
    ["x Identity w"],
])  # fmt: skip
def test_nodes_that_are_no_attention_stay_as_they_are(texts, cudnn):
    function = to_jax(with_batch(model(texts)))
    wide = [jax.ShapeDtypeStruct((64, *x.shape[1:]), x.dtype) for x in (Q, K, V)]
    assert chosen_on("cuda", lambda *x: function(*x), *wide) == set()
    one = np.float64(function(Q, K, V))
    assert one.shape == Q.shape


def test_gradients_reach_queries_keys_and_values():
    function = to_jax(model(SUBGRAPHS["Mul"][0]))
    found = jax.grad(lambda *x: function(*x).astype(np.float32).sum(), (0, 1, 2))(*map(jnp.asarray, (Q, K, V)))

    def exactly(q, k, v):
        return (jax.nn.softmax(q @ k * 0.5, -1) @ v).sum()

    right = jax.grad(exactly, (0, 1, 2))(*(jnp.float32(x) for x in (Q, K, V)))
    for one, other in zip(found, right, strict=True):
        np.testing.assert_allclose(np.float32(one), other, atol=0.02 * float(jnp.abs(other).max()))
