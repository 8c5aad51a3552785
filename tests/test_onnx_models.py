"""Whole models: a super-resolution network, shapes computed as exporters do, transformations, parameters, x64."""

import jax
import numpy as np
import pytest
from checks import assert_same_bits, sampled
from jax.test_util import check_grads
from onnx_building import helper, model, numpy_helper, runtime

from dml_jax.onnx import NotConstantError, OnnxError, run_node, to_jax

pytestmark = pytest.mark.usefixtures("full_precision")


def super_resolution(mode="CRD", channels=4, block=2):
    """Convolutions at low resolution, then channels become pixels."""
    rng = np.random.default_rng(0)
    weights = {
        "w0": rng.standard_normal((channels, 1, 3, 3)) / 3,
        "b0": rng.standard_normal(channels) / 3,
        "w1": rng.standard_normal((block**2, channels, 3, 3)) / 6,
        "b1": rng.standard_normal(block**2) / 6,
    }
    nodes = [
        helper.make_node("Conv", ["picture", "w0", "b0"], ["a"], name="features", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w1", "b1"], ["c"], name="pixels", auto_pad="SAME_UPPER"),
        helper.make_node("DepthToSpace", ["c"], ["large"], blocksize=block, mode=mode),
    ]
    picture = rng.standard_normal((2, 1, 6, 5)).astype(np.float32)
    weights = {name: w.astype(np.float32) for name, w in weights.items()}
    return model(nodes, {"picture": picture}, ["large"], weights), picture


# Super-resolution.


@pytest.mark.parametrize("mode", sampled(["DCR", "CRD"], ["CRD"]))
def test_super_resolution_gives_the_picture_of_onnx_runtime(mode):
    proto, picture = super_resolution(mode)
    function = to_jax(proto)
    (expected,) = runtime(proto, {"picture": picture})
    assert expected.shape == (2, 1, 12, 10)
    for actual in (
        function(picture),
        jax.jit(function)(picture),
        function(picture, parameters=function.parameters),
        jax.jit(lambda p: function(picture, parameters=p))(function.parameters),
    ):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_the_gradient_of_the_weights_is_that_of_differences():
    proto, picture = super_resolution()
    function = to_jax(proto)
    assert set(function.parameters) == {"w0", "b0", "w1", "b1"}

    def loss(parameters):
        return (function(picture, parameters=parameters) ** 2).sum()

    gradient = jax.jit(jax.grad(loss))(function.parameters)
    assert all(np.isfinite(g).all() and np.abs(g).max() > 0 for g in gradient.values())
    step = 1e-3  # small, because a Relu has a kink
    rng = np.random.default_rng(1)
    way = {n: rng.standard_normal(w.shape).astype(np.float32) for n, w in function.parameters.items()}
    there, back = ({n: w + s * way[n] for n, w in function.parameters.items()} for s in (step, -step))
    slope = (loss(there) - loss(back)) / (2 * step)
    np.testing.assert_allclose(sum((gradient[n] * way[n]).sum() for n in way), slope, rtol=2e-2)


@pytest.mark.exhaustive
def test_derivatives_of_movement_and_layout_are_exact():
    """Every operator that moves data, upon another, in both directions of differentiation."""
    i, t = np.int32([[2, 0, 1]]), np.int32([[1], [0]])
    nodes = [
        helper.make_node("Transpose", ["x"], ["a"], perm=[1, 0]),
        helper.make_node("Gather", ["a", "g"], ["b"], axis=0),
        helper.make_node("Squeeze", ["b", "zero"], ["c"]),
        helper.make_node("ScatterElements", ["c", "i", "u"], ["d"], axis=1),
        helper.make_node("Pad", ["d", "pads"], ["e"], mode="reflect"),
        helper.make_node("GatherND", ["e", "t"], ["f"]),
        helper.make_node("Slice", ["f", "start", "end", "one", "step"], ["h"]),
        helper.make_node("Concat", ["h", "h"], ["k"], axis=-1),
        helper.make_node("ScatterND", ["k", "t", "v"], ["l"], reduction="add"),
        helper.make_node("Where", ["mask", "l", "k"], ["m"]),
        helper.make_node("TopK", ["m", "two"], ["n", "o"], axis=1),
        helper.make_node("Tile", ["n", "pair"], ["y"]),
    ]
    x, u, v = (np.random.default_rng(2).standard_normal(s).astype(np.float32) for s in ((4, 3), (1, 3), (2, 6)))
    constants = {
        "g": np.int64([[0, -1, 1]]),
        "zero": np.int64([0]),
        "pads": np.int64([1, 1, 0, 1]),
        "start": np.int64([-1]),
        "end": np.int64([-4]),
        "one": np.int64([1]),
        "step": np.int64([-1]),
        "two": np.int64([2]),
        "pair": np.int64([2, 1]),
        "mask": np.array([[True], [False]]),
    }
    proto = model(nodes, {"x": x, "i": i, "u": u, "t": t.astype(np.int64), "v": v}, ["y"], constants)
    function = to_jax(proto)
    expected = runtime(proto, {"x": x, "i": i, "u": u, "t": t.astype(np.int64), "v": v})[0]
    assert_same_bits(function(x, i, u, t.astype(np.int64), v), expected)
    of_floats = jax.jit(lambda x, u, v: function(x, np.asarray(i), u, t.astype(np.int64), v))
    check_grads(of_floats, (x, u, v), order=1, atol=0.05, rtol=0.05)


# Symbolic sizes, in jax.export.


def test_a_network_is_exported_for_pictures_of_any_size():
    pytest.importorskip("flatbuffers")
    proto, picture = super_resolution()
    for size, name in zip(proto.graph.input[0].type.tensor_type.shape.dim, ("n", 1, "h", "w"), strict=True):
        size.dim_param = name if isinstance(name, str) else ""
    proto.graph.node[2].ClearField("attribute")
    proto.graph.node[2].attribute.append(helper.make_attribute("pads", [1, 1, 1, 1]))
    symbolic = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n, 1, h, w"), np.float32)
    artifact = jax.export.export(jax.jit(to_jax(proto)))(symbolic).serialize()
    for one in (picture, picture[:1, :, 1:]):
        (expected,) = runtime(proto, {"picture": one})
        np.testing.assert_allclose(jax.export.deserialize(artifact).call(one), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("op_type", "opset", "inputs", "attributes"),
    [
        ("Upsample", 9, ["x", "scales"], {"mode": "nearest"}),
        ("Upsample", 9, ["x", "scales"], {"mode": "linear"}),
        ("Resize", 10, ["x", "scales"], {"mode": "linear"}),
        ("Resize", 20, ["x", "", "scales"], {"mode": "nearest"}),
        ("Resize", 20, ["x", "", "scales"], {"mode": "linear"}),
        ("Resize", 20, ["x", "", "scales"], {"mode": "linear", "antialias": 1}),
        ("Resize", 20, ["x", "", "scales"], {"mode": "cubic"}),
        ("Resize", 20, ["x", "roi", "scales"], {"coordinate_transformation_mode": "tf_crop_and_resize"}),
    ],
    ids=str,
)
def test_a_scale_of_1_keeps_a_symbolic_size(op_type, opset, inputs, attributes):
    x = np.random.default_rng(0).standard_normal((3, 2, 4, 8)).astype(np.float32)
    constants = {"scales": np.float32([1, 1, 2, 1.5]), "roi": np.float32([0, 0, 0, 0.25, 1, 1, 1.5, 1])}
    proto = model([helper.make_node(op_type, inputs, ["y"], **attributes)], {"x": x}, ["y"], constants, opset)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    symbolic = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n, 2, 4, 8"), np.float32)
    exported = jax.export.export(jax.jit(to_jax(proto)))(symbolic)
    (expected,) = runtime(proto, {"x": x})
    np.testing.assert_allclose(exported.call(x), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("node", "of_batch"),
    {
        "Flatten": (helper.make_node("Flatten", ["x"], ["y"]), lambda x: x.reshape(len(x), 12)),
        "Flatten all": (helper.make_node("Flatten", ["x"], ["y"], axis=0), lambda x: x.reshape(1, -1)),
        "Squeeze": (helper.make_node("Squeeze", ["x", "axes"], ["y"]), lambda x: x[:, :, 0]),
        "Unsqueeze": (helper.make_node("Unsqueeze", ["x", "axes"], ["y"]), lambda x: x[:, :, None]),
        "Reshape": (helper.make_node("Reshape", ["x", "kept"], ["y"]), lambda x: x.reshape(len(x), 12)),
    }.values(),
    ids=lambda value: getattr(value, "op_type", ""),
)
def test_sizes_that_move_no_element_may_be_symbolic(node, of_batch):
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 1, 4)
    constants = {"axes": np.int64([2]), "kept": np.int64([0, -1])}
    known = {name: constants[name] for name in node.input if name in constants}
    proto = model([node], {"x": x}, ["y"], known)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    symbolic = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n, 3, 1, 4"), np.float32)
    exported = jax.export.export(jax.jit(to_jax(proto)))(symbolic)
    for batch in (x, x[:1]):
        np.testing.assert_array_equal(exported.call(batch), of_batch(batch))


