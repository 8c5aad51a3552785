"""What every ONNX node that moves data makes of a matrix, beside NumPy; `matrix_moves.py` has the same of functions."""

import sys
from functools import reduce

import jax
import jax.numpy as jnp
import numpy as np
from checks import assert_same_bits
from matrix_moves import (
    checkers,
    cut,
    every_number,
    integers,
    nearest,
    np_elements,
    np_padded,
    np_reversed,
    np_scattered,
    np_to_depth,
    np_to_space,
    np_unpooled,
    order,
    set_elements,
    set_rows,
)
from onnx_building import helper, model, onnx

from dml_jax.onnx import to_jax

OPSET = 24
X = "x"  # the place of the matrix among the inputs


def ints(*numbers):
    return np.array(numbers, np.int64)


def lengths(b):
    return order(b.shape[1]).clip(1, len(b)).astype(np.int64)


def upper(b):
    return b[: len(b) // 2]


def some_rows(b):
    return order(len(b)).astype(np.int64)[: len(b) // 2, None]


def padding(mode):
    return (
        lambda b: [("Pad", (X, ints(1, 2, 3, 1)), {"mode": mode})],
        lambda b: np_padded(b, (1, 3), (2, 1), mode=mode),
    )


def with_reshape(first, *nodes, last):
    """Nodes of a tensor of another shape, which becomes a matrix again."""
    return [("Reshape", (X, ints(*first)), {}), *nodes, ("Reshape", (X, ints(*last)), {})]


def to_space(b, mode):
    h, w = b.shape[0] // 4, b.shape[1] // 4 * 4
    cuts = ("Slice", (X, ints(0, 0), ints(4 * h, w)), {})
    node = ("DepthToSpace", (X,), {"blocksize": 2, "mode": mode})
    return [cuts, *with_reshape((1, 4, h, w), node, last=(2 * h, 2 * w))]


def to_depth(b):
    h, w = cut(b, 4).shape
    cuts = ("Slice", (X, ints(0, 0), ints(h, w)), {})
    return [cuts, *with_reshape((1, 1, h, w), ("SpaceToDepth", (X,), {"blocksize": 2}), last=(2 * h, w // 2))]


def resize(b):
    sizes = nearest(b)[0]
    return [("Resize", (X, None, None, ints(*sizes)), {"mode": "nearest", "nearest_mode": "round_prefer_ceil"})]


def unpool(b):
    at = order(2 * b.size)[: b.size].reshape(1, 1, *b.shape).astype(np.int64)
    node = ("MaxUnpool", (X, at), {"kernel_shape": [1, 2], "strides": [1, 2]})
    return with_reshape((1, 1, *b.shape), node, last=(4, b.size // 2))


def scan(b):
    """A loop over the columns, whose rows are written from the last one on."""
    kind = helper.np_dtype_to_tensor_dtype(b.dtype)
    infos = [[helper.make_tensor_value_info(name, kind, [len(b)])] for name in ("column", "row")]
    body = helper.make_graph([helper.make_node("Identity", ["column"], ["row"])], "body", *infos)
    how = {"num_scan_inputs": 1, "scan_input_axes": [1], "scan_output_directions": [1]}
    return [("Scan", (X,), {"body": body, **how})]


def write_rows(b):
    node = ("TensorScatter", (X, b[None, :2], ints(1)), {"axis": 1})
    return with_reshape((1, *b.shape), node, last=b.shape)


# By name: the nodes for a matrix like an array, and NumPy's. Nodes follow each other.
MOVES = {
    "CenterCropPad": (
        lambda b: [("CenterCropPad", (X, ints(len(b) + 2, b.shape[1] - 2)), {})],
        lambda b: np_padded(b[:, 1:-1], (1, 1), (0, 0)),
    ),
    "Compress": (
        lambda b: [("Compress", (X, np.arange(len(b)) % 3 > 0), {"axis": 0})],
        lambda b: b[np.arange(len(b)) % 3 > 0],
    ),
    "Concat": (lambda b: [("Concat", (X, X), {"axis": 1})], lambda b: np.concatenate([b, b], 1)),
    "DepthToSpace CRD": (lambda b: to_space(b, "CRD"), np_to_space),
    "DepthToSpace DCR": (lambda b: to_space(b, "DCR"), np_to_space),
    "Expand": (
        lambda b: with_reshape((1, *b.shape), ("Expand", (X, ints(3, 1, 1)), {}), last=(-1, b.shape[1])),
        lambda b: np.tile(b, (3, 1)),
    ),
    "Flatten": (lambda b: [("Unsqueeze", (X, ints(1)), {}), ("Flatten", (X,), {"axis": 2})], lambda b: b),
    "Gather": (lambda b: [("Gather", (X, order(len(b))), {"axis": 0})], lambda b: b[order(len(b))]),
    "Gather columns": (lambda b: [("Gather", (X, order(b.shape[1])), {"axis": 1})], lambda b: b[:, order(b.shape[1])]),
    "GatherElements": (
        lambda b: [("GatherElements", (X, order(b.size).reshape(b.shape) % b.shape[1]), {"axis": 1})],
        np_elements,
    ),
    "GatherND": (
        lambda b: [("GatherND", (X, order(len(b)).astype(np.int64)[:, None]), {})],
        lambda b: b[order(len(b))],
    ),
    "Identity": (lambda b: [("Identity", (X,), {})], lambda b: b),
    "MaxUnpool": (unpool, np_unpooled),
    "Pad": (lambda b: [("Pad", (X, ints(1, 2, 3, 1)), {})], lambda b: np_padded(b, (1, 3), (2, 1))),
    **{f"Pad {mode}": padding(mode) for mode in ("edge", "reflect", "wrap")},
    "Resize": (resize, lambda b: b[nearest(b)[1]]),
    "ReverseSequence": (
        lambda b: [("ReverseSequence", (X, lengths(b)), {"batch_axis": 1, "time_axis": 0})],
        np_reversed,
    ),
    "Scan": (scan, lambda b: b.T[::-1]),
    "ScatterElements": (
        lambda b: [("ScatterElements", (X, np.broadcast_to(some_rows(b), upper(b).shape), upper(b)), {})],
        lambda b: np_scattered(b, set_elements),
    ),
    "ScatterND": (lambda b: [("ScatterND", (X, some_rows(b), upper(b)), {})], lambda b: np_scattered(b, set_rows)),
    "Slice": (
        lambda b: [("Slice", (X, ints(-1, 0), ints(-len(b) - 1, b.shape[1]), ints(0, 1), ints(-1, 2)), {})],
        lambda b: b[::-1, ::2],
    ),
    "SpaceToDepth": (to_depth, np_to_depth),
    "Split": (lambda b: [("Split", (X, ints(b.shape[1] - 2, 2)), {"axis": 1})], lambda b: b[:, :-2]),
    "TensorScatter": (write_rows, lambda b: np.concatenate([b[:1], b[:2], b[3:]])),
    "Tile": (lambda b: [("Tile", (X, ints(2, 3)), {})], lambda b: np.tile(b, (2, 3))),
    "Transpose": (lambda b: [("Transpose", (X,), {})], lambda b: b.T),
    "Trilu": (lambda b: [("Trilu", (X, ints(3)[0]), {"upper": 0})], lambda b: np.tril(b, 3)),
    "Where": (
        lambda b: [("Where", (checkers(b.shape), X, np.zeros((), b.dtype)), {})],
        lambda b: np.where(checkers(b.shape), b, np.zeros((), b.dtype)),
    ),
}


def takes(name, dtype):
    """Whether ONNX lets the node take a type."""
    schema = onnx.defs.get_schema(name.split()[0], OPSET)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    wanted = f"tensor({onnx.TensorProto.DataType.Name(kind).lower()})"
    return any(wanted in constraint.allowed_type_strs for constraint in schema.type_constraints)


def chain(names, x, known):
    """A model in which the moves follow each other, from a matrix that is a constant of it, or its input."""
    nodes, constants, inputs, b = [], {}, {}, x
    (constants if known else inputs)["m0"] = x
    for name in names:
        nodes_for, numpy = MOVES[name]
        for op_type, operands, attributes in nodes_for(b):
            at = f"m{len(nodes)}"
            read = [at if x is X else "" if x is None else f"{at}_{i}" for i, x in enumerate(operands)]
            constants |= {
                key: x for key, x in zip(read, operands, strict=True) if isinstance(x, (np.ndarray, np.generic))
            }
            outputs = [f"m{len(nodes) + 1}", *[f"rest{len(nodes)}"] * (op_type == "Split")]
            nodes.append(helper.make_node(op_type, read, outputs, **attributes))
        b = numpy(b)
    return model(nodes, inputs, [f"m{len(nodes)}"], constants, opset=OPSET)


# How a program gets the matrix; outside of jit it is eager.
WAYS = ("argument", "constant", "eager argument", "eager constant")


def assert_moved(names, dtype, way):
    x = every_number(dtype)
    function = to_jax(chain(names, x, "constant" in way))
    result = (function if "eager" in way else jax.jit(function))(*() if "constant" in way else (x,))
    expected = reduce(lambda b, name: MOVES[name][1](b), names, x.view(integers(dtype)))
    assert_same_bits(result, expected.view(dtype))


def main():
    """Moves a matrix by each of the nodes that follow, on a number of CPU devices, which the arguments begin with."""
    jax.config.update("jax_num_cpu_devices", int(sys.argv[1]))
    for name in sys.argv[2:]:
        if takes(name, jnp.bfloat16):
            for way in WAYS[:2]:
                assert_moved([name], jnp.dtype(jnp.bfloat16), way)


if __name__ == "__main__":
    main()
