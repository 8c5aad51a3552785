"""ONNX Runtime's opinion on random graphs of every operator, in many opset versions."""

import itertools

import numpy as np
import pytest
from checks import assert_same_bits, sampled
from onnx_building import helper, model, runtime
from onnx_random import RandomGraph

from dml_jax.onnx import Backend, activations, cast, data_movement, elementwise, layout, reductions, resize, to_jax

OPSETS = (7, 9, 10, 11, 12, 13, 16, 18, 19, 20)
GRAPHS = [(opset, seed) for opset in OPSETS for seed in range(2)]
SAMPLE = [(20, 0)]  # the greatest
NODES = 170


def test_the_graphs_have_every_operator():
    found = set()
    for opset in OPSETS:
        graph = RandomGraph(0, opset)
        graph.grow(NODES)
        found |= {node.op_type for node in graph.nodes}
    families = (data_movement, layout, cast, resize, elementwise, activations, reductions)  # others have own tests
    wanted = {name for family in families for name in family.OPERATORS} - {"CenterCropPad", "Compress"}
    assert found >= wanted - {"CumProd", "Swish"}  # which ONNX Runtime does not have yet
    assert len(GRAPHS) * NODES >= 2000


@pytest.mark.parametrize("numbers", sampled(GRAPHS, SAMPLE), ids=str)
def test_a_random_graph_agrees_with_onnx_runtime(numbers, exhaustive):
    """By default with half of the nodes."""
    opset, _ = numbers
    graph = RandomGraph(numbers, opset)
    graph.grow(NODES if exhaustive else NODES // 2)
    proto = graph.model()
    expected = runtime(proto, graph.inputs)
    actual = Backend.run_model(proto, graph.inputs)
    names = [*graph.exact, *graph.rounded]
    for name, y, wanted in zip(names, actual, expected, strict=True):
        if name in graph.rounded:
            np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-5, err_msg=name)
        else:
            assert_same_bits(quieted(y), quieted(wanted))


def quieted(array):
    """ONNX Runtime's Tile makes signalling NaNs of float16 quiet: the only bits that may differ."""
    if array.dtype != np.float16:
        return array
    return np.where(np.isnan(array), array.view(np.uint16) | 0x200, array.view(np.uint16))


def test_onnx_runtime_still_quiets_nans():
    """Ours does not: `test_narrow_floats_move_bit_for_bit`."""
    x = np.uint16([[0x7D00, 0x3C00]]).view(np.float16)
    proto = model([helper.make_node("Tile", ["x", "n"], ["y"])], {"x": x}, ["y"], {"n": np.int64([4, 1])})
    (y,) = runtime(proto, {"x": x})
    assert set(y.view(np.uint16)[:, 0]) == {0x7F00}


def test_slices_are_those_of_onnx_runtime():
    """Every start, end and step about a small size, in one graph; but not backwards to an end beyond it."""
    bounds = (-5, -3, -2, -1, 0, 1, 2, 3, 5, 2**31 - 1, 2**63 - 1, -(2**63))
    nodes, initializers, outputs = [], {"axis": [0]}, []
    initializers |= {f"s{n}": [n] for n in {*bounds, *range(-3, 3)}}
    initializers |= {f"x{n}": np.arange(n, dtype=np.float32) for n in range(4)}
    for n, start, end, step in itertools.product(range(4), bounds, bounds, (-3, -2, -1, 1, 2)):
        if step < 0 and end >= 2**31 - 1:  # nothing lies beyond by the specification; Runtime takes all
            continue
        outputs.append(f"y{len(outputs)}")
        nodes.append(helper.make_node("Slice", [f"x{n}", f"s{start}", f"s{end}", "axis", f"s{step}"], outputs[-1:]))
    proto = model(nodes, {}, outputs, {k: np.asarray(v) for k, v in initializers.items()})
    for y, wanted in zip(to_jax(proto)(), runtime(proto, {}), strict=True):
        assert_same_bits(y, wanted)
    assert len(outputs) == 2592
