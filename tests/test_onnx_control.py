"""Functions and If, inputs by name and inputs that are known, against ONNX Runtime and NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits
from onnx_building import helper, model, onnx, runtime

import dml_jax
from dml_jax.onnx import NotConstantError, OnnxError, to_jax

make = helper.make_node
X = np.float32([1, -2, 3, -4])


def branch(*nodes, output):
    return helper.make_graph(nodes, output, [], [onnx.ValueInfoProto(name=output)])


def branches(then, otherwise):
    """An If whose branches are a node each, by the input `c`; they read `x`, which is around them."""
    node = make("If", ["c"], ["y"], then_branch=branch(then, output="t"), else_branch=branch(otherwise, output="e"))
    return model([node], {"x": X, "c": np.array(True)}, ["y"], {"first": np.int64([0]), "two": np.int64([2])})


ALIKE = branches(make("Abs", ["x"], ["t"]), make("Neg", ["x"], ["e"]))
UNLIKE = branches(make("Slice", ["x", "first", "two"], ["t"]), make("Neg", ["x"], ["e"]))


@pytest.mark.parametrize("proto", [ALIKE, UNLIKE], ids=["alike", "unlike"])
@pytest.mark.parametrize("cond", [True, False])
def test_an_if_whose_condition_is_known_runs_one_branch(proto, cond):
    (expected,) = runtime(proto, {"x": X, "c": np.array(cond)})
    assert_same_bits(to_jax(proto)(X, np.array(cond)), expected)
    known = to_jax(proto, static={"c": cond})
    assert [spec.name for spec in known.inputs] == ["x"]
    assert_same_bits(jax.jit(known)(X), expected)


def test_an_if_of_data_computes_what_its_condition_says():
    function = to_jax(ALIKE)
    conditions = np.array([True, False])
    expected = np.stack([runtime(ALIKE, {"x": X, "c": np.array(c)})[0] for c in conditions])
    for c, y in zip(conditions, expected, strict=True):
        assert_same_bits(jax.jit(function)(X, c), y)
    assert_same_bits(jax.vmap(function, (None, 0))(X, conditions), expected)
    slope = jax.jit(jax.grad(lambda x, c: function(x, c).sum()))
    assert_same_bits(slope(X, jnp.array(True)), np.sign(X))
    assert_same_bits(slope(X, jnp.array(False)), np.float32([-1] * 4))


def test_branches_of_other_sizes_ask_for_a_known_condition():
    with pytest.raises(
        NotConstantError, match=r"float32\[2\] and float32\[4\], .*`to_jax\(model, static="
    ):
        jax.jit(to_jax(UNLIKE))(X, np.array(True))


def test_a_function_of_the_model_takes_attributes_and_their_defaults():
    body = [make("LeakyRelu", ["a"], ["b"]), make("Add", ["b", "a"], ["r"])]
    body[0].attribute.append(onnx.AttributeProto(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope"))
    function = onnx.FunctionProto(domain="own", name="Bend", input=["a"], output=["r"], node=body)
    function.opset_import.append(helper.make_opsetid("", 20))
    function.attribute_proto.append(helper.make_attribute("slope", 0.5))
    nodes = [make("Bend", ["x"], ["u"], domain="own"), make("Bend", ["u"], ["y"], domain="own", slope=0.25)]
    proto = model(nodes, {"x": X}, ["y"])
    proto.functions.append(function)
    proto.opset_import.append(helper.make_opsetid("own", 1))
    bend = lambda x, slope: np.where(x < 0, np.float32(slope) * x, x) + x  # noqa: E731
    expected = bend(bend(X, 0.5), 0.25)
    assert_same_bits(jax.jit(to_jax(proto))(X), expected)
    assert_same_bits(runtime(proto, {"x": X})[0], expected)


def test_an_operator_that_onnx_defines_by_others_is_expanded():
    x = np.random.default_rng(0).standard_normal((2, 4, 3, 3)).astype(np.float32)
    node = make("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2)
    proto = model([node], {"x": x}, ["y"], {"s": np.float32([1, 2, 3, 4]), "b": np.float32([4, 3, 2, 1])}, opset=21)
    np.testing.assert_allclose(jax.jit(to_jax(proto))(x), runtime(proto, {"x": x})[0], rtol=1e-5, atol=1e-5)


def test_inputs_go_in_order_by_name_or_both():
    function = to_jax(model([make("Sub", ["a", "b"], ["y"])], {"a": X, "b": X}, ["y"]))
    expected = X - 1
    ones = np.ones_like(X)
    for made in (function(X, ones), function(X, b=ones), function(b=ones, a=X), jax.jit(function)(b=ones, a=X)):
        assert_same_bits(made, expected)
    with pytest.raises(OnnxError, match="every input must be given once, but 'a' is given in order and by name"):
        function(X, a=X)
    with pytest.raises(OnnxError, match="the inputs must be a, b, but 'c' is none of them"):
        function(X, c=X)


@pytest.mark.parametrize(
    ("static", "error", "text"),
    [
        ({"d": 1}, OnnxError, "static value 'd': it must be of an input, x, c"),
        ({"c": 2}, dml_jax.DataTypeError, "static value 'c': it must be bool, exactly, but it is 2"),
        ({"x": [1, 2]}, OnnxError, "static value 'x': its sizes must be [4], but they are [2]"),
        ({"x": "one"}, dml_jax.DataTypeError, "static value 'x': it must be float32, exactly, but it is 'one'"),
    ],
)
def test_static_values_that_do_not_fit(static, error, text):
    with pytest.raises(error) as caught:
        to_jax(ALIKE, static=static)
    assert text in str(caught.value)


def test_static_values_of_narrow_floats():
    x = np.array([1, np.nan, -0.0], jnp.bfloat16)
    function = to_jax(model([make("Identity", ["x"], ["y"])], {"x": x}, ["y"]), static={"x": x})
    assert_same_bits(function(), x)
