"""Errors of ONNX models: broken models, external data, calls and nodes, and a missing package."""

import io
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits
from onnx_building import TensorProto, helper, model, numpy_helper, onnx
from onnx_one_node import refused

import dml_jax
from dml_jax.onnx import NotConstantError, OnnxError, UnsupportedError, run_node, to_jax

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def identity(**changes):
    proto = model([helper.make_node("Identity", ["x"], ["y"], name="it")], {"x": X}, ["y"])
    for name, value in changes.items():
        getattr(proto, name).CopyFrom(value)
    return proto


make = helper.make_node

# Operators that are not done.


def test_all_unsupported_operators_are_listed_with_their_nodes():
    match = helper.make_node("RegexFullMatch", [], ["z"])
    body = helper.make_graph([match], "body", [], [helper.make_tensor_value_info("z", 1, None)])
    nodes = [
        helper.make_node("Identity", ["x"], ["a"]),
        helper.make_node("StringNormalizer", ["x"], ["b"], name="text"),
        helper.make_node("If", ["x"], ["c"], name="choice", then_branch=body, else_branch=body),
        helper.make_node("StringConcat", ["x", "x"], ["d"]),
        helper.make_node("Gather", ["x", "x"], ["e"], name="other", domain="com.example"),
        helper.make_node("Relu", [], ["f"], name="own"),
    ]
    proto = model(nodes, {"x": X}, ["a", "b", "c", "d", "e", "f"])
    proto.functions.append(onnx.FunctionProto(name="Relu", domain="", node=[match], output=["z"]))
    error = refused(proto, "the model must have only operators that are supported here, ", UnsupportedError)
    assert "Gather" in error.supported
    assert error.nodes == (
        "StringNormalizer (node 'text')",
        "If node 'choice': else_branch: RegexFullMatch (node #0)",
        "If node 'choice': then_branch: RegexFullMatch (node #0)",
        "StringConcat (node #3)",
        "com.example::Gather (node 'other')",
        "Relu node 'own': RegexFullMatch (node #0)",
    )
    assert str(error).splitlines()[1:] == [
        "  StringNormalizer (node 'text')",
        "  RegexFullMatch (3 nodes, such as If node 'choice': else_branch: #0 and If node 'choice': then_branch: #0)",
        "  StringConcat (node #3)",
        "  com.example::Gather (node 'other')",
    ]


MICROSOFT = "com.microsoft"
ATTENTION = {"num_heads": 1, "domain": MICROSOFT}
GROUPED = ATTENTION | {"kv_num_heads": 1}
OPTIONS = {
    "Cast with to=8": make("Cast", ["x"], ["y"], to=TensorProto.STRING),
    "SimplifiedLayerNormalization with stash_type=10": make(
        "SimplifiedLayerNormalization", ["x", "x"], ["y"], stash_type=TensorProto.FLOAT16
    ),
    "com.microsoft::Attention with do_rotary=1": make("Attention", ["x", "x"], ["y"], do_rotary=1, **ATTENTION),
    "com.microsoft::FusedConv with activation=Elu": make(
        "FusedConv", ["x", "x"], ["y"], activation="Elu", domain=MICROSOFT
    ),
    "com.microsoft::FusedMatMulActivation with activation=Relu": make(
        "FusedMatMulActivation", ["x", "x"], ["y"], activation="Relu", domain=MICROSOFT
    ),
    "com.microsoft::GroupQueryAttention with k_scale=s": make(
        "GroupQueryAttention", ["x", *[""] * 4, "x", "x", *[""] * 5, "s"], ["y"], **GROUPED
    ),
    "com.microsoft::GroupQueryAttention with k_quant_type=PER_TENSOR, kv_cache_bit_width=8": make(
        "GroupQueryAttention",
        ["x", *[""] * 4, "x", "x"],
        ["y"],
        kv_cache_bit_width=8,
        k_quant_type="PER_TENSOR",
        **GROUPED,
    ),
    "com.microsoft::MatMulNBits with bits=3": make(
        "MatMulNBits", ["x"] * 3, ["y"], K=1, N=1, bits=3, block_size=16, domain=MICROSOFT
    ),
    "com.microsoft::MatMulNBits with weight_prepacked=1": make(
        "MatMulNBits", ["x"] * 3, ["y"], K=1, N=1, block_size=16, weight_prepacked=1, domain=MICROSOFT
    ),
    "com.microsoft::MultiHeadAttention with cache_indirection=s": make(
        "MultiHeadAttention", ["x", *[""] * 8, "s"], ["y"], **ATTENTION
    ),
    "com.microsoft::QAttention with past_present_share_buffer=1": make(
        "QAttention", ["x"] * 5, ["y"], past_present_share_buffer=1, **ATTENTION
    ),
    "com.microsoft::RotaryEmbedding with scale=2.0": make(
        "RotaryEmbedding", ["x"] * 4, ["y"], scale=2.0, domain=MICROSOFT
    ),
}


