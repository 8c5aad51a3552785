"""Serialized graphs: the two that DxDispatch's repository has or had, as text, and small ones of one node."""

import struct
from dataclasses import replace

from catalogue_cases import DESCS

from dml_jax.graphs.serialized.operator_descs import to_node
from dml_jax.graphs.serialized.records import (
    Activation,
    Attribute,
    ConstantNode,
    NamedConstant,
    OperatorNode,
    SerializedGraph,
    Tensor,
)
from dml_jax.graphs.serialized.records import AttributeKind as Kind

BYTES = {"FLOAT32": 4, "FLOAT16": 2}


def tensor(data_type, *sizes, strides=None, count=None):
    """A tensor of packed elements; with strides, `count` elements of its buffer."""
    total = BYTES[data_type]
    for size in sizes if count is None else (count,):
        total *= size
    return Tensor(f"DML_TENSOR_DATA_TYPE_{data_type}", sizes, strides, total)


def uint(name, value):
    return Attribute(name, Kind.UINT32, value)


def uints(name, *values):
    return Attribute(name, Kind.UINT_ARRAY, values)


def real(name, value):
    return Attribute(name, Kind.FLOAT32, value)


def fused(activation):
    if activation is None:  # ONNX Runtime writes no name of what is left out
        return Attribute("", Kind.ACTIVATION, None)
    return Attribute("FusedActivation", Kind.ACTIVATION, Activation(f"DML_OPERATOR_ACTIVATION_{activation}"))


def operator(name, kind, inputs, output, attributes, reads, writes):
    return OperatorNode(name, f"DML_OPERATOR_{kind}", inputs, (output,), attributes, reads, (writes,))


def named(name, number):
    """A constant by name, as ONNX Runtime names its value: by its node's number."""
    return ConstantNode(name, NamedConstant(name), (f"{name}-nodeIdx:{number}-outputIdx:0",))


def gemm_attributes(trans_b, activation):
    return uint("TransA", 0), uint("TransB", trans_b), real("Alpha", 1.0), real("Beta", 1.0), fused(activation)


ROW = tensor("FLOAT32", 1, 1, 1, 5)
# DxDispatch/models/matmul_add/Partition_0.bin
MATMUL_ADD = SerializedGraph(
    nodes=(
        named("matmul_b_tensor", 0),
        named("add_b_tensor", 1),
        operator(
            "model_output_dmlEp_0",
            "GEMM",
            (ROW, tensor("FLOAT32", 1, 1, 5, 5), ROW),
            ROW,
            gemm_attributes(0, None),
            ("model_input", "matmul_b_tensor-nodeIdx:0-outputIdx:0", "add_b_tensor-nodeIdx:1-outputIdx:0"),
            "model_output",
        ),
    ),
    input_names=("model_input",),
    output_names=("model_output",),
)


# AlexNet, float16, which the repository's history has.

# Of the nodes that have constants, the number of the first one.
FIRST = {"conv1": 0, "conv2": 5, "conv3": 10, "conv4": 13, "conv5": 16, "fc6": 21, "fc7": 24, "fc8": 27}


def constants(layer):
    return named(f"{layer}_w_0", FIRST[layer]), named(f"{layer}_b_0", FIRST[layer] + 1)


def reads(layer, value):
    return value, *(name for constant in constants(layer) for name in constant.output_names)


def image(channels, size):
    return tensor("FLOAT16", 1, channels, size, size)


