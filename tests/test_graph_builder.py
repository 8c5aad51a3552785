"""GraphBuilder: graphs by method calls, inferred outputs, errors, and help()."""

import inspect
import pickle
import pydoc
import re
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import strided_cases
from catalogue_cases import DESCS, STRUCTS
from operator_cases import f32, u8
from operators import test_binary, test_unary

from dml_jax import (
    ConstraintError,
    DataTypeError,
    GraphBuilder,
    GraphDesc,
    TensorDesc,
    TensorFlags,
    TopK1Desc,
    compile_operator,
)
from dml_jax.catalogue import STRUCTS as CATALOGUE
from dml_jax.core.structs.struct_rules import tensors_in
from dml_jax.graphs.builder import OneOrSeveralOutputs, SeveralOutputs

# The structs whose outputs do not follow from the rest: all that must be given of each.
GIVEN = {
    "CAST": {"output": "data_type"},
    "SLICE_GRAD": {"output_gradient": "sizes"},
    "SPLIT": {"outputs": "sizes"},
    "RESAMPLE": {"output": "sizes"},
    "RESAMPLE1": {"output": "sizes"},
    "RESAMPLE2": {"output": "sizes"},
    "RESAMPLE3": {"output": "sizes"},
    "RESAMPLE_GRAD": {"output_gradient": "sizes"},
    "RESAMPLE_GRAD1": {"output_gradient": "sizes"},
    "FOLD": {"output": "sizes"},
    "MAX_UNPOOLING": {"output": "sizes"},
    "ONE_HOT": {"output": "sizes"},
    "FILL_VALUE_CONSTANT": {"output": "sizes"},
    "FILL_VALUE_SEQUENCE": {"output": "sizes"},
    "DIAGONAL_MATRIX": {"output": "both"},
    "RANDOM_GENERATOR": {"output": "sizes"},
    "ROI_ALIGN": {"output": "sizes"},
    "ROI_ALIGN1": {"output": "sizes"},
    "AVERAGE_POOLING_GRAD": {"output_gradient": "sizes"},
    "DYNAMIC_QUANTIZE_LINEAR": {"output": "data_type"},
}
# Where a zero point decides the type, which may be left out.
QUANTIZED = (
    "ELEMENT_WISE_QUANTIZE_LINEAR",
    "ELEMENT_WISE_QUANTIZED_LINEAR_ADD",
    "QUANTIZE",
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY",
    "QUANTIZED_LINEAR_CONVOLUTION",
    "QUANTIZED_LINEAR_AVERAGE_POOLING",
)
ELEMENTWISE = (*test_binary.STRUCTS, *test_unary.STRUCTS)
# Where DirectML takes other types than those that follow, for results of comparisons, or other sizes: fewer columns,
# less than the strides reach, or more.
MAY_DIFFER = {
    **{struct.name: {"output": "data_type"} for struct in ELEMENTWISE if "output" in struct.levels[0].types},
    "NONZERO_COORDINATES": {"output_coordinates": "sizes"},
    "SLICE1": {"output": "sizes"},
    "CONVOLUTION": {"output": "sizes"},
    # Leading ones.
    **{
        f"MULTIHEAD_ATTENTION{n}": {"output": "sizes", "output_present_key": "both", "output_present_value": "both"}
        for n in ("", "1")
    },
    **{name: {"output": "data_type"} for name in QUANTIZED},
}
PICTURE = f32(1, 4, 8, 8)


def test_its_repr_says_what_it_has():
    graph = GraphBuilder()
    graph.space_to_depth(graph.input("x", PICTURE), block_size=2)
    assert repr(graph) == "GraphBuilder(x: FLOAT32[1,4,8,8]) of 1 nodes"


@pytest.mark.parametrize(("order", "name"), {"DCR": "DEPTH_COLUMN_ROW", "CRD": "COLUMN_ROW_DEPTH"}.items())
@pytest.mark.parametrize("operator", ["depth_to_space1", "space_to_depth1"])
def test_orders_are_taken_under_onnx_names(operator, order, name):
    def built(order):
        graph = GraphBuilder()
        return graph.build({"y": getattr(graph, operator)(graph.input("x", PICTURE), block_size=2, order=order)})

    assert built(order) == built(name)
    (node,) = built(order).nodes.values()
    assert type(node)(node.input, node.output, 2, order) == node
    assert node.order.name == name