@pytest.mark.parametrize("option", OPTIONS)
def test_options_that_are_not_supported_are_refused_before_any_call(option):
    proto = model([OPTIONS[option]], {"x": X, "s": X}, ["y"])
    assert refused(proto, "", UnsupportedError).nodes == (f"{option} (node #0)",)


def test_a_line_counts_the_nodes_of_an_operator_that_is_not_supported():
    names = {"StringConcat": 20, "StringNormalizer": 1, "StringSplit": 2}
    nodes = [make(op, ["x"], [f"{op}{i}"], name=f"{op} (node {i})") for op, n in names.items() for i in range(n)]
    error = refused(model(nodes, {"x": X}, [node.output[0] for node in nodes]), "", UnsupportedError)
    assert len(error.nodes) == 23
    assert str(error).splitlines()[1:] == [
        "  StringConcat (20 nodes, such as 'StringConcat (node 0)' and 'StringConcat (node 1)')",
        "  StringNormalizer (node 'StringNormalizer (node 0)')",
        "  StringSplit (2 nodes, 'StringSplit (node 0)' and 'StringSplit (node 1)')",
    ]


def test_maps_and_strings_are_no_arrays():
    proto = identity()
    proto.graph.input[0].type.Clear()
    refused(
        proto, "input 'x': it must be a tensor, a sequence of tensors, or an optional one of these, but it is of no"
    )
    proto.graph.input[0].type.map_type.key_type = TensorProto.INT64
    refused(proto, "or an optional one of these, but it is map_type")
    proto.graph.input[0].CopyFrom(helper.make_tensor_sequence_value_info("x", TensorProto.STRING, None))
    refused(proto, "input 'x': the elements must be numbers, but they are strings")
    proto.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.STRING, [2]))
    refused(proto, "input 'x': the elements must be numbers, but they are strings")
    proto.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", 99, [2]))
    refused(proto, "input 'x': the element type must be one that onnx")


# Models that break rules.


def nodes_with(*nodes, opset=20):
    return model(nodes, {"x": X}, ["y"], opset=opset)


