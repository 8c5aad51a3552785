"""Parameters of ONNX models: weights are some, literals are not, as either of torch's exporters writes them."""

import jax
import numpy as np
import pytest
from onnx_building import declared, helper, model, numpy_helper, onnx

from dml_jax.onnx import to_jax

make = helper.make_node
SCALAR, ONE = np.float32(0.5), np.float32([0.5])
X = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)


def parameters_of(nodes, outputs=("y",), **initializers):
    return list(to_jax(model(nodes, {"x": X}, outputs, initializers)).parameters)


def attention(scaled, weights):
    """softmax(q k^T / 2) v of one head; `scaled` are the nodes that make "scores" of "q" and "kt"."""
    return [
        *(make("MatMul", ["x", w], [name]) for w, name in zip(weights, "qkv", strict=True)),
        make("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        *scaled,
        make("Softmax", ["scores"], ["attention"], axis=-1),
        make("MatMul", ["attention", "v"], ["heads"]),
    ]


def dynamo(weights):
    """As `torch.onnx.export(..., dynamo=True)` writes attention and `2 * x`: literals are initializers."""
    scaled = [
        make("Mul", ["q", "val_64"], ["qs"]),
        make("Mul", ["kt", "val_64"], ["ks"]),
        make("MatMul", ["qs", "ks"], ["scores"]),
    ]
    nodes = [*attention(scaled, weights), make("Mul", ["heads", "scalar_tensor_default"], ["y"])]
    literals = {"val_64": np.float32([0.5**0.5]), "scalar_tensor_default": np.float32(2)}
    return model(nodes, {"x": X}, ["y"], weights | literals)


def torchscript(weights):
    """As `torch.onnx.export(..., dynamo=False)` writes them: literals are nodes."""

    def constant(name, value):
        return make("Constant", [], [name], value=numpy_helper.from_array(np.asarray(value), name))

    scaled = [
        make("Shape", ["q"], ["sizes"]),
        constant("last", np.int64([-1])),
        constant("end", np.int64([2**63 - 1])),
        make("Slice", ["sizes", "last", "end"], ["width"]),
        make("Cast", ["width"], ["width_"], to=onnx.TensorProto.FLOAT),
        make("Sqrt", ["width_"], ["root"]),
        constant("one", np.float32([1])),
        make("Div", ["one", "root"], ["scale"]),
        make("Sqrt", ["scale"], ["half"]),
        make("Mul", ["q", "half"], ["qs"]),
        make("Mul", ["kt", "half"], ["ks"]),
        make("MatMul", ["qs", "ks"], ["scores"]),
    ]
    nodes = [*attention(scaled, weights), constant("two", np.float32(2)), make("Mul", ["heads", "two"], ["y"])]
    return model(nodes, {"x": X}, ["y"], weights)


@pytest.mark.parametrize("exporter", [dynamo, torchscript])
def test_literals_of_torch_are_no_parameters(exporter):
    """So a step along the gradient of all parameters leaves them as they are."""
    rng = np.random.default_rng(1)
    weights = {name: rng.standard_normal((4, 4)).astype(np.float32) for name in ("wq", "wk", "wv")}
    function = to_jax(exporter(weights))
    assert list(function.parameters) == ["wq", "wk", "wv"]
    q, k, v = (X.astype(float) @ w for w in weights.values())
    scores = np.exp(q @ k.transpose(0, 2, 1) / 2)
    expected = 2 * scores / scores.sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(jax.jit(function)(X), expected, rtol=1e-4)
    gradients = jax.jit(jax.grad(lambda p: function(X, parameters=p).sum()))(function.parameters)
    assert gradients.keys() == weights.keys()


def test_literals_can_be_given_so_that_stored_parameters_load():
    function = to_jax(model([make("Mul", ["x", "two"], ["y"])], {"x": X}, ["y"], {"two": np.float32(2)}))
    assert function.parameters == {}
    np.testing.assert_array_equal(function(X, parameters={"two": np.float32(3)}), X * 3)
    gradient = jax.grad(lambda p: function(X, parameters=p).sum())({"two": np.float32(2)})
    np.testing.assert_allclose(gradient["two"], X.astype(float).sum(), rtol=1e-5)


BINARY = ("Add", "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Min", "Sum", "Mean", "Greater", "LessOrEqual", "Equal")


@pytest.mark.parametrize("number", [SCALAR, ONE], ids=["scalar", "one_element"])
@pytest.mark.parametrize("op_type", BINARY)
def test_operands_of_elementwise_operators_are_literals(op_type, number):
    attributes = {"fmod": 1} if op_type == "Mod" else {}
    for inputs in (["x", "n"], ["n", "x"]):
        assert parameters_of([make(op_type, inputs, ["y"], **attributes)], n=number) == []


def branches(*nodes):
    return [
        make("Size", ["x"], ["size"]),
        make("Cast", ["size"], ["cond"], to=onnx.TensorProto.BOOL),
        make(
            "If",
            ["cond"],
            ["y"],
            **{
                name: helper.make_graph([node], name, [], [onnx.ValueInfoProto(name=node.output[0])])
                for name, node in zip(("then_branch", "else_branch"), nodes, strict=True)
            },
        ),
    ]


CLIP = [make("Clip", ["x", "n", ""], ["y"])]
WHERE = [make("Less", ["x", "w"], ["small"]), make("Where", ["small", "x", "n"], ["y"])]
COPIED = [
    make("Identity", ["n"], ["same"]),
    make("CastLike", ["same", "x"], ["cast"]),
    make("Mul", ["x", "cast"], ["y"]),
]
IN_BOTH = branches(make("Mul", ["x", "n"], ["a"]), make("Add", ["x", "n"], ["b"]))


@pytest.mark.parametrize(
    "nodes", [CLIP, WHERE, COPIED, IN_BOTH], ids=["bound", "where", "copied", "inside_of_both_branches"]
)
def test_other_literals(nodes):
    others = {"w": np.ones(4, np.float32)} if nodes is WHERE else {}
    assert parameters_of(nodes, n=SCALAR, **others) == [*others]


WEIGHTS = {
    "a slope": ([make("PRelu", ["x", "n"], ["y"])], ONE),
    "a scale of a normalization": ([make("LayerNormalization", ["x", "n"], ["y"], axis=-1)], ONE),
    "a logarithm of a scale": ([make("Exp", ["n"], ["scale"]), make("Mul", ["x", "scale"], ["y"])], SCALAR),
    "a bias of a linear layer": ([make("MatMul", ["x", "w"], ["p"]), make("Add", ["p", "n"], ["y"])], ONE),
    "a bias before the product": ([make("MatMul", ["x", "w"], ["p"]), make("Add", ["n", "p"], ["y"])], ONE),
    "an operand and something else": ([make("Mul", ["x", "n"], ["a"]), make("PRelu", ["a", "n"], ["y"])], ONE),
    "a value of a branch": (branches(make("Mul", ["x", "n"], ["a"]), make("Identity", ["n"], ["b"])), SCALAR),
    "several elements": ([make("Mul", ["x", "n"], ["y"])], np.ones(4, np.float32)),
    "nothing reads it": ([make("Neg", ["x"], ["y"])], SCALAR),
}


@pytest.mark.parametrize("what", WEIGHTS)
def test_weights_of_one_element_stay(what):
    nodes, number = WEIGHTS[what]
    others = {"w": np.ones((4, 1), np.float32)} if "bias" in what else {}
    assert parameters_of(nodes, **others, n=number) == [*others, "n"]


def test_a_scalar_that_is_added_to_a_product_is_a_literal():
    nodes = [make("MatMul", ["x", "w"], ["p"]), make("Add", ["p", "n"], ["y"])]
    assert parameters_of(nodes, w=np.ones((4, 1), np.float32), n=SCALAR) == ["w"]


def test_outputs_and_inputs_of_the_model_stay():
    scale = [make("Mul", ["x", "n"], ["y"])]
    assert parameters_of(scale, outputs=("y", "n"), n=SCALAR) == ["n"]
    proto = model(scale, {"x": X}, ["y"], {"n": SCALAR})
    proto.graph.input.append(declared("n", SCALAR))
    assert list(to_jax(proto).parameters) == ["n"]


def test_functions_of_the_model_are_looked_into():
    """The first input is scaled by a literal; the second one is a slope."""
    body = [make("Mul", ["x", "scale"], ["a"]), make("PRelu", ["a", "slope"], ["y"])]
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("mine", 1)]
    function = helper.make_function("mine", "Scaled", ["x", "scale", "slope"], ["y"], body, imports)
    proto = model([make("Scaled", ["x", "n", "m"], ["y"], domain="mine")], {"x": X}, ["y"], {"n": SCALAR, "m": ONE})
    proto.opset_import.append(helper.make_opsetid("mine", 1))
    proto.functions.append(function)
    assert list(to_jax(proto).parameters) == ["m"]


