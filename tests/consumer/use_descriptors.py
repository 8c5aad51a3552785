"""Descriptors and compiled operators, as a program that is checked strictly uses them."""

from collections.abc import Mapping
from typing import Any, assert_type

import jax
import jax.numpy as jnp
import numpy as np
from untyped import on_device

from dml_jax import (
    Activation,
    ActivationEluDesc,
    ActivationSoftmax1Desc,
    AxisDirection,
    BufferSpec,
    CompiledOperator,
    Computation,
    Constant,
    ConvolutionDesc,
    ConvolutionDirection,
    ConvolutionMode,
    CumulativeProductDesc,
    CumulativeSummationDesc,
    DataType,
    DepthSpaceOrder,
    DepthToSpace1Desc,
    DepthToSpaceDesc,
    ElementWiseAdd1Desc,
    ElementWiseAddDesc,
    ElementWiseClip1Desc,
    ElementWiseClipDesc,
    Expression,
    FeatureLevel,
    GatherDesc,
    GatherElementsDesc,
    GatherND1Desc,
    GatherNDDesc,
    GemmDesc,
    GraphBuilder,
    GraphDesc,
    InterpolationMode,
    IsInfinityMode,
    JoinDesc,
    MatrixTransform,
    Memory,
    MultiheadAttentionMaskType,
    OperatorDesc,
    Padding1Desc,
    PaddingDesc,
    PaddingMode,
    QuantizationType,
    RandomGeneratorType,
    RecurrentNetworkDirection,
    ReduceDesc,
    ReduceFunction,
    RnnDesc,
    RoundingMode,
    ScatterDesc,
    ScatterElementsDesc,
    ScatterNDDesc,
    Slice1Desc,
    SpaceToDepth1Desc,
    SpaceToDepthDesc,
    TensorDesc,
    TensorFlags,
    Upsample2DDesc,
    compile_operator,
    desc_from_json,
    desc_to_json,
    draw_graph,
    graph_to_dot,
    load_model,
)
from dml_jax.descs import RandomGeneratorDesc


def main() -> None:
    """Makes every descriptor, and compiles and runs one."""
    tensors()
    computed = (*accumulations(), *products(), *elements(), *filters(), drawn(), network())
    operators = (*blocks(), *borders(), *computed, *reads(), *writes())
    for desc in (*operators, graphs(), written(), arithmetic()):
        assert_type(desc_from_json(desc_to_json(desc)), OperatorDesc[Any] | GraphDesc)
        desc.validate(FeatureLevel.FL_6_4)
    compiled()


def tensors() -> None:
    rows = TensorDesc("FLOAT32", (2, 3), strides=[5, 1], flags=TensorFlags.OWNED_BY_DML)
    assert_type(rows.data_type, DataType)
    assert_type(rows.sizes, tuple[int, ...])
    assert_type(rows.strides, tuple[int, ...] | None)
    assert_type(rows.flags, TensorFlags)
    assert_type(rows.total_tensor_size_in_bytes, int)
    assert_type(rows.guaranteed_base_offset_alignment, int)
    assert_type(rows.element_span, int)
    assert_type(rows.is_packed, bool)
    named = TensorDesc("DML_TENSOR_DATA_TYPE_UINT8", (2,)), TensorDesc("uint8", (2,))
    assert_type(named[0].data_type, DataType)
    for data_type in (DataType.INT8, np.int32, np.dtype("f4"), jnp.float32, on_device(np.zeros(1, np.int8)).dtype):
        assert_type(TensorDesc(data_type, rows.sizes).dtype, np.dtype[Any])


def blocks() -> list[OperatorDesc]:
    depth, space = TensorDesc("UINT8", (1, 8, 1, 1)), TensorDesc("UINT8", (1, 2, 2, 2))
    ordered = DepthToSpace1Desc(depth, space, 2, "DML_DEPTH_SPACE_ORDER_COLUMN_ROW_DEPTH")
    assert_type(ordered.order, DepthSpaceOrder)
    assert_type(ordered.output, TensorDesc)
    assert_type(ordered.block_size, int)
    assert_type(ordered.compute(np.zeros((1, 8, 1, 1), np.uint8)), jax.Array)
    small, large = TensorDesc("FLOAT32", (1, 1, 1, 2)), TensorDesc("FLOAT32", (1, 1, 1, 4))
    enlarged = Upsample2DDesc(small, large, scale_size=(2, 1), interpolation_mode="LINEAR")
    assert_type(enlarged.interpolation_mode, InterpolationMode)
    return [
        ordered,
        enlarged,
        SpaceToDepth1Desc(input=space, output=depth, block_size=2, order=DepthSpaceOrder.DEPTH_COLUMN_ROW),
        DepthToSpaceDesc(depth, space, 2),
        SpaceToDepthDesc(input=space, output=depth, block_size=2),
    ]


def borders() -> list[OperatorDesc]:
    row, padded = TensorDesc("INT8", (3,)), TensorDesc("INT8", (6,))
    wrapped = PaddingDesc(row, padded, "WRAP", 0.5, start_padding=[1], end_padding=(2,))
    assert_type(wrapped.padding_mode, PaddingMode)
    assert_type(wrapped.padding_value, float)
    assert_type(wrapped.start_padding, tuple[int, ...])
    return [wrapped, Padding1Desc(row, padded, PaddingMode.CONSTANT, np.int8, np.uint8(255), (1,), (2,))]