def test_what_computes_with_symbolic_sizes_is_refused_in_words():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    proto = model([helper.make_node("Shape", ["x"], ["y"])], {"x": x}, ["y"])
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    function = to_jax(proto)
    symbolic = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n, 3, 4"), np.float32)
    with pytest.raises(OnnxError, match=r"^Shape node #0: .*; sizes are symbolic: export a jax.vmap"):
        jax.export.export(jax.jit(function))(symbolic)
    exported = jax.export.export(jax.jit(jax.vmap(lambda one: function(one[None]))))(symbolic)
    np.testing.assert_array_equal(exported.call(x), [[1, 3, 4]] * 2)


# Parameters.


def test_floats_that_sizes_follow_from_are_no_parameters():
    """All parameters can be data under jit, those of a Resize included, whose scales may be computed."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Shape", ["a"], ["s"]),
        helper.make_node("Cast", ["s"], ["f"], to=1),
        helper.make_node("Mul", ["f", "twice"], ["g"]),
        helper.make_node("Div", ["g", "f"], ["scales"]),
        helper.make_node("Resize", ["a", "", "scales"], ["b"], mode="nearest"),
        helper.make_node("Dropout", ["b", "ratio"], ["c"]),
        helper.make_node("Range", ["first", "last", "step"], ["r"]),
        helper.make_node("Add", ["c", "r"], ["y"]),
    ]
    x, w = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2), np.float32([[[[3]]]])
    floats = {"ratio": np.float32(0.5), "first": np.float32(0), "last": np.float32(4), "step": np.float32(1)}
    proto = model(nodes, {"x": x}, ["y"], {"w": w, "twice": np.float32([1, 1, 2, 2]), **floats})
    function = to_jax(proto)
    assert list(function.parameters) == ["w"]
    made = jax.jit(lambda p: function(x, parameters=p))(function.parameters)
    assert_same_bits(made, runtime(proto, {"x": x})[0])
    with pytest.raises(NotConstantError, match=r"^Resize .*: scales must be .* or on a parameter that is given"):
        jax.jit(lambda p: function(x, parameters={"twice": p}))(np.float32([1, 1, 2, 2]))


# Shapes, as exporters compute them.


def flattened_but_batch():
    """torch's x.view(x.shape[0], -1) beside TensorFlow's reshape by strided slices of a shape."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Constant", [], ["zero"], value_int=0),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "axes"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["wanted"], axis=0),
        helper.make_node("Reshape", ["x", "wanted"], ["flat"]),
        helper.make_node("Slice", ["s", "one", "three", "axes"], ["inner"]),
        helper.make_node("Cast", ["inner"], ["floats"], to=1),
        helper.make_node("Mul", ["floats", "half"], ["halved"]),
        helper.make_node("Cast", ["halved"], ["halves"], to=7),
        helper.make_node("Sub", ["inner", "halves"], ["starts"]),
        helper.make_node("Slice", ["x", "starts", "inner", "two"], ["corner"]),
        helper.make_node("Range", ["zero", "n", "step"], ["row"]),
        helper.make_node("ConstantOfShape", ["inner"], ["fill"], value=numpy_helper.from_array(np.float32([7]))),
        helper.make_node("Expand", ["fill", "s"], ["sevens"]),
        helper.make_node("Add", ["x", "sevens"], ["sum"]),
    ]
    constants = {
        "axes": np.int64([0]),
        "rest": np.int64([-1]),
        "one": np.int64([1]),
        "three": np.int64([3]),
        "half": np.float32(0.5),
        "two": np.int64([1, 2]),
        "step": np.int64(1),
    }
    x = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    return nodes, {"x": x}, constants


