"""Second opinions: ONNX's node cases, and ONNX Runtime on random calls."""

import jax
import jax.export
import numpy as np
import pytest
from checks import assert_same_bits, together
from onnx_building import helper, model, numpy_helper, onnxruntime
from onnx_cases import all_cases, as_array

import dml_jax
from dml_jax.onnx import to_jax

OPERATORS = (
    "Gather",
    "GatherElements",
    "GatherND",
    "Scatter",
    "ScatterElements",
    "ScatterND",
    "DepthToSpace",
    "SpaceToDepth",
)


def attributes(node):
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def run(node, inputs):
    """An ONNX node as a call of this library."""
    given = attributes(node)
    axis = given.get("axis", 0)
    order = given.get("mode", b"DCR").decode()
    calls = {
        "Gather": lambda x, i: dml_jax.gather(x, i, axis),
        "GatherElements": lambda x, i: dml_jax.gather_elements(x, i, axis),
        "GatherND": lambda x, i: dml_jax.gather_nd(x, i, batch_dims=given.get("batch_dims", 0)),
        "Scatter": lambda x, i, u: dml_jax.scatter_elements(x, i, u, axis),
        "ScatterElements": lambda x, i, u: dml_jax.scatter_elements(x, i, u, axis),
        "ScatterND": lambda x, i, u: dml_jax.scatter_nd(x, i, u),
        "DepthToSpace": lambda x: dml_jax.depth_to_space(x, given["blocksize"], order=order),
        "SpaceToDepth": lambda x: dml_jax.space_to_depth(x, given["blocksize"], order=order),
    }
    return calls[node.op_type](*inputs)


def has_reduction(case):
    return attributes(case.model.graph.node[0]).get("reduction", b"none") != b"none"


def cases_of(op_type):
    """What ONNX has for an operator alone; only reductions, which DirectML lacks, are left out."""
    graphs = ((case, case.model.graph.node) for case in all_cases().values())
    cases = [case for case, nodes in graphs if len(nodes) == 1 and nodes[0].op_type == op_type]
    return [case for case in cases if not has_reduction(case)]


@pytest.mark.exhaustive
def test_the_cases_are_there():
    counts = [len(cases_of(op_type)) for op_type in OPERATORS]
    assert all(counts)
    assert sum(counts) >= 18


@pytest.mark.exhaustive
@pytest.mark.parametrize("op_type", OPERATORS)
def test_onnx_node_cases(op_type):
    calls, wanted = [], []
    for case in cases_of(op_type):
        (node,) = case.model.graph.node
        for inputs, (expected, *_) in case.data_sets:
            calls.append((lambda *inputs, node=node: run(node, inputs), *map(as_array, inputs)))
            wanted.append((case.name, as_array(expected)))
    for result, (name, expected) in zip(together(calls), wanted, strict=True):
        try:
            assert_same_bits(result, expected)
        except AssertionError as error:
            error.add_note(name)
            raise