def convolution(number, name, value, source, result, window, stride, padding, groups):
    (channels, size), (features, result_size) = source, result
    filters = tensor("FLOAT16", features, channels // groups, window, window)
    return operator(
        name,
        "CONVOLUTION",
        (image(channels, size), filters, tensor("FLOAT16", 1, features, 1, 1)),
        image(features, result_size),
        (
            uint("Mode", 1),
            uint("Direction", 0),
            uint("DimensionCount", 2),
            uints("Strides", stride, stride),
            uints("Dilations", 1, 1),
            uints("StartPadding", padding, padding),
            uints("EndPadding", padding, padding),
            uints("OutputPadding", 0, 0),
            uint("GroupCount", groups),
            fused("RELU"),
        ),
        reads(f"conv{number}", value),
        f"conv{number}_2",
    )


def normalization(source, value, result):
    alpha = struct.unpack("<f", struct.pack("<f", 1e-4))[0]
    attributes = uint("CrossChannel", 1), uint("LocalSize", 5), real("Alpha", alpha), real("Beta", 0.75)
    kind = "LOCAL_RESPONSE_NORMALIZATION"
    return operator("0", kind, (image(*source),), image(*source), (*attributes, real("Bias", 1.0)), (value,), result)


def pooling(source, size, value, result, end=0):
    attributes = (
        uint("DimensionCount", 2),
        uints("Strides", 2, 2),
        uints("WindowSize", 3, 3),
        uints("StartPadding", 0, 0),
        uints("EndPadding", end, end),
    )
    return operator("0", "MAX_POOLING", (image(*source),), image(source[0], size), attributes, (value,), result)


def dense(layer, name, value, inputs, outputs, activation, result):
    return operator(
        name,
        "GEMM",
        (
            tensor("FLOAT16", 1, 1, 1, inputs),
            tensor("FLOAT16", 1, 1, outputs, inputs),
            tensor("FLOAT16", 1, 1, 1, outputs, strides=(0, 0, 0, 1), count=outputs),
        ),
        tensor("FLOAT16", 1, 1, 1, outputs),
        gemm_attributes(1, activation),
        reads(layer, value),
        result,
    )


FLAT, SCORES = image(256, 6), tensor("FLOAT16", 1, 1, 1, 1000)
ALEXNET = SerializedGraph(
    nodes=(
        *(constant for layer in FIRST for constant in constants(layer)),
        convolution(1, "fused op (#0) + (#1)0", "data_0", (3, 224), (96, 54), 11, 4, 0, 1),
        normalization((96, 54), "conv1_2", "norm1_1"),
        pooling((96, 54), 26, "norm1_1", "pool1_1"),
        convolution(2, "fused op (#4) + (#5)0", "pool1_1", (96, 26), (256, 26), 5, 1, 2, 2),
        normalization((256, 26), "conv2_2", "norm2_1"),
        pooling((256, 26), 12, "norm2_1", "pool2_1"),
        convolution(3, "fused op (#8) + (#9)0", "pool2_1", (256, 12), (384, 12), 3, 1, 1, 1),
        convolution(4, "fused op (#10) + (#11)0", "conv3_2", (384, 12), (384, 12), 3, 1, 1, 2),
        convolution(5, "fused op (#12) + (#13)0", "conv4_2", (384, 12), (256, 12), 3, 1, 1, 2),
        pooling((256, 12), 6, "conv5_2", "pool5_1", end=1),
        operator(
            "0",
            "ELEMENT_WISE_IDENTITY",
            (FLAT,),
            FLAT,
            (Attribute("", Kind.SCALE_BIAS, None),),
            ("pool5_1",),
            "OC2_DUMMY_0",
        ),
        dense("fc6", "fused op (#16) + (#17)0", "OC2_DUMMY_0", 9216, 4096, "RELU", "fc6_2"),
        dense("fc7", "fused op (#19) + (#20)0", "fc6_2", 4096, 4096, "RELU", "fc7_2"),
        dense("fc8", "0", "fc7_2", 4096, 1000, None, "fc8_1"),
        operator(
            "0",
            "ACTIVATION_SOFTMAX1",
            (SCORES,),
            SCORES,
            (uint("AxisCount", 1), uints("Axes", 3)),
            ("fc8_1",),
            "prob_1",
        ),
    ),
    input_names=("data_0",),
    output_names=("prob_1",),
)


RAW = SerializedGraph((ConstantNode("c", b"\1\2\3", ("v",)),), (), ("v",))


def with_attributes(*attributes):
    """A graph of a node with these attributes."""
    return SerializedGraph((replace(MATMUL_ADD.nodes[2], attributes=attributes),), ("model_input",), ("model_output",))


def names_of(desc, fields):
    """A name for every tensor, "" for one that is left out."""
    found = []
    for name in fields:
        value = getattr(desc, name)
        found += [f"{name}{i}" for i in range(len(value))] if isinstance(value, tuple) else [name if value else ""]
    return found


def node_of(desc, **keywords):
    return to_node(desc, "node", names_of(desc, desc.input_names()), names_of(desc, desc.output_names()), **keywords)


GATHER, FILL = node_of(DESCS["GATHER"]), node_of(DESCS["FILL_VALUE_CONSTANT"])