def said(tensor, what):
    """What a call says of an output: its data type, its sizes, or (data type, sizes)."""
    both = tensor.data_type, tensor.sizes
    return both if what == "both" else getattr(tensor, what)


def outputs_of(desc, given):
    """The outputs as keywords, those of arrays as lists; of those that may be left out and are not, the data type."""
    optional = {name: "data_type" for name in desc.output_names() if desc.fields()[name].is_optional}
    values = {name: (getattr(desc, name), what) for name, what in (optional | given).items() if getattr(desc, name)}
    return {
        name: [said(one, what) for one in value] if isinstance(value, tuple) else said(value, what)
        for name, (value, what) in values.items()
    }


def rebuilt(desc, outputs):
    """The graph of one node: the operator again, its outputs left out but for those given."""
    graph = GraphBuilder()
    inputs = {port: graph.input(port, tensor) for port, tensor in desc.input_ports().items()}
    attributes = {name: value for name, value in desc.operands().items() if name not in desc.tensor_names()}
    method = getattr(graph, desc.operator_type.lower())
    made = method(**desc.by_field(inputs), **attributes, **outputs, name="node")
    return graph.build(made if isinstance(made, tuple) else [made])


def plain(desc):
    """The descriptor with packed outputs."""
    outputs = {
        name: tuple(replace(one, strides=None, total_tensor_size_in_bytes=None) for one in tensors_in(value))
        for name in desc.output_names()
        if (value := getattr(desc, name)) is not None
    }
    fields = desc.fields()
    return replace(desc, **{name: value if fields[name].is_array else value[0] for name, value in outputs.items()})


# Every operator.


@pytest.mark.parametrize("desc", DESCS.values(), ids=DESCS)
def test_every_struct_is_written_by_its_method(desc):
    name = desc.operator_type
    given = GIVEN.get(name, {}) | MAY_DIFFER.get(name, {})
    graph = rebuilt(desc, outputs_of(desc, given))
    assert dict(graph.nodes) == {"node": desc}
    assert graph.inputs == desc.input_ports()
    assert [*graph.outputs.values()] == [*desc.output_ports().values()]


@pytest.mark.parametrize("struct", STRUCTS.values(), ids=STRUCTS)
def test_outputs_of_random_descriptors_follow_from_the_rest(struct, exhaustive):
    given = GIVEN.get(struct.name, {}) | MAY_DIFFER.get(struct.name, {})
    for number in range(20 if exhaustive else 5):
        desc = plain(strided_cases.make(struct, number).desc)
        if struct.name in ("TOP_K", "TOP_K1"):  # UINT64 in some of them
            given = {"output_index": "data_type"}
        if struct.name in ("ARGMAX", "ARGMIN"):  # likewise
            given = {"output": "data_type"}
        if struct.name == "REDUCE" and desc.function.name.startswith("ARG"):  # other indices than UINT32 in some
            given = {"output": "data_type"}
        elif struct.name == "REDUCE":
            given = {}
        if struct.name == "ROI_ALIGN_GRAD":  # whose input may be left out
            given = {"output_gradient": "sizes"}
        if struct.name == "DIAGONAL_MATRIX1":  # whose input may be left out
            given = {} if desc.input else {"output": "sizes"}
        assert rebuilt(desc, outputs_of(desc, given)).nodes["node"] == desc, number


@pytest.mark.parametrize("name", GIVEN)
def test_an_output_that_does_not_follow_is_asked_for_by_name(name):
    desc, wanted = DESCS[name], GIVEN[name]
    (output,) = wanted
    with pytest.raises(ConstraintError) as caught:
        rebuilt(desc, {})
    assert re.search(rf"{desc.directml_names()[output]} must be given.* {output}=", str(caught.value))
    assert str(caught.value).startswith(f"node 'node': {name}: ")
    whole = getattr(desc, output)
    assert rebuilt(desc, outputs_of(desc, {}) | {output: whole}).nodes["node"] == desc


def test_results_of_comparisons_are_bytes():
    graph = GraphBuilder()
    x = graph.input("x", ("FLOAT32", (2, 3)))
    for y in (graph.element_wise_logical_equals(x, x), graph.element_wise_is_nan(x), graph.element_wise_bit_count(x)):
        assert y.tensor == u8(2, 3)


