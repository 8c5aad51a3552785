"""Functions, ONNX's own and the model's, are their bodies; If runs a branch: compared with ONNX Runtime and by hand."""

import jax
import numpy as np
import pytest
from checks import assert_same_bits
from onnx_building import TensorProto, helper, model, numpy_helper, onnx, runtime
from onnx_one_node import refused

import dml_jax
from dml_jax.onnx import NotConstantError, OnnxError, UnsupportedError, to_jax
from dml_jax.onnx.block_execution import FunctionCall
from dml_jax.onnx.contrib_schemas import qualified
from dml_jax.onnx.function_bodies import has_body
from dml_jax.onnx.node_reader import Reader
from dml_jax.onnx.operator_table import ONNX_OPERATORS

make = helper.make_node
X = np.float32([[1, -2, 3], [-4, 5, -6]])


def value(name, dtype=TensorProto.FLOAT, shape=None):
    return helper.make_tensor_value_info(name, dtype, shape)


def with_functions(proto, *functions):
    """A model that defines functions of the domain "own"."""
    proto.functions.extend(functions)
    proto.opset_import.append(helper.make_opsetid("own", 1))
    return proto


def function(name, inputs, outputs, nodes, attributes=(), defaults=()):
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, inputs, outputs, nodes, imports, list(attributes), list(defaults))


def own(op_type, inputs, outputs, name="call", **attributes):
    return make(op_type, inputs, outputs, name=name, domain="own", **attributes)


def referring(node, **attributes):
    """A node of a body whose attributes are those of the call, by other names."""
    for name, (there, kind) in attributes.items():
        node.attribute.append(onnx.AttributeProto(name=name, ref_attr_name=there, type=kind))
    return node


# Of the model.

INT = onnx.AttributeProto.INT


def test_a_function_of_the_model_is_its_body():
    body = [
        make("Constant", [], ["last"], value_int=-1),
        referring(make("Gather", ["a", "last"], ["picked"]), axis=("along", INT)),
        make("Mul", ["picked", "b"], ["product"]),
        make("Add", ["a", "b"], ["sum"]),
    ]
    shifted = function("Shifted", ["a", "b"], ["sum", "product"], body, ["along"])
    nodes = [own("Shifted", ["x", "c"], ["y", "z"], along=1), own("Shifted", ["x", "c"], ["", "w"], "again", along=0)]
    proto = with_functions(model(nodes, {"x": X}, ["y", "z", "w"], {"c": np.float32(2)}), shifted)
    for y, wanted in zip(jax.jit(to_jax(proto))(X), [X + 2, X[:, -1] * 2, X[-1] * 2], strict=True):
        assert_same_bits(y, wanted)
    for y, wanted in zip(to_jax(proto)(X), runtime(proto, {"x": X}), strict=True):
        assert_same_bits(y, wanted)


def test_attributes_have_defaults_and_may_be_left_out():
    """`along` has a default; `keepdims`, which the call lacks, is that of the operator: 1."""
    body = [referring(make("ArgMax", ["a"], ["i"]), axis=("along", INT), keepdims=("keep", INT))]
    best = helper.make_function("own", "Best", ["a"], ["i"], body, [helper.make_opsetid("", 20)], [], [])
    best.attribute_proto.append(helper.make_attribute("along", 1))
    proto = with_functions(model([own("Best", ["x"], ["y"])], {"x": X}, ["y"]), best)
    assert_same_bits(to_jax(proto)(X), np.int32([[2], [1]]))
    kept = with_functions(model([own("Best", ["x"], ["y"], keep=0)], {"x": X}, ["y"]), best)
    assert_same_bits(to_jax(kept)(X), np.int32([2, 1]))