def session(op_type, inputs, opset=18, **attributes):
    """The same call in ONNX Runtime on the CPU."""
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in zip("xiu", inputs, strict=False)
    ]
    node = helper.make_node(op_type, [info.name for info in infos], ["y"], **attributes)
    output = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(inputs[0].dtype), None)
    graph = helper.make_graph([node], op_type, infos, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    runner = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return node, runner.run(None, {info.name: x for info, x in zip(infos, inputs, strict=True)})[0]


def in_range(rng, size, shape):
    """Indices of both signs that ONNX allows."""
    return rng.integers(-size, size, shape)


@pytest.mark.thinned
@pytest.mark.parametrize("seed", range(12))
def test_random_calls_agree_with_onnx_runtime(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 6, rng.integers(1, 5)))
    axis = int(rng.integers(len(shape)))
    x = rng.standard_normal(shape).astype(np.float32)
    line = in_range(rng, shape[axis], (3, 2))
    grid = in_range(rng, shape[axis], (*shape[:axis], 4, *shape[axis + 1 :]))
    b = int(rng.integers(len(shape)))
    t = int(rng.integers(1, len(shape) - b + 1))
    tuples = np.stack([in_range(rng, n, (*shape[:b], 3)) for n in shape[b : b + t]], axis=-1)
    lines = np.tile(np.arange(shape[axis]), (*shape[:axis], *shape[axis + 1 :], 1))
    unique = np.moveaxis(rng.permuted(lines, axis=-1), -1, axis)
    targets = np.stack(np.unravel_index(rng.permutation(int(np.prod(shape[:t]))), shape[:t]), axis=-1)
    slices = rng.standard_normal((len(targets), *shape[t:])).astype(np.float32)
    calls, wanted = [], []
    for op_type, inputs, given in [
        ("Gather", (x, line), {"axis": axis}),
        ("GatherElements", (x, grid), {"axis": axis}),
        ("GatherND", (x, tuples), {"batch_dims": b}),
        ("ScatterElements", (x, unique, -x), {"axis": axis}),
        ("ScatterND", (x, targets, slices), {}),
    ]:
        node, expected = session(op_type, inputs, **given)
        calls.append((lambda *inputs, node=node: run(node, inputs), *inputs))
        wanted.append(expected)
    for actual, expected in zip(together(calls), wanted, strict=True):
        assert_same_bits(actual, expected)


@pytest.mark.parametrize("block", [1, 2, 3])
@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_and_space_agree_with_onnx_runtime(block, mode):
    x = np.arange(2 * 2 * block**2 * 3 * 5, dtype=np.float32).reshape(2, 2 * block**2, 3, 5)
    node, expected = session("DepthToSpace", (x,), blocksize=block, mode=mode)
    assert_same_bits(run(node, (x,)), expected)
    if mode == "DCR":
        node, back = session("SpaceToDepth", (expected,), blocksize=block)
        assert_same_bits(run(node, (expected,)), back)
        assert_same_bits(back, x)


def test_slices_of_a_symbolic_batch_are_exported():
    """As what else is made of the catalogue's operators."""
    nodes = [
        helper.make_node("Slice", ["x", "starts", "ends", "axes"], ["part"]),
        helper.make_node("Concat", ["part", "part"], ["twice"], axis=1),
        helper.make_node("Split", ["twice"], ["y", "z"], axis=1, num_outputs=2),
    ]
    constants = [
        numpy_helper.from_array(np.int64([value]), name) for name, value in (("starts", 1), ("ends", 5), ("axes", 1))
    ]
    x = helper.make_tensor_value_info("x", helper.TensorProto.FLOAT, ["b", 6])
    outputs = [helper.make_tensor_value_info(name, helper.TensorProto.FLOAT, None) for name in "yz"]
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], outputs, constants),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=10,
    )
    symbolic = jax.ShapeDtypeStruct(jax.export.symbolic_shape("b, 6"), np.float32)
    exported = jax.export.export(jax.jit(dml_jax.onnx.to_jax(model)))(symbolic)
    data = np.arange(12, dtype=np.float32).reshape(2, 6)
    for made in jax.tree.leaves(exported.call(data)):
        np.testing.assert_array_equal(made, data[:, 1:5])


def test_a_model_adds_narrow_floats_in_float32():
    """As the scatters do that its nodes become: one by one, 3,000 ones would stop at 2048 in float16."""
    ones, at = np.ones(3000, np.float16), np.zeros(3000, np.int64)
    nodes = [
        helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], reduction="add"),
        helper.make_node("ScatterND", ["x", "tuples", "u"], ["z"], reduction="add"),
    ]
    inputs = {"x": np.zeros(1, np.float16), "i": at, "u": ones, "tuples": at[:, None]}
    with jax.enable_x64(True):
        totals = to_jax(model(nodes, inputs, ["y", "z"]))(*inputs.values())
    for total in totals:
        np.testing.assert_array_equal(total, np.float16([3000]))