def test_shape_chains_are_constants(x64):
    nodes, inputs, constants = flattened_but_batch()
    outputs = ["flat", "corner", "sum"]
    proto = model(nodes, inputs, outputs, constants)
    for name in ("x",):
        proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
        assert proto.graph.input[0].name == name
    function = to_jax(proto)
    for actual in (function(inputs["x"]), jax.jit(function)(inputs["x"])):
        for y, wanted in zip(actual, runtime(proto, inputs), strict=True):
            assert_same_bits(y, wanted)
    other = np.ones((5, 4, 3), np.float32)
    assert jax.eval_shape(function, other)[0].shape == (5, 12)


def test_top_k_of_constants_needs_no_x64():
    nodes = [helper.make_node("TopK", ["c", "k"], ["values", "best"]), helper.make_node("Gather", ["x", "best"], ["y"])]
    x = np.float32([10, 20, 30])
    function = to_jax(model(nodes, {"x": x}, ["y"], {"c": np.float32([3, 1, 2]), "k": np.int64([2])}))
    assert_same_bits(jax.jit(function)(x), np.float32([10, 30]))


DECIDING = {
    "Reshape": ("Reshape", ["x", "v"], {}, np.int64([4, 1])),
    "Expand": ("Expand", ["x", "v"], {}, np.int64([3, 2, 2])),
    "Slice": ("Slice", ["x", "v", "v"], {}, np.int64([0])),
    "Range": ("Range", ["v", "v", "v"], {}, np.int64(2)),
    "TopK": ("TopK", ["x", "v"], {}, np.int64([1])),
    "ConstantOfShape": ("ConstantOfShape", ["v"], {}, np.int64([2])),
    "Tile": ("Tile", ["x", "v"], {}, np.int64([2, 1])),
    "Pad": ("Pad", ["x", "v"], {}, np.int64([0, 1, 0, 1])),
    "Squeeze": ("Squeeze", ["y", "v"], {}, np.int64([0])),
    "Unsqueeze": ("Unsqueeze", ["x", "v"], {}, np.int64([0])),
    "Split": ("Split", ["x", "v"], {}, np.int64([1, 1])),
    "OneHot": ("OneHot", ["i", "v", "i"], {}, np.int64(2)),
    "Resize": ("Resize", ["x", "", "", "v"], {}, np.int64([4, 2])),
    "Col2Im": ("Col2Im", ["y", "v", "w"], {}, np.int64([2])),
}
# What decides something else, and what.
FIXING = {"Trilu": "diagonals", "CumSum": "an axis"}