def test_an_output_may_lie_elsewhere_than_packed():
    graph = GraphBuilder()
    x = graph.input("x", ("FLOAT32", (2, 3)))
    y = graph.element_wise_identity(x, output=f32(2, 3, strides=(1, 2)))
    assert y.tensor.strides == (1, 2)
    with pytest.raises(ConstraintError, match=r"OutputTensor.Sizes must equal InputTensor.Sizes"):
        graph.element_wise_identity(x, output=(3, 2))


@pytest.mark.parametrize("struct", STRUCTS.values(), ids=STRUCTS)
def test_a_broken_rule_is_refused_by_the_call_in_the_words_of_the_struct(struct):
    desc, tested = struct.desc, 0
    for rule, change in struct.breaks.items():
        fields = {**desc.operands(), **change}
        graph = GraphBuilder()
        inputs = {}
        for name in desc.input_names():
            made = tuple(graph.input(f"{name}{i}", one) for i, one in enumerate(tensors_in(fields[name])))
            inputs[name] = made if desc.fields()[name].is_array else made[0] if made else None
        outputs = {name: fields[name] for name in desc.output_names()}
        rest = {name: value for name, value in fields.items() if name not in desc.tensor_names()}
        with pytest.raises(ConstraintError) as caught:
            getattr(graph, struct.name.lower())(**inputs, **rest, **outputs)
        with pytest.raises(ConstraintError) as wanted:
            replace(desc, **change)
        broken = [desc.wordings()[one.name] for one in desc.rules() if one.broken_by(fields)]
        accepted = (f"{wanted.value}".partition(", but ")[0], *(f"{struct.name}: {text}" for text in broken))
        assert str(caught.value).partition(", but ")[0].partition(": ")[2] in accepted, rule
        tested += 1
    assert tested == len(struct.breaks)


def test_a_rule_that_inputs_break_is_named_before_any_output_is_worked_out():
    graph = GraphBuilder()
    x = graph.input("x", PICTURE)
    with pytest.raises(ConstraintError) as caught:
        graph.tile(x, (1, 2), name="twice")
    assert str(caught.value) == (
        "node 'twice': TILE: Repeats must have one entry per dimension of InputTensor, "
        "but there are 2 for 4 dimensions.\n  got InputTensor=FLOAT32[1,4,8,8], Repeats=(1, 2)"
    )


def test_sizes_that_no_tensor_has_are_refused():
    graph = GraphBuilder()
    with pytest.raises(ConstraintError, match=r"TILE: OutputTensor: TENSOR: every one of Sizes must be in"):
        graph.tile(graph.input("x", PICTURE), (2**31, 1, 1, 1), output=(2**33, 4, 8, 8))


# As users of DirectMLX and pydirectml know it.


def test_a_program_makes_a_graph_that_runs():
    """Blocks of 2 x 2 in another order."""
    graph = GraphBuilder()
    x = graph.input("x", PICTURE)
    order = graph.constant(np.uint32([[[np.arange(16)[::-1]]]]).reshape(1, 1, 1, 16))
    y = graph.gather(graph.space_to_depth(x, block_size=2), order, axis=1, index_dimensions=1)
    desc = graph.build({"y": graph.depth_to_space(y, block_size=2)})
    assert isinstance(desc, GraphDesc)
    assert [*desc.outputs] == ["y"]
    array = np.arange(256, dtype=np.float32).reshape(1, 4, 8, 8)
    # Element (c, 2i+a, 2j+b) comes from channel number 15 - (8a + 4b + c), so from (3-c, 2i+1-a, 2j+1-b).
    blocks = array.reshape(4, 4, 2, 4, 2)[::-1, :, ::-1, :, ::-1].reshape(1, 4, 8, 8)
    np.testing.assert_array_equal(desc.compute(array), blocks)
    np.testing.assert_array_equal(compile_operator(desc)(array.ravel()), blocks.ravel())


def test_several_outputs_are_a_tuple_and_an_array_of_tensors_takes_a_sequence():
    graph = GraphBuilder()
    x = graph.input("x", ("INT32", (4,)))
    values, indices = graph.top_k1(x, axis=0, k=2, axis_direction="DECREASING")
    assert (values.data_type.name, indices.data_type.name, indices.sizes) == ("INT32", "UINT32", (2,))
    low, high = graph.split(x, axis=0, outputs=[(1,), (3,)])
    both = graph.join([high, low, values], axis=0)
    desc = graph.build([both, indices])
    assert [*desc.outputs] == ["output_0", "output_1"]
    joined, places = desc.compute(np.int32([5, 7, 6, 8]))
    assert joined.tolist() == [7, 6, 8, 5, 8, 7]
    assert places.tolist() == [3, 1]


