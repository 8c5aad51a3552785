"""A graph of three nodes, others of several outputs and of a few operators, and their parts."""

import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from operator_cases import f32, u32

import dml_jax
from dml_jax import (
    Constant,
    CumulativeSummationDesc,
    DepthToSpaceDesc,
    ElementWiseIdentityDesc,
    GatherDesc,
    GraphDesc,
    SplitDesc,
)

# Four channels in an order of the graph's own, then one picture of them.
CHANNELS, PICTURE = f32(1, 4, 1, 1), f32(1, 1, 2, 2)
NODES = {
    "order": Constant(np.uint32([3, 2, 1, 0])),
    "pick": GatherDesc(CHANNELS, u32(1, 1, 1, 4), CHANNELS, 1, index_dimensions=1),
    "enlarge": DepthToSpaceDesc(CHANNELS, PICTURE, block_size=2),
}
EDGES = {
    ("pick", "input"): "x",
    ("pick", "indices"): ("order", "output"),
    ("enlarge", "input"): ("pick", "output"),
    "y": ("enlarge", "output"),
}
GRAPH = GraphDesc(NODES, EDGES)
X = np.arange(1, 5, dtype=np.float32)
Y = X[::-1]


def owned(tensor):
    return replace(tensor, flags=dml_jax.TensorFlags.OWNED_BY_DML)


def copied(tensor, output=None):
    """An operator that copies."""
    return ElementWiseIdentityDesc(tensor, output or tensor)


def chain(*descs, **tensors):
    """Operators of one input and one output, one behind the other."""
    nodes = {f"n{i}": desc for i, desc in enumerate(descs)}
    edges = {(f"n{i}", "input"): (f"n{i - 1}", "output") if i else "x" for i in range(len(descs))}
    return GraphDesc(nodes, edges | {"y": (f"n{len(descs) - 1}", "output")}, **tensors)


def alone(desc):
    """A graph of one operator, every port of which is one of the graph's own."""
    edges = {("op", port): port for port in desc.input_ports()} | {port: ("op", port) for port in desc.output_ports()}
    return GraphDesc({"op": desc}, edges)


def without(mapping, *keys):
    return {key: value for key, value in mapping.items() if key not in keys}


def parts(**changes):
    """The graph's parts, some of them replaced."""
    return {"nodes": NODES, "edges": EDGES, "inputs": {}, "outputs": {}, **changes}


STORED = re.compile(r"stablehlo\.(\w+)")


def operations(function, *arrays):
    return STORED.findall(jax.jit(function).lower(*arrays).as_text())


SPLIT = SplitDesc(f32(1, 6), (f32(1, 2), f32(1, 4)), 1)
SEVERAL = GraphDesc(
    {"split": SPLIT, "sum": CumulativeSummationDesc(f32(1, 4), f32(1, 4), 1, "INCREASING", False)},
    {
        ("split", "input"): "x",
        ("sum", "input"): ("split", "outputs[1]"),
        "sums": ("sum", "output"),
        "head": ("split", "outputs[0]"),
        "tail": ("split", "outputs[1]"),
    },
    outputs={"tail": f32(2, 2, strides=(1, 2))},
)
SIX = np.arange(1, 7, dtype=np.float32)


def composed(x):
    """What `WEIGHED` computes."""
    picked = dml_jax.gather(x, np.uint32([3, 0, 0]), 1)
    return dml_jax.cumulative_summation(jnp.reshape(picked, (3, 2)), 0)


WEIGHED = GraphDesc(
    {
        "order": Constant(np.uint32([3, 0, 0])),
        "pick": GatherDesc(f32(2, 4), u32(1, 3), f32(2, 3), 1, 1),
        "sum": CumulativeSummationDesc(f32(3, 2), f32(3, 2), 0, "INCREASING", False),
    },
    {
        ("pick", "input"): "x",
        ("pick", "indices"): ("order", "output"),
        ("sum", "input"): ("pick", "output"),
        "y": ("sum", "output"),
    },
)