@pytest.mark.parametrize("name", DECIDING)
def test_data_must_not_decide_a_shape(name):
    op_type, inputs, attributes, value = DECIDING[name]
    x = np.float32([[1, 2], [3, 4]])
    others = {"i": np.int64([0, 1]), "w": np.int64([1])}
    arrays = {n: a for n, a in {"x": x, "y": x[None], "v": value, **others}.items() if n in inputs}
    outputs = ["a", "b"] if op_type in ("Split", "TopK") else ["a"]
    node = helper.make_node(op_type, inputs, outputs, name="it", **attributes)
    function = to_jax(model([node], arrays, outputs))
    with jax.enable_x64(True):
        with pytest.raises(NotConstantError) as caught:
            jax.jit(function)(*arrays.values())
        assert f"{op_type} node 'it': " in str(caught.value)
        assert "must be a constant or follow from shapes, because it decides a shape" in str(caught.value)
        jax.block_until_ready(function(*arrays.values()))


@pytest.mark.parametrize("op_type", FIXING)
def test_data_must_not_decide_what_is_compiled(op_type):
    arrays = {"x": np.float32([[1, 2], [3, 4]]), "v": np.int64(0)}
    function = to_jax(model([helper.make_node(op_type, ["x", "v"], ["y"], name="it")], arrays, ["y"]))
    with jax.enable_x64(True):
        with pytest.raises(NotConstantError, match=f"because it decides {FIXING[op_type]}, but it depends on the data"):
            jax.jit(function)(*arrays.values())
        jax.block_until_ready(function(*arrays.values()))


# Transformations and parameters.


def test_a_border_may_be_data_and_has_a_gradient():
    node = helper.make_node("Pad", ["x", "p", "v"], ["y"])
    x, v = np.float32([1, 2]), np.float32(7)
    function = to_jax(model([node], {"x": x, "v": v}, ["y"], {"p": np.int64([2, 1])}))
    for padded in (function(x, v), jax.jit(function)(x, v)):
        assert_same_bits(padded, np.float32([7, 7, 1, 2, 7]))
    back = jax.grad(lambda x, v: function(x, v).sum(), (0, 1))(x, v)
    assert [g.tolist() for g in back] == [[1, 1], 3]


