"""The model files of the documentation: what they print, and a broken copy of each with the rule that it breaks."""

from pathlib import Path

FOLDER = Path(__file__).parents[1] / "docs" / "models"

DEPTH = ", ".join(str(9 * channel + i) for channel in range(8) for i in range(6))
DCR = (
    "0, 18, 1, 19, 2, 20, 36, 54, 37, 55, 38, 56, 3, 21, 4, 22, 5, 23, 39, 57, 40, 58, 41, 59, "
    "9, 27, 10, 28, 11, 29, 45, 63, 46, 64, 47, 65, 12, 30, 13, 31, 14, 32, 48, 66, 49, 67, 50, 68"
)
CRD = (
    "0, 9, 1, 10, 2, 11, 18, 27, 19, 28, 20, 29, 3, 12, 4, 13, 5, 14, 21, 30, 22, 31, 23, 32, "
    "36, 45, 37, 46, 38, 47, 54, 63, 55, 64, 56, 65, 39, 48, 40, 49, 41, 50, 57, 66, 58, 67, 59, 68"
)

# DirectML's documented numbers, but for the graph, of which it documents none.
PRINTS = {
    "gather.json": {
        "1 output": "14, 12, 14, 11, 13",
        "2 output": "1, 2, 3, 4, 3, 4, 5, 6",
        "3 output": "2, 1, 4, 3, 6, 5",
        "4 output": "1, 3, 4, 6, 7, 9",
        "5 output": "1, 2, 3, 4, 3, 4, 5, 6",
    },
    "gather_elements.json": {"output": "4, 8, 3, 7, 2, 3"},
    "gather_nd.json": {"1 output": "2, 3, 0, 1", "2 output": "2, 3, 4, 5"},
    "gather_nd1.json": {"1 output": "2, 3, 0, 1", "2 output": "0, 3, 7, 4, 9, 10"},
    "depth_to_space.json": {"output": DCR},
    "depth_to_space1_depth_column_row.json": {"output": DCR},
    "depth_to_space1_column_row_depth.json": {"output": CRD},
    "space_to_depth.json": {"output": DEPTH},
    "space_to_depth1_depth_column_row.json": {"output": DEPTH},
    "space_to_depth1_column_row_depth.json": {"output": DEPTH},
    "scatter.json": {"output": "20, 11, 0, 10, 0, 22, 0, 21, 12"},
    "scatter_nd.json": {"output": "1, 11, 3, 10, 9, 6, 7, 12"},
    "photo.json": {},
    # Each block of 2x2 backwards: rows 0 1 4 5 of the picture become 5 4 1 0.
    "graph.json": {"mixed": "5, 4, 7, 6, 1, 0, 3, 2, 13, 12, 15, 14, 9, 8, 11, 10"},
    "strides_packed.json": {"output": "4, 5, 6, 1, 2, 3"},
    "strides_column_major.json": {"rows": "1, 2, 3, 4, 5, 6", "columns again": "1, 4, 2, 5, 3, 6"},
    "strides_padded_rows.json": {"packed": "1, 2, 3, 4, 5, 6", "padded again": "1, 2, 3, -1, -1, 4, 5, 6, -1, -1"},
    "strides_broadcast_row.json": {"rows": "1, 2, 3, 1, 2, 3"},
    "strides_nchw.json": {"output": "7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6"},
    "strides_nhwc.json": {"output": "7, 1, 8, 2, 9, 3, 10, 4, 11, 5, 12, 6"},
}

# {file: (text, what to write in its place, the rule that is broken then)}.
BROKEN = {
    "gather.json": ('"Axis": 2', '"Axis": 3', "Axis must be in [0, InputTensor.DimensionCount)"),
    "gather_elements.json": (
        '"Axis": 0',
        '"Axis": 1',
        "IndicesTensor.Sizes must equal InputTensor.Sizes except along Axis",
    ),
    "gather_nd.json": ('"InputDimensionCount": 3', '"InputDimensionCount": 5', "InputDimensionCount must be in [1, "),
    "gather_nd1.json": (
        '"BatchDimensionCount": 1',
        '"BatchDimensionCount": 3',
        "BatchDimensionCount must be in [0, min(InputDimensionCount, IndicesDimensionCount))",
    ),
    "depth_to_space.json": (
        '"BlockSize": 2',
        '"BlockSize": 3',
        "the channels of InputTensor must be a multiple of BlockSize * BlockSize",
    ),
    "depth_to_space1_depth_column_row.json": ("[1, 2, 4, 6]", "[1, 2, 6, 4]", "OutputTensor.Sizes must be (N, C / "),
    "depth_to_space1_column_row_depth.json": ('"BlockSize": 2', '"BlockSize": 0', "BlockSize must be at least 1"),
    "space_to_depth.json": ("[1, 8, 2, 3]", "[1, 8, 3, 2]", "OutputTensor.Sizes must be (N, C * BlockSize**2"),
    "space_to_depth1_depth_column_row.json": ('"BlockSize": 2', '"BlockSize": 3', "must be a multiple of BlockSize"),
    "space_to_depth1_column_row_depth.json": (
        '"Order": "COLUMN_ROW_DEPTH"',
        '"Order": "ROW"',
        "Order must be one of DEPTH_COLUMN_ROW, COLUMN_ROW_DEPTH",
    ),
    "scatter.json": (
        '"UpdatesTensor": { "DataType": "FLOAT32"',
        '"UpdatesTensor": { "DataType": "FLOAT16"',
        "UpdatesTensor.DataType must equal InputTensor.DataType",
    ),
    "scatter_nd.json": (
        '"IndicesDimensionCount": 2',
        '"IndicesDimensionCount": 1',
        "the leading IndicesTensor.Sizes that",
    ),
    "graph.json": (
        '"FromNode": "pick", "FromNodeOutput": "OutputTensor", "ToNode": "picture_again"',
        '"FromNode": "pick", "FromNodeOutput": "OutputTensor", "ToNode": "blocks"',
        "GRAPH: IntermediateEdges[2]: a second edge leads to 'blocks'.InputTensor",
    ),
    "photo.json": ("out/restored.png", "../restored.png", "lies outside"),
    "strides_packed.json": ("[3, 1]", "[3, 1, 1]", "Strides must have one entry per dimension"),
    "strides_column_major.json": (
        '[2, 3], "Strides": [1, 2] },\n        "Axis"',
        '[2, 3], "Strides": [1, 1] },\n        "Axis"',
        "OutputTensor.Strides must give every coordinate an element of its own",
    ),
    "strides_padded_rows.json": ('"Strides": [5, 1]', '"Strides": [8, 1]', "needs 44 bytes"),
    "strides_broadcast_row.json": ('"Strides": [0, 1]', '"Strides": [0, -1]', "Strides must be in [0, 2**32 - 1]"),
    "strides_nchw.json": ('"Strides": [12, 6, 3, 1]', '"Strides": [12, 7, 3, 1]', "needs 52 bytes"),
    "strides_nhwc.json": ('"Axis": 1', '"Axis": 4', "Axis must be in [0, InputTensor.DimensionCount)"),
}