def reads() -> list[OperatorDesc]:
    table, index = TensorDesc("FLOAT32", (3, 2)), TensorDesc("INT32", (2, 1))
    gather = GatherDesc(table, TensorDesc("INT32", (1, 2)), TensorDesc("FLOAT32", (2, 2)), axis=0, index_dimensions=1)
    assert_type(gather.axis, int)
    assert_type(gather.validate("3_0"), None)
    assert_type(gather.wordings("3.0"), dict[str, str])
    assert_type(gather.operator_type, str)
    assert_type(gather.other_types, tuple[str, ...])
    assert_type(GatherDesc.input_names(), tuple[str, ...])
    assert_type(gather.compute(on_device(np.zeros((3, 2), np.float32)), np.array([[0, 2]], np.int32)), jax.Array)
    return [
        gather,
        GatherElementsDesc(table, TensorDesc("INT32", (1, 2)), TensorDesc("FLOAT32", (1, 2)), axis=0),
        GatherNDDesc(table, index, TensorDesc("FLOAT32", (2, 2)), input_dimension_count=2, indices_dimension_count=2),
        GatherND1Desc(table, index, TensorDesc("FLOAT32", (2, 2)), 2, 2, batch_dimension_count=0),
    ]


def writes() -> list[OperatorDesc]:
    table, one_row = TensorDesc("FLOAT32", (3, 2)), TensorDesc("FLOAT32", (1, 2))
    indices = TensorDesc("INT32", (1, 2))
    scatter = ScatterDesc(table, indices, one_row, table, axis=0)
    assert_type(scatter, ScatterElementsDesc)
    return [scatter, ScatterNDDesc(table, TensorDesc("INT32", (1, 1)), one_row, table, 2, 2)]


def accumulations() -> list[OperatorDesc]:
    row = TensorDesc("INT32", (4,))
    summed = CumulativeSummationDesc(row, row, 0, "DECREASING", has_exclusive_sum=True)
    assert_type(summed.axis_direction, AxisDirection)
    assert_type(summed.has_exclusive_sum, bool)
    return [summed, CumulativeProductDesc(row, row, 0, AxisDirection.INCREASING, False)]


def graphs() -> GraphDesc:
    row = TensorDesc("FLOAT32", (4,))
    reverse = Slice1Desc(row, row, (0,), (4,), (-1,))
    graph = GraphDesc(
        nodes={"one": reverse, "bias": Constant(np.zeros(4, np.float32)), "both": JoinDesc((row, row), pair(), 0)},
        edges={
            ("one", "input"): "x",
            ("both", "inputs[0]"): ("one", "output"),
            ("both", "inputs[1]"): ("bias", "output"),
            "y": ("both", "output"),
        },
        outputs={"y": pair()},
    )
    assert_type(graph.nodes, Mapping[str, OperatorDesc[Any] | Constant])
    assert_type(graph.inputs, Mapping[str, TensorDesc])
    assert_type(graph.validate("6_2"), None)
    assert_type(compile_operator(graph), CompiledOperator[Any])
    assert_type(draw_graph(graph, "reversed"), str)
    assert_type(graph_to_dot(graph), str)
    model = load_model("docs/models/gather.json")
    assert_type(model.output_names, tuple[str, ...])
    assert_type(model(), dict[str, jax.Array])
    return graph


def written() -> GraphDesc:
    graph = GraphBuilder()
    x = graph.input("x", ("FLOAT32", (1, 4, 2, 2)))
    assert_type(x, Expression)
    order = graph.constant(np.array([3, 2, 1, 0], np.uint32), ("UINT32", (1, 1, 1, 4)), name="order")
    picked = graph.gather(x, order, axis=1, index_dimensions=1)
    assert_type(picked, Expression)
    assert_type(picked.tensor, TensorDesc)
    assert_type(picked.sizes, tuple[int, ...])
    assert_type(picked.data_type, DataType)
    values, indices = graph.top_k1(graph.reinterpret(picked, (16,)), 0, 3, AxisDirection.INCREASING, name="least")
    assert_type(values, Expression)
    low, high = graph.split(values, 0, outputs=[(1,), (2,)])
    halves = graph.cast(graph.join([high, low], axis=0), output=np.float16)
    return graph.build({"values": halves, "indices": indices})


def arithmetic() -> GraphDesc:
    graph = GraphBuilder()
    x, w = graph.input("x", ("FLOAT32", (2, 3))), graph.input("w", ("FLOAT32", (3, 2)))
    y = (x @ w) ** 2 / 3 + np.float32(1)
    negative, positive, same = 2 - -y, y > 0, y.equals(x @ w)
    for one in (y, negative, positive, same):
        assert_type(one, Expression)
    assert_type(y == x, bool)
    return graph.build([negative, positive, same])


def pair() -> TensorDesc:
    return TensorDesc("FLOAT32", (8,))