def test_an_optional_tensor_may_be_none():
    graph = GraphBuilder()
    made = graph.diagonal_matrix1(None, "INT8", 7, 0, 1, output=(2, 2))
    assert graph.build([made]).compute().tolist() == [[7, 0], [0, 7]]


def test_the_data_type_of_a_filled_tensor_is_that_of_the_value():
    graph = GraphBuilder()
    x = graph.fill_value_sequence("FLOAT16", 1, 0.5, output=(3,))
    assert graph.build([graph.cast(x, output="INT8")]).compute().tolist() == [1, 1, 2]


def test_nodes_have_names():
    graph = GraphBuilder()
    x = graph.input("x", PICTURE)
    for name in ("cast_1", None, None):
        x = graph.cast(x, output="FLOAT32", name=name)
    x = graph.element_wise_identity(x, name="copy")
    assert [*graph.build([x]).nodes] == ["cast_1", "cast_2", "cast_3", "copy"]


def test_inputs_keep_their_order():
    graph = GraphBuilder()
    first, second = (graph.input(name, ("INT8", (1,))) for name in ("b", "a"))
    assert graph.build([graph.join([second, first], 0)]).compute(np.int8([1]), np.int8([2])).tolist() == [2, 1]


def test_an_expression_knows_its_tensor():
    graph = GraphBuilder()
    x = graph.input("x", PICTURE)
    assert (x.tensor, x.sizes, x.data_type) == (PICTURE, PICTURE.sizes, PICTURE.data_type)
    assert repr(x) == "Expression(FLOAT32[1,4,8,8] of 'x')"
    assert repr(graph.cast(x, output="INT8")) == "Expression(INT8[1,4,8,8] of 'cast_0'.OutputTensor)"
    assert repr(graph.constant(np.array(3, np.int8))) == "Expression(INT8[1] of 'constant_0'.Data)"


# Other ways to read the same bytes.


@pytest.mark.parametrize(
    ("tensor", "strides", "expected"),
    [
        ((3, 2), None, [[0, 1], [2, 3], [4, 5]]),
        ((3, 2), (1, 3), [[0, 3], [1, 4], [2, 5]]),
        (TensorDesc("INT16", (3, 2), (1, 3)), None, [[0, 3], [1, 4], [2, 5]]),
        ("UINT16", None, [[0, 1, 2], [3, 4, 5]]),
        (("UINT32", (3,)), None, [0x10000, 0x30002, 0x50004]),
    ],
)
def test_bytes_are_read_as_another_tensor(tensor, strides, expected):
    numbers = np.arange(6, dtype=np.int16).reshape(2, 3)
    graph = GraphBuilder()
    x, constant = graph.input("x", ("INT16", (2, 3))), graph.constant(numbers)
    copied = graph.element_wise_identity(x)
    seen = [graph.reinterpret(one, tensor, strides) for one in (x, constant, copied)]
    desc = graph.build([*(graph.element_wise_identity(one) for one in seen), seen[-1]])
    assert [result.tolist() for result in desc.compute(numbers)] == [expected] * 4
    kinds = {type(node).__name__ for node in desc.nodes.values()}
    assert kinds == {"ElementWiseIdentityDesc", "Constant"}


def test_strides_stay_where_only_the_data_type_differs():
    graph = GraphBuilder()
    x = graph.input("x", TensorDesc("FLOAT32", (2, 3), (1, 2), total_tensor_size_in_bytes=64))
    assert graph.reinterpret(x, "UINT32").tensor == TensorDesc("UINT32", (2, 3), (1, 2), total_tensor_size_in_bytes=64)
    assert graph.reinterpret(x, (6,)).tensor == TensorDesc("FLOAT32", (6,), total_tensor_size_in_bytes=64)


def test_readers_of_an_owned_input_are_owned():
    graph = GraphBuilder()
    owned = graph.input("x", f32(2, 3, flags="OWNED_BY_DML"))
    one, other = graph.element_wise_identity(owned), graph.cast(graph.reinterpret(owned, (6,)), output="INT8")
    assert not one.tensor.flags
    desc = graph.build([one, other])
    flags = [node.input.flags for node in desc.nodes.values()]
    assert flags == [TensorFlags.OWNED_BY_DML] * 2


