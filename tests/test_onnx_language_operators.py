"""Operators of language models under jax.vmap and with a symbolic batch."""

import jax
import jax.export
import numpy as np
import pytest
from checks import sampled
from onnx_building import one_node, onnx

from dml_jax.onnx import to_jax

RNG = np.random.default_rng(0)


def draw(*sizes):
    return RNG.standard_normal(sizes).astype(np.float32)


FLAT = {"q_num_heads": 2, "kv_num_heads": 1}
# By operator: the first opset that has it, inputs whose first dimension is the batch, and attributes.
NODES = {
    "Attention": (23, [draw(2, 2, 3, 4), draw(2, 1, 5, 4), draw(2, 1, 5, 4), draw(2, 1, 3, 5) > 0], {"is_causal": 1}),
    "RotaryEmbedding": (23, [draw(2, 2, 3, 4), draw(2, 3, 2), draw(2, 3, 2)], {}),
    "TensorScatter": (24, [draw(2, 1, 5, 4), draw(2, 1, 2, 4)], {}),
    "LinearAttention": (27, [draw(2, 3, 8), draw(2, 3, 4), draw(2, 3, 4)], FLAT | {"update_rule": "linear"}),
    "SwiGLU": (28, [draw(2, 3), draw(2, 3)], {}),
}


@pytest.mark.parametrize("operator", sampled(NODES, ["SwiGLU"]))
def test_rows_of_a_batch_are_apart(operator):
    """A batch whose size is symbolic gives what batches of one give that `jax.vmap` puts together."""
    opset, arrays, attributes = NODES[operator]
    if opset > onnx.defs.onnx_opset_version():
        pytest.skip("onnx has no such operator")
    outputs = 2 if operator == "LinearAttention" else 1
    proto, _ = one_node(operator, arrays, outputs, opset=opset, **attributes)
    for info in proto.graph.input:
        info.type.tensor_type.shape.dim[0].dim_param = "batch"
    (batch,) = jax.export.symbolic_shape("batch")
    symbolic = [jax.ShapeDtypeStruct((batch, *x.shape[1:]), x.dtype) for x in arrays]
    whole = jax.export.export(jax.jit(to_jax(proto)))(*symbolic).call(*arrays)
    apart = jax.jit(jax.vmap(to_jax(proto)))(*(x[:, None] for x in arrays))
    for y, rows in zip(jax.tree.leaves(whole), jax.tree.leaves(apart), strict=True):
        np.testing.assert_allclose(y, rows[:, 0], rtol=1e-6, atol=1e-6)
