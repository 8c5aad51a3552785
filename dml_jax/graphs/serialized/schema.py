"""The flatbuffers schema of a serialized graph, as data: the fields of tables, the members of unions.

Source: DmlGraphDesc_generated.h and OperatorFieldTypes_generated.h of DxDispatch.
"""

import enum
from collections.abc import Mapping

# Storage of a table's field, by format characters of the module struct.
OFFSET, UINT8, UINT64 = "I", "B", "Q"
# The fields of a table, in the order of their slots.
Fields = Mapping[str, str]

GRAPH: Fields = {"nodes": OFFSET, "graphInputNames": OFFSET, "graphOutputNames": OFFSET}
NODE: Fields = {"desc_type": UINT8, "desc": OFFSET, "name": OFFSET, "inputNames": OFFSET, "outputNames": OFFSET}
OPERATOR: Fields = {"type": OFFSET, "inputs": OFFSET, "outputs": OFFSET, "attributes": OFFSET}
TENSOR: Fields = {"dataType": OFFSET, "sizes": OFFSET, "strides": OFFSET, "totalTensorSizeInBytes": UINT64}
CONSTANT: Fields = {"data_type": UINT8, "data": OFFSET}
CONSTANT_NAME: Fields = {"name": OFFSET}
CONSTANT_RAW_DATA: Fields = {"data": OFFSET}
ATTRIBUTE: Fields = {"name": OFFSET, "val_type": UINT8, "val": OFFSET}
ACTIVATION: Fields = {"type": OFFSET, "attributes": OFFSET}
# ActivationArray, UIntArray, IntArray and FloatArray.
ARRAY: Fields = {"data": OFFSET}
SCALAR_UNION: Fields = {"data_type": UINT8, "data": OFFSET}


class NodeKind(enum.IntEnum):
    """The union type of a node's desc."""

    OPERATOR = 1
    CONSTANT = 2


class ConstantKind(enum.IntEnum):
    """The union type of a constant's data: the name of a file, or the bytes."""

    NAME = 1
    RAW_DATA = 2


class AttributeKind(enum.IntEnum):
    """The union type of an attribute's val."""

    NONE = 0
    ACTIVATION = 1
    ACTIVATION_ARRAY = 2
    UINT32 = 3
    UINT64 = 4
    INT32 = 5
    FLOAT32 = 6
    UINT_ARRAY = 7
    INT_ARRAY = 8
    FLOAT_ARRAY = 9
    SCALE_BIAS = 10
    SIZE_2D = 11
    SCALAR_UNION = 12
    BOOL = 13


# Attributes that are a struct of one or two numbers, and those that are an array of them: the numbers' formats.
STRUCTS: Mapping[AttributeKind, str] = {
    AttributeKind.UINT32: "I",
    AttributeKind.UINT64: "Q",
    AttributeKind.INT32: "i",
    AttributeKind.FLOAT32: "f",
    AttributeKind.SCALE_BIAS: "2f",
    AttributeKind.SIZE_2D: "2I",
    AttributeKind.BOOL: "B",
}
ARRAYS: Mapping[AttributeKind, str] = {
    AttributeKind.UINT_ARRAY: "I",
    AttributeKind.INT_ARRAY: "i",
    AttributeKind.FLOAT_ARRAY: "f",
}
# The bytes of what a scalar union can hold, by its kind: 8 bytes, INT8, UINT8, and so on to FLOAT32 and FLOAT64.
SCALAR_SIZES: Mapping[int, int] = {1: 8, 2: 1, 3: 1, 4: 2, 5: 2, 6: 4, 7: 4, 8: 8, 9: 8, 10: 4, 11: 8}