BROKEN = {
    "newer": (nodes_with(make("Relu", ["x"], ["y"]), opset=999), "the opset version must be in [1, "),
    "too_old": (
        nodes_with(make("Where", ["x"] * 3, ["y"]), opset=8),
        "must exist in opset 8, but it does from opset 9",
    ),
    "undefined": (nodes_with(make("Relu", ["z"], ["y"])), "every input must exist before the node, but 'z' does not"),
    "cycle": (
        nodes_with(make("Add", ["x", "b"], ["a"]), make("Relu", ["a"], ["b"]), make("Relu", ["a"], ["y"])),
        "no node may need its own output, through others neither, but there is a cycle of Add node #0, Relu node #1",
    ),
    "twice": (
        nodes_with(make("Relu", ["x"], ["y"]), make("Relu", ["x"], ["y"])),
        "Relu node #1: an output must have a new name, but 'y' exists",
    ),
    "no_result": (nodes_with(make("Relu", ["x"], ["z"])), "every output of the graph must be computed, but 'y' is not"),
    "unknown_attribute": (
        nodes_with(make("Flatten", ["x"], ["y"], axes=1)),
        "the attributes of Flatten-13 must be among axis, but there is 'axes'",
    ),
    "old_attribute": (nodes_with(make("Squeeze", ["x"], ["y"], axes=[0])), "must be among none, but there is 'axes'"),
    "attribute_type": (
        nodes_with(make("Flatten", ["x"], ["y"], axis=1.5)),
        "attribute 'axis' must be of type INT, but it is FLOAT",
    ),
    "missing_attribute": (nodes_with(make("Concat", ["x"], ["y"])), "it must have the attribute 'axis', but that is"),
    "too_few": (nodes_with(make("Gather", ["x"], ["y"])), "it must have from 2 to 2 inputs, but it has 1"),
    "too_many": (nodes_with(make("Relu", ["x", "x"], ["y"])), "it must have from 1 to 1 inputs, but it has 2"),
    "left_out": (nodes_with(make("Gather", ["", "x"], ["y"])), "it must have the input data, but that is left out"),
    "no_outputs": (model([make("Relu", ["x"], ["y"])], {"x": X}, []), "the graph must have an output, but it has none"),
    "empty": (b"", "is not an ONNX model: it must have a graph and an opset version, and lacks one"),
    "garbage": (b"\x0a\xff\xff not a model", "is not an ONNX model"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_model_that_breaks_a_rule(name):
    refused(*BROKEN[name])


def test_two_inputs_of_one_name():
    proto = identity()
    proto.graph.input.append(proto.graph.input[0])
    refused(proto, "every input must have a name of its own, but they are 'x', 'x'")


def test_two_initializers_of_one_name():
    """In a branch of an If too; ONNX Runtime takes the last one of a model."""
    two = [numpy_helper.from_array(np.float32(value), "w") for value in (1, 2)]
    proto = model([make("Add", ["x", "w"], ["y"])], {"x": X}, ["y"])
    proto.graph.initializer.extend(two)
    refused(proto, "every initializer must have a name of its own, but there are 2 'w'")
    branch = proto.graph
    choose = model([make("If", ["c"], ["y"], then_branch=branch, else_branch=branch)], {"c": np.bool_(True)}, ["y"])
    refused(choose, "If node #0: else_branch: every initializer must have a name of its own, but there are 2 'w'")


def test_a_sparse_initializer():
    proto = identity()
    proto.graph.sparse_initializer.add().values.name = "s"
    refused(proto, "every initializer must be dense, but 's' is sparse")


def test_damaged_tensors():
    def with_tensor(**fields):
        proto = identity()
        proto.graph.initializer.append(TensorProto(name="w", **fields))
        return proto

    refused(with_tensor(data_type=1, dims=[3], raw_data=b"\0" * 8), "tensor 'w' is damaged: ")
    refused(with_tensor(data_type=1, dims=[3], float_data=[1]), "tensor 'w' is damaged: ")
    refused(with_tensor(data_type=1, dims=[-1], raw_data=b""), "every size must be at least 0, but the shape is (-1,)")
    refused(with_tensor(data_type=8, dims=[1], string_data=[b"a"]), "the elements must be numbers")


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files_are_refused_in_words(seed):
    """Bytes changed at random: the model is taken or refused, never anything else."""
    from onnx_random import RandomGraph

    graph = RandomGraph(seed, 13)
    graph.grow(40)
    content = graph.model().SerializeToString()
    rng, outcomes = np.random.default_rng(seed), set()
    for _ in range(150):
        damaged = bytearray(content)
        for place in rng.integers(len(content), size=rng.integers(1, 4)):
            damaged[place] = rng.integers(256)
        if rng.random() < 0.2:
            del damaged[int(rng.integers(len(damaged))) :]
        try:
            to_jax(bytes(damaged))
            outcomes.add("taken")
        except dml_jax.ConstraintError:
            outcomes.add("refused")
    assert outcomes == {"taken", "refused"}


# Files.


def test_files_that_cannot_be_read(tmp_path):
    refused(tmp_path / "none.onnx", "none.onnx: cannot be read: No such file or directory")
    refused(tmp_path, ": cannot be read: Is a directory")
    (tmp_path / "text.onnx").write_text("hello")
    refused(tmp_path / "text.onnx", "text.onnx: is not an ONNX model")
    with pytest.raises(dml_jax.DataTypeError, match=r"must be a path, bytes or an onnx\.ModelProto, but it is BytesIO"):
        to_jax(io.BytesIO())


@pytest.fixture
def external(tmp_path):
    """A model whose weights lie in a file beside it; returns its path, and a function that changes the entry."""
    weights = np.arange(6, dtype=np.float32)
    proto = model([make("Add", ["w", "w"], ["y"])], {}, ["y"], {"w": weights})
    folder = tmp_path / "model"
    folder.mkdir()
    path = folder / "model.onnx"
    (folder / "weights.bin").write_bytes(b"head" + weights.tobytes())

    def write(**entries):
        tensor = proto.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.ClearField("external_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in ({"location": "weights.bin", "offset": 4, "length": 24} | entries).items():
            tensor.external_data.add(key=key, value=str(value))
        path.write_bytes(proto.SerializeToString())
        return path

    return write


def test_external_data_is_read(external):
    np.testing.assert_array_equal(to_jax(external())(), 2 * np.arange(6))
    with pytest.raises(OnnxError, match="cannot be read: No such file"):
        to_jax(external().read_bytes())  # bytes have no folder; the current one has no such file


ENTRIES = {
    "missing": ({"location": "none.bin"}, "tensor 'w': its file 'none.bin' cannot be read: No such file"),
    "short": ({"offset": 8}, "tensor 'w': its file must have 32 bytes, but 'weights.bin' has 28; it was cut off"),
    "wrong_length": ({"length": 20}, "float32[6] must have 24 bytes, but its entry says 20"),
    "negative": ({"offset": -4}, "offset must be an integer of at least 0, but it is '-4'"),
    "many_digits": ({"offset": "9" * 5000}, "offset must be an integer of at least 0, but it is '9999"),
    "other_digits": ({"offset": "\u0664"}, "offset must be an integer of at least 0, but it is '\u0664'"),
    "words": ({"offset": "four"}, "offset must be an integer of at least 0, but it is 'four'"),
    "above": (
        {"location": "../secret.bin"},
        "its file must lie in the folder of the model, but its location is '../sec",
    ),
    "absolute": ({"location": "/etc/hostname"}, "its file must lie in the folder of the model"),
    "no_location": ({"location": ""}, "its file must lie in the folder of the model, but its location is ''"),
    "folder": ({"location": "."}, "its file must lie in the folder of the model"),
    "link": ({"location": "link.bin"}, "its file must lie in the folder of the model, but its location is 'link.bin'"),
    "no_name": ({"location": "a\0b"}, "tensor 'w': its location 'a\\x00b' names no file"),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_external_data_that_is_wrong(external, name, tmp_path):
    entries, text = ENTRIES[name]
    (tmp_path / "secret.bin").write_bytes(bytes(100))
    path = external(**entries)
    (path.parent / "link.bin").symlink_to(tmp_path / "secret.bin")
    refused(path, text)


# Calls.


def test_inputs_that_do_not_fit():
    proto = model([make("Add", ["a", "b"], ["y"])], {"a": X, "b": X}, ["y"])
    for info in proto.graph.input:
        info.type.tensor_type.shape.dim[0].dim_param = "n"
    function = to_jax(proto)
    jax.block_until_ready(function(X, X))
    for inputs, error, text in [
        ((X,), OnnxError, "the inputs must be a, b, but b is missing"),
        ((X, X, X), OnnxError, "the inputs must be a, b, but there are 3"),
        ((X, X.astype(np.int32)), dml_jax.DataTypeError, "input 'b': its type must be float32, but it is int32"),
        ((X, X.astype(np.float64)), dml_jax.DataTypeError, "input 'b': its type must be float32, but it is float64"),
        ((X[:, :2], X), OnnxError, "input 'a': its sizes must be [n=2, 3], but they are [2, 2]"),
        ((X, X[:1]), OnnxError, "input 'b': its sizes must be [n=2, 3], but they are [1, 3]"),
        ((X, X[0]), OnnxError, "input 'b': its sizes must be [n=2, 3], but they are [3]"),
        ((X[0], X), OnnxError, "input 'a': its sizes must be [n, 3], but they are [3]"),
        ((X, X, {"w": X}), OnnxError, "but there are 3; a dict of parameters is given as parameters="),
        ((X, [[1.0]]), dml_jax.DataTypeError, "input 'b' must be an array"),
    ]:
        with pytest.raises(error) as caught:
            function(*inputs)
        assert text in str(caught.value)
        assert isinstance(caught.value, dml_jax.ConstraintError)


def test_parameters_that_do_not_fit():
    function = to_jax(model([make("Add", ["x", "w"], ["y"])], {"x": X}, ["y"], {"w": X}))
    for parameters, text in [
        ({"v": X}, "parameters must be among the initializers, w, but there is 'v'"),
        ([X], "parameters must be a dict by name, but it is list"),
        (X, "parameters must be a dict by name, but it is ndarray"),
        ({"w": X[0]}, "parameter 'w': its sizes must be [2, 3], but they are [3]"),
        ({"w": X.astype(np.int8)}, "parameter 'w': its type must be float32, but it is int8"),
    ]:
        with pytest.raises(dml_jax.ConstraintError) as caught:
            function(X, parameters=parameters)
        assert text in str(caught.value)


F = np.float32


def integers(*numbers):
    return np.int64(numbers)


# Nodes whose inputs contradict each other: operator, inputs, attributes, what is said.
NODES = {
    "types": (
        "Add",
        [X, X.astype(np.int32)],
        {},
        "inputs that share type variable T must have the same type, but they are tensor(float) and",
    ),
    "type": ("Add", [X > 1, X > 1], {}, "A of Add-14 must be one of uint8, uint16"),
    "gather": ("Gather", [X, integers(0)], {"axis": 2}, "axis"),
    "gather_elements": ("GatherElements", [X, np.zeros((3, 3), np.int64)], {"axis": 1}, "differ in dimension 0"),
    "reduction": ("ScatterND", [X, integers(0)[None], X[:1]], {"reduction": "sum"}, "reduction must be none, add, mul"),
    "picture": ("DepthToSpace", [X], {"blocksize": 1}, "input must have 4 dimensions, but its shape is (2, 3)"),
    "mode": (
        "DepthToSpace",
        [X[None, None]],
        {"blocksize": 1, "mode": "RCD"},
        "mode must be DCR or CRD, but it is 'RC",
    ),
    "channels": ("DepthToSpace", [X[None, None]], {"blocksize": 2}, "must be a multiple of block_size * block_size"),
    "reshape": ("Reshape", [X, integers(4)], {}, "cannot reshape"),
    "reshape_-1": ("Reshape", [X, integers(-1, -1)], {}, "shape must be sizes, of which one may be -1"),
    "reshape_-2": ("Reshape", [X, integers(-2)], {}, "shape must be sizes, of which one may be -1, but it is [-2]"),
    "reshape_2d": ("Reshape", [X, integers(6)[None]], {}, "shape must be 1-D, but its shape is (1, 1)"),
    "reshape_0": ("Reshape", [X, integers(2, 3, 0)], {}, "a 0 in shape must copy a size of data"),
    "transpose": (
        "Transpose",
        [X],
        {"perm": [0, 0]},
        "perm must hold every dimension of (2, 3) once, but it is [0, 0]",
    ),
    "squeeze": ("Squeeze", [X, integers(0)], {}, "sizes along axes must be 1, but dimension 0 of (2, 3) is not"),
    "unsqueeze": ("Unsqueeze", [X, integers(0, 0)], {}, "axes must differ from each other"),
    "concat": ("Concat", [X], {"axis": 2}, "axis must be in [-2, 1], but it is 2"),
    "split": ("Split", [X, integers(1, 2)], {}, "the parts must be 1 and add up to 2, but they are [1, 2]"),
    "slice": ("Slice", [X, integers(0), integers(1), integers(0), integers(0)], {}, "steps not 0"),
    "expand": ("Expand", [X, integers(2, 2)], {}, "broadcast"),
    "tile": ("Tile", [X, integers(2)], {}, "repeats must be a count for each dimension of (2, 3), but it is [2]"),
    "pads": ("Pad", [X, integers(1)], {}, "pads must be 4 numbers, two per axis, but they are [1]"),
    "pad_mode": ("Pad", [X, integers(0, 0, 0, 0)], {"mode": "mirror"}, "mode must be one of constant, reflect, edge"),
    "pad_all": ("Pad", [X, integers(-3, 0, 0, 0)], {}, "negative pads must leave a size of at least 0"),
    "sizes": ("ConstantOfShape", [integers(-1)], {}, "input must be sizes of at least 0, but it is [-1]"),
    "range": ("Range", [np.int64(0), np.int64(1), np.int64(0)], {}, "delta must not be 0, but it is"),
    "range_inf": ("Range", [F(0), F(np.inf), F(1)], {}, "cannot convert float infinity to integer"),
    "top_k": ("TopK", [X, integers(4)], {}, "k must be in [0, the size of input along axis], but it is 4"),
    "top_k_axis": ("TopK", [X, integers(1)], {"axis": 2}, "axis must be in [-input.rank, input.rank), but it is 2"),
    "one_k": ("TopK", [X, integers(1, 2)], {}, "k must be one number, but it is [1, 2]"),
    "one_hot": ("OneHot", [integers(1), F(2), X], {}, "values must hold two elements, [off, on], but its shape is"),
    "one_hot_axis": ("OneHot", [integers(1), F(2), X[0]], {"axis": 2}, "axis must be in [-2, 1], but it is 2"),
    "eye": ("EyeLike", [X[0]], {}, "input must have 2 dimensions, but its shape is (3,)"),
    "trilu": ("Trilu", [X[0]], {}, "input must have at least 2 dimensions, but its shape is (3,)"),
    "cum_sum": ("CumSum", [X, np.int64(2)], {}, "axis must be in [-input.rank, input.rank), but it is 2"),
    "reverse": (
        "ReverseSequence",
        [X, integers(1, 1)],
        {},
        "batch_axis and time_axis must be 0 and 1 of input, and sequence_lens have a length per batch, but they are 1",
    ),
    "unpool": (
        "MaxUnpool",
        [X[None], integers(1)],
        {"kernel_shape": [1, 1]},
        "kernel_shape, strides and pads must fit",
    ),
    "unpool_indices": (
        "MaxUnpool",
        [X[None], integers(1)],
        {"kernel_shape": [1]},
        "indices.sizes must equal input.sizes",
    ),
    "unpool_sizes": (
        "MaxUnpool",
        [X[None], integers(*range(6)).reshape(1, 2, 3), integers(3)],
        {"kernel_shape": [1]},
        "output_shape must have 3 sizes, but it is [3]",
    ),
    "col2im": (
        "Col2Im",
        [X[None], integers(3), integers(2)],
        {"pads": [1]},
        "pads must be 2 numbers, two per dimension",
    ),
    "col2im_windows": ("Col2Im", [X[None], integers(3), integers(2)], {}, "input must have a column per window"),
    "resize": ("Resize", [X], {}, "there must be 2 scales or sizes, but there are 0 and 0"),
    "resize_mode": (
        "Resize",
        [X],
        {"mode": "fourier"},
        "mode must be nearest, linear or cubic, and",
    ),
    "resize_law": ("Resize", [X], {"coordinate_transformation_mode": "half"}, "coordinate_transformation_mode must be"),
    "resize_scales": ("Resize", [X, X[0, :0], F([0, 1])], {}, "scales must be positive and finite, but they are"),
    "resize_nothing": (
        "Resize",
        [X[:, :0], X[0, :0], X[0, :0], integers(2, 3)],
        {"mode": "cubic"},
        "but there is 3, and",
    ),
    "resize_huge": (
        "Resize",
        [X, X[0, :0], F([1, 1e15])],
        {"mode": "cubic"},
        "sizes must be in [0, 2**27) where they change, and 0 where",
    ),
    "resize_roi": (
        "Resize",
        [X, X[0, :1], F([1, 1])],
        {"coordinate_transformation_mode": "tf_crop_and_resize"},
        "roi must be 4 finite numbers, starts and ends, but it is [0.0]",
    ),
    "resize_policy": (
        "Resize",
        [X, X[0, :0], X[0, :0], integers(1, 1)],
        {"keep_aspect_ratio_policy": "stretched"},
        "keep_aspect_ratio_policy must be stretch, not_larger or not_smaller, but it is 'stretched'",
    ),
    "gemm_rank": ("Gemm", [X[None], X], {}, "a and b must have 2 dimensions, but their shapes are (1,"),
    "gemm_added": ("Gemm", [X, X.T, np.float32([1, 2, 3, 4, 5, 6, 7])], {}, "c must broadcast to ("),
    "gemm_inner": ("Gemm", [X, X[:, :1]], {}, "a must have as many columns as b rows"),
    "gemm_whole": (
        "Gemm",
        [np.int32([[1]]), np.int32([[2]])],
        {"alpha": 0.5},
        "must be whole numbers, but they are 0.5",
    ),
    "matmul_inner": ("MatMul", [X, X[:0]], {}, "MatMul node"),
    "conv_rank": ("Conv", [X, X], {}, "x and w must have one rank of at least 3"),
    "conv_group": ("Conv", [X[None], X[None]], {"group": 2}, "channels must fit group: 2 * w.shape[1] = x.shape[1]"),
    "conv_strides": ("Conv", [X[None], X[None]], {"strides": [0]}, "strides must be 1 numbers of at least 1"),
    "conv_pads": ("Conv", [X[None], X[None]], {"pads": [1]}, "pads must be 2 numbers, two per dimension"),
    "conv_auto": ("Conv", [X[None], X[None]], {"auto_pad": "SAME"}, "auto_pad must be NOTSET, SAME_UPPER"),
    "flatten": ("Flatten", [X], {"axis": 3}, "axis must be in [-2, 2], but it is 3"),
    "constant": ("Constant", [], {"value_int": 1, "value_float": 1.0}, "a constant must have one attribute"),
    "broadcast": ("Add", [X, X[:, :2]], {}, "Incompatible shapes for broadcasting"),
}


@pytest.mark.parametrize("name", NODES)
def test_a_node_that_cannot_be_run_is_named(name):
    op_type, inputs, attributes, text = NODES[name]
    outputs = ["y", "z"] if op_type == "TopK" else ["y"]
    node = make(op_type, [f"x{i}" for i in range(len(inputs))], outputs, name="it", **attributes)
    with jax.enable_x64(True), pytest.raises(dml_jax.ConstraintError) as caught:
        run_node(node, inputs, opset=20)
    assert str(caught.value).startswith(f"{op_type} node 'it': ")
    assert text in str(caught.value)


def test_a_type_of_newer_versions_names_the_opset_that_has_it():
    """torch writes convolutions of bfloat16 in opset 20; ONNX has them from 22 on."""
    x, w = (np.ones((1, 1, 3), jnp.bfloat16),) * 2
    node = make("Conv", ["x", "w"], ["y"])
    cure = "but it is bfloat16, which Conv-22 takes: export with opset 22 or newer"
    with pytest.raises(OnnxError, match=cure):
        run_node(node, [x, w], opset=20)
    assert run_node(node, [x, w], opset=22)[0].dtype == jnp.bfloat16
    with pytest.raises(OnnxError, match=r"but it is int8$"):  # of no version
        run_node(node, [x.astype(np.int8), w], opset=20)


def test_limited_broadcasting_is_asked_for():
    with pytest.raises(OnnxError, match="without broadcast the shapes must be equal, but they are"):
        run_node(make("Add", ["a", "b"], ["y"]), [X, X[0]], opset=6)


# The package.


def python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def test_the_library_does_not_import_onnx():
    done = python("import sys, dml_jax; assert not {'onnx', 'dml_jax.onnx'} & set(sys.modules)")
    assert done.returncode == 0, done.stderr


def test_without_onnx_the_package_says_what_to_install(tmp_path):
    (tmp_path / "onnx.py").write_text("raise ImportError('no onnx')")
    done = python("import dml_jax.onnx", PYTHONPATH=str(tmp_path))
    last = "ImportError: dml_jax.onnx needs onnx; install it in a clone: pip install '.[onnx]'"
    assert done.stderr.strip().splitlines()[-1] == last
    done = subprocess.run(
        [sys.executable, "-m", "dml_jax", "check", "m.onnx"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.strip() == "dml-jax: " + last.removeprefix("ImportError: ")


def test_errors_survive_pickling():
    import pickle

    error = UnsupportedError(["a"], ["b"])
    again = pickle.loads(pickle.dumps(error))
    assert (again.nodes, str(again)) == (error.nodes, str(error))
    fold = to_jax(model([make("Reshape", ["x", "n"], ["y"])], {"x": X, "n": np.int64([1, 6])}, ["y"]))
    with jax.enable_x64(True), pytest.raises(NotConstantError) as caught:
        jax.jit(fold)(X, np.int64([1, 6]))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_every_type_is_read():
    """Every type that ONNX has and JAX moves, from an initializer and back."""
    checked = 0
    for number in TensorProto.DataType.values():
        name = TensorProto.DataType.Name(number)
        if name in ("UNDEFINED", "STRING") or name.startswith("FLOAT6"):  # which no operator takes
            continue
        dtype = helper.tensor_dtype_to_np_dtype(number)
        array = np.array([0, 1, 1], dtype)
        proto = model([make("Identity", ["x"], ["y"])], {}, ["y"], {"x": array}, opset=onnx.defs.onnx_opset_version())
        with jax.enable_x64(True):
            y = np.asarray(to_jax(proto)())
        assert_same_bits(y, array)
        assert numpy_helper.from_array(array).data_type == number
        checked += 1
    assert checked >= 20
