"""FlexAttention, whose scores and weights graphs change, beside NumPy in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_oracle import attended
from checks import sampled
from onnx_building import helper, numpy_helper, onnx
from onnx_building import model as model_of

from dml_jax.onnx import OnnxError, to_jax

DOMAIN = "ai.onnx.preview"
if not any(schema.name == "FlexAttention" for schema in onnx.defs.get_all_schemas()):
    pytest.skip("onnx has no such operator", allow_module_level=True)

FLAGS = np.array([[1, 1, 1], [0, 0, 0], [1, 0, 1]], bool)


def graph(nodes, dtype, **constants):
    """A graph from x to y."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    ends = [helper.make_tensor_value_info(name, kind, None) for name in ("x", "y")]
    tensors = [numpy_helper.from_array(np.asarray(x), name) for name, x in constants.items()]
    return helper.make_graph(nodes, "changed", ends[:1], ends[1:], tensors)


def bias(dtype):
    return graph([helper.make_node("Add", ["x", "c"], ["y"])], dtype, c=BIAS.astype(dtype))


def excluded(dtype):
    least = np.asarray(-np.inf).astype(dtype)
    return graph([helper.make_node("Where", ["f", "x", "c"], ["y"])], dtype, f=FLAGS, c=least)


def without_nan(dtype):
    nodes = [helper.make_node("IsNaN", ["x"], ["n"]), helper.make_node("Where", ["n", "c", "x"], ["y"])]
    return graph(nodes, dtype, c=np.asarray(0).astype(dtype))


def function_of(arrays, **attributes):
    node = helper.make_node("FlexAttention", ["q", "k", "v"], ["y"], domain=DOMAIN, **attributes)
    proto = model_of([node], dict(zip("qkv", arrays, strict=True)), ["y"], opset=24)
    proto.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return jax.jit(to_jax(proto))


RNG = np.random.default_rng(0)
BIAS = RNG.standard_normal((3, 3))


def drawn(dtype=np.float32):
    rng = np.random.default_rng(1)
    sizes = ((1, 4, 3, 5), (1, 2, 3, 5), (1, 2, 3, 4))
    return [rng.standard_normal(n).astype(dtype) for n in sizes]


@pytest.mark.parametrize("dtype", sampled([np.float32, np.float16, jnp.bfloat16, np.float64], [np.float16]))
@pytest.mark.parametrize("precision", sampled([None, 1, 10, 11], [None]))
def test_scores_that_a_graph_changes(dtype, precision):
    """In the type of softmax_precision, by default float32 or wider."""
    arrays = drawn(dtype)
    wide = np.float64 if dtype == np.float64 else np.float32
    of_scores = {None: wide, 1: np.float32, 10: np.float16, 11: np.float64}[precision]
    given = {} if precision is None else {"softmax_precision": precision}
    with jax.enable_x64(True):
        made = function_of(arrays, score_mod=bias(of_scores), scale=0.5, **given)(*arrays)
    assert made.dtype == dtype
    narrowest = min(np.finfo(of_scores).eps, 1) + float(jnp.finfo(dtype).eps)
    off = 8 * max(narrowest, 1e-7)
    np.testing.assert_allclose(
        np.float64(made), attended(*arrays, True, scale=0.5, bias=BIAS).output, rtol=off, atol=off
    )


@pytest.mark.exhaustive
def test_a_query_that_sees_no_key():
    """Its weights are NaN, as ONNX computes them, and derivatives finite where a graph replaces them."""
    arrays = drawn()
    graphs = {"score_mod": excluded(np.float32)}
    assert np.isnan(function_of(arrays, **graphs)(*arrays)[:, :, 1]).all()
    function = function_of(arrays, prob_mod=without_nan(np.float32), scale=0.5, **graphs)
    slopes = jax.jit(jax.grad(lambda *x: function(*x).sum(), argnums=range(3)))(*arrays)
    wanted = attended(*arrays, FLAGS, scale=0.5)
    expected = (wanted.output, wanted.of_query, wanted.of_key, wanted.of_value)
    for actual, numbers in zip((function(*arrays), *slopes), expected, strict=True):
        np.testing.assert_allclose(actual, numbers, rtol=2e-6, atol=2e-6)


def test_a_graph_keeps_sizes_and_types():
    arrays = drawn()
    cast = graph([helper.make_node("Cast", ["x"], ["y"], to=onnx.TensorProto.FLOAT16)], np.float32)
    with pytest.raises(OnnxError, match="the type of the output of score_mod must be float32, but it is float16"):
        function_of(arrays, score_mod=cast)(*arrays)
    halved = graph([helper.make_node("Split", ["x"], ["y", "z"], axis=2, num_outputs=2)], np.float32)
    with pytest.raises(OnnxError, match=r"the output of prob_mod: its sizes must be \[1, 4, 3, 3\]"):
        function_of(arrays, prob_mod=halved)(*arrays)