def test_bytes_are_a_constant_of_the_tensor_that_is_given():
    graph = GraphBuilder()
    x = graph.constant(b"\1\0\2\0", ("UINT16", (2,)), name="pair")
    desc = graph.build([graph.element_wise_identity(x)])
    assert desc.compute().tolist() == [1, 2]
    assert [*desc.nodes] == ["pair", "element_wise_identity_0"]


# What is refused.


def other_builder(graph, x):
    return graph.cast(GraphBuilder().input("x", PICTURE), output="INT8")


REFUSED = {
    "CAST: InputTensor must be an Expression of this graph, but another GraphBuilder made it": other_builder,
    "CAST: InputTensor must be an Expression, which input": lambda graph, x: graph.cast(np.zeros(3), output="INT8"),
    "JOIN: InputTensors must be a sequence of Expressions": lambda graph, x: graph.join(x, 0),
    r"JOIN: InputTensors\[1\] must be an Expression": lambda graph, x: graph.join([x, PICTURE], 0),
    "TILE: takes input, repeats, and output, name by name, but 'repeat' is none of them; did you mean 'repeats'": (
        lambda graph, x: graph.tile(x, repeat=(1, 1, 1, 1))
    ),
    "TILE: takes input, repeats, .* but missing a required argument: 'repeats'": lambda graph, x: graph.tile(x),
    "TILE: takes input, repeats, .* but too many positional": lambda graph, x: graph.tile(x, PICTURE, (1, 1, 1, 1)),
    "TILE: Repeats must be a sequence of integers, but it is 2": lambda graph, x: graph.tile(x, 2),
    "CAST: OutputTensor: DataType must be one of .* but it is 'FLOAT'": lambda graph, x: graph.cast(x, output="FLOAT"),
    r"SPLIT: OutputTensors\[1\]: TENSOR: Sizes\[0\] must be": lambda graph, x: graph.split(
        x, 0, outputs=[(1,), (1.5,)]
    ),
    r"the sizes of OutputTensors must be given, such as outputs=\[\(1, 4\), ...\]": (
        lambda graph, x: graph.split(x, 0, outputs=["FLOAT32"])
    ),
    "every name must be a name of its own, but 'x' is taken": lambda graph, x: graph.input("x", PICTURE),
    "every name must be a name of its own, but 'one' is taken": (
        lambda graph, x: [graph.cast(x, output="INT8", name="one") for _ in range(2)]
    ),
    "name must be a string that is not empty, but it is ''": lambda graph, x: graph.input("", PICTURE),
    "name must be a string that is not empty, but it is FLOAT32": lambda graph, x: graph.input(PICTURE, "x"),
    r"input 'z': GraphBuilder: tensor must be a TensorDesc, or \(data type, sizes\), but it is 'INT8'": (
        lambda graph, x: graph.input("z", "INT8")
    ),
    "CONSTANT: bytes must be given a tensor": lambda graph, x: graph.constant(b"abcd"),
    r"'constant_0': CONSTANT: the data .* must fill .* it has 4 bytes and INT8\[5\] takes 5 to 8": (
        lambda graph, x: graph.constant(b"abcd", ("INT8", (5,)))
    ),
    "reinterpret: both tensors must have the same TotalTensorSizeInBytes, but they have 1024 and 512": (
        lambda graph, x: graph.reinterpret(x, "FLOAT16")
    ),
    "reinterpret: strides must stand in the TensorDesc": lambda graph, x: graph.reinterpret(x, PICTURE, (1, 1, 1, 1)),
    "reinterpret: a tensor is OWNED_BY_DML only where the input of the graph is": (
        lambda graph, x: graph.reinterpret(x, replace(PICTURE, flags="OWNED_BY_DML"))
    ),
    "reinterpret: expression must be an Expression": lambda graph, x: graph.reinterpret(PICTURE, (4, 64)),
    r"build: outputs\['y'\] must be an Expression": lambda graph, x: graph.build({"y": PICTURE}),
    "build: outputs must map names to expressions, or be a sequence": lambda graph, x: graph.build(x),
    "it is an input of the graph: put an ELEMENT_WISE_IDENTITY between them": lambda graph, x: graph.build({"y": x}),
}


@pytest.mark.parametrize("words", REFUSED)
def test_a_mistake_is_refused_with_what_would_be_accepted(words):
    graph = GraphBuilder()
    with pytest.raises(ConstraintError, match=words):
        REFUSED[words](graph, graph.input("x", PICTURE))