def test_functions_call_functions_and_leave_inputs_out():
    inner = function("Clamp", ["a", "low", "high"], ["b"], [make("Clip", ["a", "low", "high"], ["b"])])
    body = [own("Clamp", ["a", "", "high"], ["b"]), make("Add", ["b", "b"], ["c"])]
    outer = function("Twice", ["a", "high"], ["c"], body)
    called = model([own("Twice", ["x", "two"], ["y"])], {"x": X}, ["y"], {"two": np.float32(2)})
    proto = with_functions(called, inner, outer)
    assert_same_bits(jax.jit(to_jax(proto))(X), 2 * np.minimum(X, 2))
    missing = with_functions(model([own("Twice", ["x"], ["y"])], {"x": X}, ["y"]), inner, outer)
    assert_same_bits(to_jax(missing)(X), 2 * X)


def test_a_function_of_the_model_goes_before_onnxs():
    relu = helper.make_function("", "Relu", ["a"], ["b"], [make("Neg", ["a"], ["b"])], [helper.make_opsetid("", 20)])
    proto = model([make("Relu", ["x"], ["y"])], {"x": X}, ["y"])
    proto.functions.append(relu)
    assert_same_bits(to_jax(proto)(X), -X)


def test_gradients_go_through_functions():
    square = function("Square", ["a"], ["b"], [make("Mul", ["a", "a"], ["b"])])
    proto = with_functions(model([own("Square", ["x"], ["y"])], {"x": X}, ["y"]), square)
    assert_same_bits(jax.grad(lambda x: to_jax(proto)(x).sum())(X), 2 * X)