def test_what_is_added_up_placed_and_resized_has_derivatives():
    nodes = [
        helper.make_node("CumSum", ["x", "one"], ["a"], exclusive=1),
        helper.make_node("Trilu", ["a", "one"], ["b"], upper=0),
        helper.make_node("ReverseSequence", ["b", "lengths"], ["c"], time_axis=1, batch_axis=0),
        helper.make_node("MaxUnpool", ["c", "places"], ["d"], kernel_shape=[1]),
        helper.make_node("Resize", ["d", "", "scales"], ["e"], mode="cubic"),
        helper.make_node("Resize", ["e", "", "scales"], ["f"], mode="linear"),
        helper.make_node("Col2Im", ["f", "image", "two"], ["y"]),
    ]
    x = np.random.default_rng(3).standard_normal((1, 2, 3)).astype(np.float32)
    constants = {
        "one": np.int64(1),
        "lengths": np.int64([2]),
        "places": np.int64([[[5, 4, 3], [0, 1, 2]]]),
        "scales": np.float32([1, 1, 2]),
        "image": np.int64([13]),
        "two": np.int64([2]),
    }
    function = to_jax(model(nodes, {"x": x}, ["y"], constants, opset=18))
    check_grads(jax.jit(function), (x,), order=1, atol=0.05, rtol=0.05)


def test_vmap_is_a_loop():
    proto, picture = super_resolution()
    function = to_jax(proto)
    pictures = np.stack([picture, -picture, 2 * picture])
    mapped = jax.jit(jax.vmap(function))(pictures)
    for one, many in zip(pictures, mapped, strict=True):
        np.testing.assert_allclose(function(one), many, rtol=1e-5, atol=1e-6)


def test_parameters_are_a_pytree_of_some_initializers():
    table, rows = np.float32([1, 2, 3]), np.int32([0, 2])
    node = helper.make_node("Gather", ["table", "rows"], ["y"])
    function = to_jax(model([node], {}, ["y"], {"table": table, "rows": rows}))
    assert list(function.parameters) == ["table"]
    assert_same_bits(function(), np.float32([1, 3]))
    assert_same_bits(function(parameters={"rows": np.int32([1, 1])}), np.float32([2, 2]))
    doubled = jax.tree.map(lambda w: 2 * w, function.parameters)
    assert_same_bits(jax.jit(lambda p: function(parameters=p))(doubled), np.float32([2, 6]))
    many = jax.vmap(lambda p: function(parameters=p))({"table": np.stack([table, -table])})
    assert_same_bits(many, np.float32([[1, 3], [-1, -3]]))


def test_nodes_that_no_output_needs_are_not_run():
    nodes = [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Reshape", ["x", "x"], ["z"])]
    function = to_jax(model(nodes, {"x": np.int64([1])}, ["y"]))
    with jax.enable_x64(True):
        assert_same_bits(jax.jit(function)(np.int64([1])), np.int64([1]))


def test_sources_of_a_model(tmp_path):
    proto, picture = super_resolution()
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    expected = to_jax(proto)(picture)
    for source in (path, str(path), path.read_bytes()):
        assert_same_bits(to_jax(source)(picture), expected)


# Where ONNX differs from DirectML, and from errors.


def run(op_type, *inputs, opset=20, **attributes):
    node = helper.make_node(op_type, [f"x{i}" for i in range(len(inputs))], ["y"], **attributes)
    with jax.enable_x64(True):
        return run_node(node, inputs, opset=opset)[0]


def test_indices_out_of_range_read_the_nearest_and_write_nothing():
    x, far = np.float32([1, 2, 3]), np.int64([9, -9, 1])
    assert_same_bits(run("Gather", x, far), np.float32([3, 1, 2]))
    assert_same_bits(run("GatherElements", x, far), np.float32([3, 1, 2]))
    assert_same_bits(run("GatherND", x, far[:, None]), np.float32([3, 1, 2]))
    for reduction, written in (("none", 9), ("add", 11), ("mul", 18), ("min", 2), ("max", 9)):
        for op_type, i in (("ScatterElements", far), ("ScatterND", far[:, None])):
            expected = np.float32([1, written, 3])
            assert_same_bits(run(op_type, x, i, np.float32([7, 8, 9]), reduction=reduction), expected)


def test_integers_are_divided_towards_zero():
    a, b = np.int32([-7, 7, -7, 7, -6]), np.int32([2, -2, -2, 2, 3])
    assert_same_bits(run("Div", a, b), np.int32([-3, -3, 3, 3, -2]))
    node = helper.make_node("Div", ["a", "b"], ["y"])
    assert_same_bits(to_jax(model([node], {}, ["y"], {"a": a, "b": b}))(), np.int32([-3, -3, 3, 3, -2]))


@pytest.mark.parametrize("limits", [(0, 0.3, 0.1), (1, -1, -0.25), (0.5, 7, 0.7), (0, 1, 0.1), (3, 3, 1)])
def test_ranges_of_fractions_have_as_many_numbers_as_in_onnx_runtime(limits):
    constants = dict(zip(("a", "b", "c"), map(np.float32, limits), strict=True))
    proto = model([helper.make_node("Range", list(constants), ["y"])], {}, ["y"], constants)
    (expected,) = runtime(proto, {})
    actual = np.asarray(to_jax(proto)())
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)