def test_a_refused_call_leaves_no_trace():
    graph = GraphBuilder()
    x = graph.input("x", PICTURE)
    with pytest.raises(ConstraintError):
        graph.tile(x, (0, 0, 0, 0))
    assert [*graph.build([graph.tile(x, (1, 1, 1, 2))]).nodes] == ["tile_0"]


def test_everything_must_be_read():
    graph = GraphBuilder()
    x, _ = graph.input("x", PICTURE), graph.input("unused", PICTURE)
    values, _ = graph.top_k(x, axis=3, k=1)
    graph.constant(np.int8([1]))
    with pytest.raises(ConstraintError) as caught:
        graph.build([values])
    assert "nothing reads 'unused', 'top_k_0'.OutputIndexTensor, 'constant_0'.Data" in str(caught.value)
    assert "give build() what a node makes, or leave out the call" in str(caught.value)


def test_a_builder_builds_once():
    graph = GraphBuilder()
    x = graph.input("x", PICTURE)
    outputs = [graph.cast(x, output="INT8")]
    graph.build(outputs)
    calls = (
        lambda: graph.build(outputs),
        lambda: graph.input("z", PICTURE),
        lambda: graph.constant(np.int8([1])),
        lambda: graph.reinterpret(x, (256,)),
        lambda: graph.cast(x, output="INT8"),
    )
    for again in calls:
        with pytest.raises(ConstraintError, match="begin with another one"):
            again()


def test_a_refused_graph_can_be_mended():
    graph = GraphBuilder()
    values, indices = graph.top_k(graph.input("x", PICTURE), axis=3, k=1)
    with pytest.raises(ConstraintError):
        graph.build([values])
    assert len(graph.build([values, indices]).outputs) == 2


# What help() and editors show.


def test_an_unknown_operator_is_named_with_the_nearest_one():
    with pytest.raises(AttributeError, match="GraphBuilder has no operator 'gatherr'; did you mean 'gather'"):
        GraphBuilder().gatherr  # noqa: B018


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_operator_is_a_method_with_the_fields_of_its_struct(name):
    struct, method = CATALOGUE[name], getattr(GraphBuilder, name.lower())
    assert name.lower() in dir(GraphBuilder())
    assert (method.__name__, method.__qualname__) == (name.lower(), f"GraphBuilder.{name.lower()}")
    assert pickle.loads(pickle.dumps(method)) is method
    parameters = inspect.signature(method).parameters
    outputs = struct.output_names()
    assert [*parameters] == [
        "self",
        *(field for field in struct.field_names() if field not in outputs),
        *outputs,
        "name",
    ]
    assert {parameters[name].kind for name in (*outputs, "name")} == {inspect.Parameter.KEYWORD_ONLY}
    text = pydoc.plain(pydoc.render_doc(method))
    assert struct.summary() in text
    assert all(f"\n      {field}: " in text for field in struct.field_names()), text
    assert "TensorLike" in text
    assert "dml_jax.core.tensors.tensor_desc" not in text


def test_help_shows_what_directml_has():
    signature = str(inspect.signature(GraphBuilder().top_k1)).replace("'", "")
    assert signature.startswith("(input: Expression, axis: int, k: int, axis_direction: ")
    assert signature.endswith(
        "*, output_value: TensorLike | None = None, output_index: TensorLike | None = None, name: str | None = None)"
        " -> tuple[Expression, ...]"
    )
    assert f"TOP_K1 to the graph: {TopK1Desc.summary()}" in inspect.getdoc(GraphBuilder.top_k1)


def test_type_checkers_know_which_operators_return_a_tuple():
    returned = {
        name.lower(): str(inspect.signature(getattr(GraphBuilder, name.lower())).return_annotation)
        for name in CATALOGUE
    }
    assert {*get_args(SeveralOutputs)} == {name for name, text in returned.items() if text.startswith("tuple")}
    assert {*get_args(OneOrSeveralOutputs)} == {name for name, text in returned.items() if "| tuple" in text}


def test_errors_of_types_are_type_errors():
    graph = GraphBuilder()
    with pytest.raises(DataTypeError):
        graph.cast(1)
    with pytest.raises(TypeError, match="CAST"):
        graph.cast(graph.input("x", PICTURE), output="INT8", outputs=3)