BOXES = [
    make("MatMul", ["x", "w"], ["boxes"]),
    make("MatMul", ["boxes", "v"], ["s"]),
    make("Transpose", ["s"], ["scores"], perm=[0, 2, 1]),
    make("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["kept"]),
]
ROWS = [make("MatMul", ["x", "w"], ["h"]), make("MatMul", ["h", "v"], ["s"]), make("NonZero", ["s"], ["kept"])]
WEIGHTS_BEFORE = {"w": X[0, :, :].T @ X[1], "v": X[0, :1].T}
LIMITS = {"most": np.int64([2]), "overlap": ONE, "least": np.float32([0.1])}


@pytest.mark.parametrize("nodes", [BOXES, ROWS], ids=["NonMaxSuppression", "NonZero"])
def test_weights_before_an_output_of_stated_size_are_trained(nodes):
    proto = model(nodes, {"x": X}, ["kept", "s"], WEIGHTS_BEFORE | (LIMITS if nodes is BOXES else {}))
    assert not to_jax(proto).parameters  # the weights decide how many rows there are
    stated = to_jax(proto, maximum={"kept": 4})
    assert set(stated.parameters) == {"w", "v"}
    slopes = jax.jit(jax.grad(lambda p: stated(X, parameters=p)[1].sum()))(stated.parameters)
    np.testing.assert_allclose(slopes["v"][:, 0], (X @ WEIGHTS_BEFORE["w"]).sum((0, 1)), rtol=1e-5)