def products() -> list[OperatorDesc]:
    row, matrix = TensorDesc("FLOAT32", (1, 3)), TensorDesc("FLOAT32", (3, 3))
    outer = GemmDesc(row, row, None, matrix, trans_a="TRANSPOSE", alpha=2)
    assert_type(outer.trans_a, MatrixTransform)
    assert_type(outer.c, TensorDesc | None)
    relu = Activation("ACTIVATION_LEAKY_RELU", (0.5,))
    assert_type(relu.by_name, dict[str, Any])
    total = ReduceDesc("SUM", matrix, row, axes=[0])
    assert_type(total.function, ReduceFunction)
    return [outer, total, GemmDesc(row, matrix, row, row, 0, MatrixTransform.TRANSPOSE, fused_activation=relu)]


def elements() -> list[OperatorDesc]:
    row = TensorDesc("FLOAT32", (1, 3))
    steep = ActivationEluDesc(row, row, alpha=2)
    assert_type(steep.alpha, float)
    assert_type(steep.output, TensorDesc)
    assert_type(steep.activation, Activation)
    assert_type(steep.compute(np.array([[-1, 0, 1]], np.float32)), jax.Array)
    softmax = ActivationSoftmax1Desc(row, row, axes=[1])
    assert_type(softmax.axes, tuple[int, ...])
    added = ElementWiseAdd1Desc(row, row, row, fused_activation=steep.activation)
    assert_type(added.fused_activation, Activation | None)
    clipped = ElementWiseClip1Desc(row, row, (2, 1), np.float32, min=0, max=np.float32(6))
    return [
        steep,
        softmax,
        added,
        ElementWiseAddDesc(row, row, row),
        clipped,
        ElementWiseClipDesc(row, row, None, 0, 6),
    ]


def filters() -> list[OperatorDesc]:
    row, pair, output = (TensorDesc("FLOAT32", (1, 1, n)) for n in (4, 2, 3))
    correlation = ConvolutionDesc(row, pair, None, output, "CROSS_CORRELATION", 0, (1,), (1,), (0,), (0,), (0,))
    assert_type(correlation.mode, ConvolutionMode)
    assert_type(correlation.direction, ConvolutionDirection)
    assert_type(correlation.strides, tuple[int, ...])
    mode, forward = ConvolutionMode.CONVOLUTION, ConvolutionDirection.FORWARD
    return [
        correlation,
        ConvolutionDesc(row, pair, None, output, mode, forward, [1], [1], [0], [0], [0], group_count=1),
    ]


def drawn() -> OperatorDesc[Any]:
    state, bits = (TensorDesc("UINT32", (1, 1, 1, n)) for n in (6, 4))
    desc = RandomGeneratorDesc(state, bits, None, RandomGeneratorType.PHILOX_4X32_10)
    assert_type(desc.type, RandomGeneratorType)
    others = QuantizationType.SCALE, RoundingMode.TOWARD_ZERO, IsInfinityMode.EITHER, MultiheadAttentionMaskType.NONE
    assert [*others] == [1, 1, 0, 0]
    return desc


def network() -> OperatorDesc[Any]:
    steps, one, states = (TensorDesc("FLOAT32", sizes) for sizes in ((1, 3, 1, 1), (1, 1, 1, 1), (3, 1, 1, 1)))
    desc = RnnDesc(steps, one, one, None, None, None, states, None, [Activation("ACTIVATION_TANH")], "FORWARD")
    assert_type(desc.activation_descs, tuple[Activation, ...])
    assert_type(desc.direction, RecurrentNetworkDirection)
    assert_type(desc.output_single, TensorDesc | None)
    return desc


def compiled() -> None:
    packed = TensorDesc("UINT8", (1, 1, 2, 2))
    run = compile_operator(SpaceToDepthDesc(packed, TensorDesc("UINT8", (1, 4, 1, 1)), 2))
    assert_type(run, CompiledOperator)
    assert_type(run.desc, Computation[jax.Array])
    for name, spec in run.buffers.items():
        assert_type(name, str)
        assert_type(spec, BufferSpec)
        assert_type(spec.dtype, np.dtype[Any])
        assert_type(spec.length + spec.whole_length, int)
    result = run(np.arange(4, dtype=np.uint8))
    assert_type(result, jax.Array)
    assert_type(run(np.arange(4, dtype=np.uint8), out=result), jax.Array)
    assert_type(run.prepare(bound=True), None)
    assert_type(run.as_text(), str)
    assert_type(run.memory(), Memory)
    assert_type(run.memory().allocated, int)
    assert_type(run.bytes_moved, int)
    content = run.serialize(["cpu"])
    assert_type(content, bytes)
    assert_type(CompiledOperator.deserialize(content), CompiledOperator[Any])
    owned = TensorDesc("FLOAT32", (3, 1), flags="OWNED_BY_DML")
    index, output = TensorDesc("INT32", (1, 2)), TensorDesc("FLOAT32", (2, 1))
    look_up = compile_operator(GatherDesc(owned, index, output, 0, 1), input=np.array([1, 2, 3], np.float32))
    assert_type(look_up(np.array([2, 0], np.int32)), jax.Array)