BROKEN = {
    "itself": (function("F", ["a"], ["b"], [own("F", ["a"], ["b"])]), "a function must not call itself, but F does"),
    "inputs": (function("F", [], ["b"], [make("Constant", [], ["b"], value_int=1)]), "at most 0 inputs and 1 outputs"),
    "attribute": (
        function("F", ["a"], ["b"], [make("Identity", ["a"], ["b"])], ["k"]),
        "F node 'call': it must have the attribute 'k', but that is missing",
    ),
    "outside": (
        function("F", ["a"], ["b"], [make("Add", ["a", "x"], ["b"])]),
        "F node 'call': every value in a function must be made there, but 'x' is not",
    ),
    "uncomputed": (function("F", ["a"], ["b"], []), "every value in a function must be made there, but 'b' is not"),
    "cycle": (
        function("F", ["a"], ["b"], [make("Neg", ["b"], ["b"], name="n")]),
        "F node 'call': no node may need its own output, through others neither, but there is a cycle of Neg node 'n'",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_functions_are_refused(name):
    body, text = BROKEN[name]
    refused(with_functions(model([own("F", ["x"], ["y"])], {"x": X}, ["y"]), body), text)


def test_what_a_body_lacks_is_listed_by_its_call():
    text = function("F", ["a"], ["b"], [make("StringNormalizer", ["a"], ["b"], name="inner")])
    proto = with_functions(model([own("F", ["x"], ["y"])], {"x": X}, ["y"]), text)
    with pytest.raises(UnsupportedError) as caught:
        to_jax(proto)
    assert caught.value.nodes == ("F node 'call': StringNormalizer (node 'inner')",)


def test_a_domain_that_is_not_imported_or_not_known():
    refused(model([own("F", ["x"], ["y"])], {"x": X}, ["y"]), "own::F (node 'call')", UnsupportedError)
    node = make("FlexAttention", ["x"] * 3, ["y"], name="flex", domain="ai.onnx.preview")
    refused(model([node], {"x": X}, ["y"]), "'flex': the model must import a version of the domain 'ai.onnx.preview'")


def test_an_output_that_is_an_input_left_out():
    late = function("Late", ["a", "b"], ["b"], [])
    proto = with_functions(model([own("Late", ["x"], ["y"])], {"x": X}, ["y"]), late)
    with pytest.raises(OnnxError, match="Late node 'call': every output that is read must be computed, but 'y' is not"):
        to_jax(proto)(X)


def test_floats_that_decide_sizes_in_functions_and_branches_are_no_parameters():
    """A function that is called as an operator of ONNX's is none of them."""
    scales, picture = np.float32([1, 1, 2, 2]), np.ones((1, 1, 2, 2), np.float32)
    resize = make("Resize", ["p", "", "s"], ["r"], mode="nearest")
    enlarge = function("Enlarge", ["p", "s"], ["r"], [resize])
    called = with_functions(model([own("Enlarge", ["p", "s"], ["y"])], {"p": picture}, ["y"], {"s": scales}), enlarge)
    branches = {name: helper.make_graph([resize], name, [], [value("r")]) for name in ("then_branch", "else_branch")}
    chosen = model([make("If", ["b"], ["y"], **branches)], {"p": picture, "b": np.array(True)}, ["y"], {"s": scales})
    assert not to_jax(called).parameters
    assert not to_jax(chosen).parameters
    assert jax.jit(lambda p: to_jax(called)(p, parameters={}))(picture).shape == (1, 1, 4, 4)
    times = function("Dropout", ["a", "w"], ["b"], [make("Mul", ["a", "w"], ["b"])])
    trained = with_functions(
        model([own("Dropout", ["x", "w"], ["y"])], {"x": X}, ["y"], {"w": np.full(X.shape, 2, X.dtype)}), times
    )
    assert list(to_jax(trained).parameters) == ["w"]


# ONNX's own.


def test_operators_have_formulas_of_their_own():
    """In every version: bodies are for functions of models, and for operators that a newer onnx brings."""
    if onnx.defs.onnx_opset_version() > 28:
        pytest.skip("a newer onnx may have more operators")
    by_body = [
        f"{name}-{schema.since_version}"
        for schema in onnx.defs.get_all_schemas_with_history()
        for name in [qualified(schema.domain, schema.name)]
        if has_body(schema) and not any(since <= schema.since_version for since in ONNX_OPERATORS.get(name, ()))
    ]
    assert by_body == []


def test_a_body_depends_on_types_that_only_the_call_knows(monkeypatch):
    """That of GroupNormalization, without its row of the table: a half is computed as a half and as a float."""
    monkeypatch.delitem(ONNX_OPERATORS, "GroupNormalization")
    x = np.random.default_rng(0).standard_normal((2, 4, 3)).astype(np.float32)
    ones = {"scale": np.float32([1, 2, 3, 4]), "bias": np.float32([0, 1, 0, 1])}
    node = make("GroupNormalization", ["x", "scale", "bias"], ["y"], num_groups=2, epsilon=1e-5)
    groups = x.astype(np.float64).reshape(2, 2, -1)
    centred = groups - groups.mean(-1, keepdims=True)
    wanted = (centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)).reshape(x.shape)
    wanted = wanted * ones["scale"][:, None] + ones["bias"][:, None]
    for dtype, most in ((np.float32, 1e-5), (np.float16, 1e-2)):
        typed = {key: array.astype(dtype) for key, array in ones.items()}
        proto = model([node], {"x": x.astype(dtype)}, ["y"], typed, opset=21)
        y = jax.jit(to_jax(proto))(x.astype(dtype))
        assert y.dtype == dtype
        np.testing.assert_allclose(y, wanted, atol=most)


def test_every_body_that_onnx_has_would_do(monkeypatch):
    """Of the newest opset, by calls with as few inputs as may be, without the operator's own row of the table."""
    newest = onnx.defs.onnx_opset_version()
    for schema in onnx.defs.get_all_schemas():
        if schema.domain or not (schema.has_function or schema.has_context_dependent_function):
            continue
        needed = {n: str(a.type).rpartition(".")[2] for n, a in schema.attributes.items() if a.required}
        some = {"INT": 1, "INTS": [1], "GRAPH": helper.make_graph([], "empty", [], []), "STRING": "none"}
        inputs, outputs = (
            [f"{c}{i}" for i in range(n)] for c, n in (("x", schema.min_input), ("y", schema.min_output))
        )
        node = make(schema.name, inputs, outputs, **{name: some[kind] for name, kind in needed.items()})
        with monkeypatch.context() as patch:
            patch.delitem(ONNX_OPERATORS, schema.name)
            assert isinstance(Reader({"": newest}).step(node), FunctionCall)


# If.


def branch(name, *nodes, constants=None):
    initializers = [numpy_helper.from_array(array, key) for key, array in (constants or {}).items()]
    return helper.make_graph(list(nodes), name, [], [value("out")], initializers)


def choice(then, other, inputs, initializers=None, condition="b"):
    node = make("If", [condition], ["y"], name="choice", then_branch=then, else_branch=other)
    return model([node], inputs, ["y"], initializers)


TWICE = branch("twice", make("Mul", ["x", "two"], ["out"]), constants={"two": np.float32(2)})
LESS = branch("less", make("Sub", ["x", "one"], ["out"], name="minus"))
ROW = branch("row", make("ReduceSum", ["x"], ["out"], keepdims=0))
ONE = {"one": np.float32(1)}


def test_a_known_condition_chooses_while_tracing():
    """As a constant, by shapes, as a static input, and by data that are there; branches see what is around."""
    for known, wanted in ((True, 2 * X), (False, X.sum())):
        constant = to_jax(choice(TWICE, ROW, {"x": X}, {"b": np.array(known)}))
        np.testing.assert_allclose(jax.jit(constant)(X), wanted, rtol=1e-6)
        given = choice(TWICE, ROW, {"x": X, "b": np.array(known)})
        np.testing.assert_allclose(to_jax(given)(X, np.array(known)), wanted, rtol=1e-6)
        static = to_jax(given, static={"b": known})
        assert [spec.name for spec in static.inputs] == ["x"]
        np.testing.assert_allclose(jax.jit(static)(X), wanted, rtol=1e-6)
    shapes = [make("Size", ["x"], ["n"]), make("Less", ["n", "ten"], ["b"])]
    proto = choice(TWICE, ROW, {"x": X}, {"ten": np.int64(10)})
    nodes = [*shapes, *proto.graph.node]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    assert_same_bits(jax.jit(to_jax(proto))(X), 2 * X)


def test_an_unknown_condition_runs_both_of_one_type_or_is_refused():
    proto = choice(TWICE, LESS, {"x": X, "b": np.array(True)}, ONE)
    function = jax.jit(to_jax(proto))
    for known, wanted in ((True, 2 * X), (False, X - 1)):
        assert_same_bits(function(X, np.array(known)), wanted)
        assert_same_bits(function(X, np.array([known])[0]), runtime(proto, {"x": X, "b": np.array(known)})[0])
        slope = jax.grad(lambda x, known=known: function(x, np.array(known)).sum())(X)
        assert_same_bits(slope, np.full_like(X, 2 if known else 1))
    with pytest.raises(
        NotConstantError, match=r"'choice': cond must be known.*float32\[2, 3\] and float32\[\].*static="
    ):
        jax.jit(to_jax(choice(TWICE, ROW, {"x": X, "b": np.array(True)})))(X, np.array(True))


def test_branches_are_nested():
    inner = make("If", ["c"], ["out"], name="inner", then_branch=TWICE, else_branch=LESS)
    proto = choice(branch("outer", inner), ROW, {"x": X, "b": np.array(True), "c": np.array(False)}, ONE)
    assert_same_bits(to_jax(proto)(X, np.array(True), np.array(False)), X - 1)
    only = to_jax(proto, static={"b": True})
    assert_same_bits(jax.jit(only)(X, np.array(False)), X - 1)


def test_errors_in_branches_say_where():
    proto = choice(branch("f", make("Neg", ["nothing"], ["out"], name="n")), LESS, {"x": X, "b": np.array(True)}, ONE)
    refused(proto, "If node 'choice': every input must exist before the node, but 'nothing' does not")
    wrong = branch("f", make("Reshape", ["x", "shape"], ["out"], name="r"), constants={"shape": np.int64([7])})
    with pytest.raises(OnnxError, match=r"If node 'choice': Reshape node 'r': .*7"):
        to_jax(choice(wrong, LESS, {"x": X, "b": np.array(True)}, ONE), static={"b": True})(X)


def test_what_a_branch_needs_is_computed_before():
    """A node that only a branch reads is not left out."""
    half = branch("half", make("Mul", ["x", "made"], ["out"]))
    proto = choice(half, LESS, {"x": X}, ONE | {"b": np.array(True), "quarter": np.float32(0.25)})
    made = make("Add", ["quarter", "quarter"], ["made"])
    nodes = [made, *proto.graph.node]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    assert_same_bits(to_jax(proto)(X), X / 2)


# Inputs.


def test_inputs_by_name():
    proto = model([make("Sub", ["a", "b.1"], ["y"])], {"a": X, "b.1": X + 1}, ["y"])
    f = to_jax(proto)
    assert repr(f) == "OnnxFunction graph(a: float32[2, 3], b.1: float32[2, 3]) -> (y)"
    for result in (f(X, X + 1), f(X, **{"b.1": X + 1}), f(**{"b.1": X + 1, "a": X}), jax.jit(f)(X, **{"b.1": X + 1})):
        assert_same_bits(result, -np.ones_like(X))
    for args, named, text in [
        ((X,), {}, "the inputs must be a, b.1, but b.1 is missing"),
        ((X,), {"a": X}, "every input must be given once, but 'a' is given in order and by name"),
        ((X,), {"c": X}, "the inputs must be a, b.1, but 'c' is none of them"),
    ]:
        with pytest.raises(OnnxError) as caught:
            f(*args, **named)
        assert text in str(caught.value)


def test_an_input_may_be_called_self():
    f = to_jax(model([make("Neg", ["self"], ["y"])], {"self": X}, ["y"]))
    assert_same_bits(f(self=X), -X)


def test_static_inputs():
    nodes = [make("Reshape", ["x", "shape"], ["y"])]
    proto = model(nodes, {"x": X, "shape": np.int64([3, 2])}, ["y"])
    f = to_jax(proto, static={"shape": [3, 2]})
    assert repr(f) == "OnnxFunction graph(x: float32[2, 3]) -> (y)"
    assert_same_bits(jax.jit(f)(X), X.reshape(3, 2))
    assert "shape" not in f.parameters
    for static, error, text in [
        ([1], OnnxError, "static must be a dict by name, but it is list"),
        ({"sizes": [1]}, OnnxError, "static value 'sizes' names no input; the inputs are x, shape"),
        (
            {"shape": [1.5, 2]},
            dml_jax.DataTypeError,
            "static value 'shape': it must be exactly representable as int64, but it is [1.5, 2]",
        ),
        (
            {"shape": [np.nan, 2]},
            dml_jax.DataTypeError,
            "exactly representable as int64, but it is [nan, 2]",
        ),
        (
            {"shape": "six"},
            dml_jax.DataTypeError,
            "static value 'shape': it must be exactly representable as int64, but it is 'six'",
        ),
        ({"shape": [6]}, OnnxError, "static value 'shape': its sizes must be [2], but they are [1]"),
    ]:
        with pytest.raises(error) as caught:
            to_jax(proto, static=static)
        assert text in str(caught.value)


def test_sizes_that_are_unknown_are_written_in_many_ways():
    """-1, as PaddlePaddle has it, and "?" twice, are no sizes and no name."""
    proto = model([make("Neg", ["x"], ["y"])], {"x": np.zeros((1, 1, 1))}, ["y"])
    first, second, third = proto.graph.input[0].type.tensor_type.shape.dim
    first.dim_value, second.dim_param, third.dim_param = -1, "?", "?"
    f = to_jax(proto)
    assert f.inputs[0].sizes == (None, None, None)
    assert repr(f) == "OnnxFunction graph(x: float64[?, ?, ?]) -> (y)"
    with jax.enable_x64(True):
        assert f(np.ones((2, 3, 4))).shape == (2, 3, 4)
