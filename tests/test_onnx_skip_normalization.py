"""Normalizations of transformers beside ONNX Runtime."""

import jax
import numpy as np
import pytest
from checks import sampled
from onnx_building import helper, model, one_node, onnx, onnxruntime, runtime

from dml_jax.onnx import OnnxError, to_jax

MICROSOFT = "com.microsoft"


def compared(kind, inputs, outputs, domain=MICROSOFT, **attributes):
    """A jitted node beside ONNX Runtime's."""
    model, named = one_node(kind, inputs, outputs, domain, **attributes)
    with jax.enable_x64(True):
        made = jax.tree.leaves(jax.jit(to_jax(model))(**named))
    for one, other in zip(made, runtime(model, named), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        near = {np.dtype(np.float16): 2e-3, np.dtype(np.float64): 1e-12}.get(other.dtype, 1e-5)
        np.testing.assert_allclose(np.float64(one), np.float64(other), rtol=near, atol=near)


@pytest.mark.thinned(6)
@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("kind", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_skips(seed, kind):
    rng = np.random.default_rng(seed)
    dtype = np.float32 if rng.random() < 0.7 else np.float16
    sizes = tuple(int(n) for n in rng.integers(1, 6, int(rng.integers(2, 4))))
    shapes = [sizes, sizes[-2:], (1, *sizes[-2:])][: 1 if len(sizes) == 2 else 3]
    rows = 2 if kind == "SkipSimplifiedLayerNormalization" else 3
    inputs = [sizes, shapes[int(rng.integers(len(shapes)))], *[sizes[-1:]] * rows]
    inputs = [rng.standard_normal(shape).astype(dtype) for shape in inputs]
    for i in range(3, len(inputs)):
        inputs[i] = inputs[i] if rng.random() < 0.5 else None
    attributes = {"epsilon": 0.25} if rng.random() < 0.7 or sizes[-1] == 1 else {}
    compared(kind, inputs, int(rng.choice([1, 4])), **attributes)


@pytest.mark.thinned(6)
@pytest.mark.parametrize("seed", range(30))
def test_without_a_mean(seed):
    """The type is that of the scale."""
    rng = np.random.default_rng(seed)
    sizes = tuple(int(n) for n in rng.integers(1, 6, int(rng.integers(1, 4))))
    axis = int(rng.integers(len(sizes)))
    types = [(np.float32, np.float32), (np.float64, np.float64), (np.float16, np.float16), (np.float16, np.float32)]
    x, scale = types[int(rng.integers(len(types)))]
    inputs = [rng.standard_normal(sizes).astype(x), rng.standard_normal(sizes[axis:]).astype(scale)]
    attributes = {"epsilon": 0.25} if rng.random() < 0.5 else {}
    axis -= int(rng.choice([0, len(sizes)]))
    compared("SimplifiedLayerNormalization", inputs, int(rng.choice([1, 2])), domain="", axis=axis, **attributes)


@pytest.mark.thinned(6)
@pytest.mark.parametrize("seed", range(30))
def test_embeddings(seed):
    rng = np.random.default_rng(seed)
    batch, rows, size = (int(n) for n in rng.integers(1, 6, 3))
    dtype = np.float32 if rng.random() < 0.7 else np.float16
    words, positions, segments = (rng.standard_normal((n, size)).astype(dtype) for n in (7, rows + 2, 3))
    ids, segment_ids, at = (rng.integers(0, n, (batch, rows)).astype(np.int32) for n in (7, 3, rows + 2))
    has_segments, has_mask, has_positions = rng.random(3) < 0.6
    inputs = [ids, segment_ids if has_segments else None, words, positions, segments if has_segments else None]
    inputs += [*rng.standard_normal((2, size)).astype(dtype)]
    inputs.append(rng.integers(0, 3, (batch, rows)).astype(np.int32) if has_mask else None)
    inputs.append(at[: int(rng.choice([1, batch]))] if has_positions else None)
    epsilon = {"epsilon": 0.25} if rng.random() < 0.7 or size == 1 else {}
    compared("EmbedLayerNormalization", inputs, int(rng.choice([2, 3])), **epsilon)


X, ROW, IDS = np.zeros((2, 3, 4), np.float32), np.zeros(4, np.float32), np.zeros((2, 3), np.int32)
TABLE = np.zeros((5, 4), np.float32)
EMBED = "EmbedLayerNormalization"
WRONG = {
    "input must have 2 or 3 dimensions": ("SkipLayerNormalization", [X[None], X[None], ROW]),
    r"skip.shape must be": ("SkipLayerNormalization", [X, X[:, :1], ROW]),
    r"gamma: its sizes must be \[4\]": ("SkipSimplifiedLayerNormalization", [X, X, ROW[:3]]),
    r"beta: its sizes must be \[4\]": ("SkipLayerNormalization", [X, X, ROW, ROW[:3]]),
    r"bias: its sizes must be \[4\]": ("SkipSimplifiedLayerNormalization", [X, X, ROW, ROW[:3]]),
    "scale must broadcast to": ("SimplifiedLayerNormalization", [X, ROW[:3]]),
    r"input_ids: its sizes must be \[\?, \?\]": (EMBED, [IDS[0], None, TABLE, TABLE, None, ROW, ROW]),
    r"position_embedding: its sizes": (EMBED, [IDS, None, TABLE, TABLE[:, :3], None, ROW, ROW]),
    "position_embedding must have a row": (EMBED, [IDS, None, TABLE, TABLE[:2], None, ROW, ROW]),
    "segment_embedding must be given": (EMBED, [IDS, IDS, TABLE, TABLE, None, ROW, ROW]),
    r"mask: its sizes must be \[2, 3\]": (EMBED, [IDS, None, TABLE, TABLE, None, ROW, ROW, IDS[:1]]),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_operands_are_refused(message):
    kind, inputs = WRONG[message]
    model, named = one_node(kind, inputs, domain="" if kind.startswith("Simplified") else MICROSOFT)
    with pytest.raises(OnnxError, match=message):
        to_jax(model)(**named)


def test_a_wrong_axis_is_refused():
    model, named = one_node("SimplifiedLayerNormalization", [X, ROW], axis=3)
    with pytest.raises(OnnxError, match="axis must be "):
        to_jax(model)(**named)


# LayerNormalization, which ONNX has from opset 17 on, and ONNX Runtime before too.


@pytest.mark.parametrize("opset", sampled([1, 14, 15, 16, 17], [14]))
@pytest.mark.parametrize("types", sampled(["ff", "dd", "ee", "ef"], ["ef"]))
def test_layers_of_every_opset(types, opset):
    """Before opset 17 the type is that of the scale, which may be another one than the input's."""
    rng = np.random.default_rng(opset)
    x, of_scale = map(np.dtype, types)
    inputs = [rng.standard_normal((2, 3, 4)).astype(x), *rng.standard_normal((2, 3, 4)).astype(of_scale)[:, 0]]
    if opset == 17 and x != of_scale:
        with pytest.raises(OnnxError, match="inputs that share type variable T must have the same type"):
            to_jax(one_node("LayerNormalization", inputs, opset=opset)[0])(*inputs)
    elif opset > 1 or x == of_scale:  # which ONNX Runtime does not run
        compared("LayerNormalization", inputs, 3, domain="", opset=opset, epsilon=0.01)


def test_a_file_that_onnx_runtime_saved_at_level_extended(tmp_path):
    """Of opset 14: what torch wrote as nine nodes is a LayerNormalization."""
    x, ones = np.float32([[1, 2, 4], [3, 0, -1]]), {"scale": np.float32([1, 2, 3]), "bias": np.float32([0, 1, 0])}
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[-1]),
        helper.make_node("Sub", ["x", "mean"], ["d"]),
        helper.make_node("Pow", ["d", "two"], ["dd"]),
        helper.make_node("ReduceMean", ["dd"], ["v"], axes=[-1]),
        helper.make_node("Add", ["v", "epsilon"], ["w"]),
        helper.make_node("Sqrt", ["w"], ["s"]),
        helper.make_node("Div", ["d", "s"], ["n"]),
        helper.make_node("Mul", ["n", "scale"], ["m"]),
        helper.make_node("Add", ["m", "bias"], ["y"]),
    ]
    numbers = ones | {"two": np.float32(2), "epsilon": np.float32(1e-5)}
    written = model(nodes, {"x": x}, ["y"], numbers, opset=14)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "extended.onnx")
    onnxruntime.InferenceSession(written.SerializeToString(), options, providers=["CPUExecutionProvider"])
    saved = onnx.load(options.optimized_model_filepath)
    assert [node.op_type for node in saved.graph.node] == ["LayerNormalization"]
    np.testing.assert_allclose(to_jax(saved)(x), to_jax(written)(x), rtol=1e-5, atol=1e-6)