def test_run_node_takes_one_name_twice():
    node = helper.make_node("Add", ["x", "x"], ["y"])
    assert_same_bits(run_node(node, [np.float32([1]), np.float32([1])])[0], np.float32([2]))
    with pytest.raises(OnnxError, match="the inputs must be x, x, but there are 1"):
        run_node(node, [np.float32([1])])


# Constants and data.

CUT = np.float32([-300.7, -129, -1.5, 300, 2.0**31, np.nan])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32])
def test_floats_beyond_an_integer_are_cut_alike_as_constants_and_as_data(dtype):
    node = helper.make_node("Cast", ["x"], ["y"], to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    assert_same_bits(to_jax(model([node], {}, ["y"], {"x": CUT}))(), to_jax(model([node], {"x": CUT}, ["y"]))(CUT))


@pytest.mark.exhaustive
def test_integers_that_float32_cannot_hold_are_refused_while_x64_is_off():
    x = np.int32([16777217])
    for node in (
        helper.make_node("ReduceL2", ["x"], ["y"], keepdims=0),
        helper.make_node("Shrink", ["x"], ["y"], bias=0.5, lambd=0.5),
        helper.make_node("Pow", ["x", "half"], ["y"]),
    ):
        constants = {"half": np.float32(0.5)} if "half" in node.input else {}
        function = to_jax(model([node], {"x": x}, ["y"], constants))
        with pytest.raises(TypeError, match=r"int32 must be computed with as float64, .* jax_enable_x64 is off"):
            jax.jit(function)(x)
        known = to_jax(model([node], {}, ["y"], {"x": x, **constants}))()
        with jax.enable_x64(True):
            assert_same_bits(jax.jit(function)(x), known)
    square = to_jax(model([helper.make_node("Pow", ["x", "two"], ["y"])], {"x": x}, ["y"], {"two": np.float32(2)}))
    assert_same_bits(square(np.int32([4097])), np.int32([4097**2]))


def test_what_a_size_of_minus_one_cannot_follow_from():
    empty = np.zeros((0, 3), np.float32)
    node = helper.make_node("Reshape", ["x", "shape"], ["y"], name="flat")
    function = to_jax(model([node], {"x": empty}, ["y"], {"shape": np.int64([0, -1])}))
    with pytest.raises(OnnxError, match=r"'flat': the size for -1 must follow from the others, but"):
        function(empty)


def test_inputs_of_a_list_cannot_be_left_out():
    with pytest.raises(OnnxError, match="Max node #0: it must have the input data_0, but that is left out"):
        to_jax(model([helper.make_node("Max", ["x", ""], ["y"])], {"x": np.float32([1])}, ["y"]))


def test_an_infinite_slope_has_a_derivative_where_it_does_not_count():
    x, slope = np.float32([1, 2, -1]), np.float32([np.inf, 1, 3])
    function = to_jax(model([helper.make_node("PRelu", ["x", "slope"], ["y"])], {"x": x, "slope": slope}, ["y"]))
    assert_same_bits(jax.grad(lambda x: function(x, slope).sum())(x), np.float32([1, 1, 3]))
