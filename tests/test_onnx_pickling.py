"""Pickles and copies of the functions of `to_jax`: the same numbers, jitted too, without the model's files."""

import copy
import inspect
import pickle

import jax
import numpy as np
import pytest
from checks import assert_same_bits
from onnx_building import TensorProto, declared, helper, model, numpy_helper, onnx

from dml_jax.onnx import Backend, to_jax

COPIES = {"pickle": lambda value: pickle.loads(pickle.dumps(value)), "deepcopy": copy.deepcopy, "copy": copy.copy}
make = helper.make_node
X = np.float32([[1, -2, 3], [4, 5, -6]])
W = np.float32([[1, 2], [3, 4], [5, 6]])


def constant(name, array):
    return make("Constant", [], [name], value=numpy_helper.from_array(np.asarray(array), name))


def body(nodes, output):
    value = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
    return helper.make_graph(nodes, "body", [], [value], [numpy_helper.from_array(np.float32(2), f"two {output}")])


def branches():
    """A branch reads what is around it and an initializer of its own."""
    then, other = (body([make(op, ["h", f"two {y}"], [y])], y) for op, y in (("Mul", "a"), ("Add", "b")))
    nodes = [make("MatMul", ["x", "w"], ["h"]), make("If", ["big"], ["y"], then_branch=then, else_branch=other)]
    return model(nodes, {"x": X, "big": np.array(True)}, ["y"], {"w": W})


def with_function():
    nodes = [make("MatMul", ["a", "b"], ["c"]), make("Relu", ["c"], ["y"])]
    proto = model([make("Dense", ["x", "w"], ["y"], domain="mine")], {"x": X}, ["y"], {"w": W})
    opsets = [helper.make_opsetid("", 20)]
    proto.functions.append(helper.make_function("mine", "Dense", ["a", "b"], ["y"], nodes, opsets))
    proto.opset_import.append(helper.make_opsetid("mine", 1))
    return proto


def quantized():
    """Weights of four bits, and a body of ONNX's own, RMSNormalization."""
    numbers = {"q": np.arange(-3, 3).reshape(3, 2).astype(helper.tensor_dtype_to_np_dtype(TensorProto.INT4))}
    nodes = [
        make("DequantizeLinear", ["q", "scale"], ["w"]),
        make("MatMul", ["x", "w"], ["h"]),
        make("RMSNormalization", ["h", "gain"], ["y"]),
    ]
    return model(nodes, {"x": X}, ["y"], numbers | {"scale": np.float32(0.5), "gain": np.float32([1, 2])}, opset=23)


def straight_through():
    nodes = [make("QuantizeLinear", ["x", "s"], ["q"]), make("DequantizeLinear", ["q", "s"], ["y"])]
    return model(nodes, {"x": X}, ["y"], {"s": np.float32(0.5)})


def history():
    """A Loop whose number of iterations is data: x, 2 * x, 4 * x, ..."""
    values = {name: np.array(kind(0)) for name, kind in (("i", np.int64), ("on", np.bool_), ("state", np.float32))}
    inputs = [declared(name, array) for name, array in values.items()]
    outputs = [onnx.ValueInfoProto(name=name) for name in ("still", "next", "state")]
    steps = [make("Identity", ["on"], ["still"]), make("Add", ["state", "state"], ["next"])]
    loop = make("Loop", ["n", "", "start"], ["last", "all"], body=helper.make_graph(steps, "body", inputs, outputs))
    return model([loop], {"n": np.array(3)}, ["last", "all"], {"start": np.float32(3)})


# The model, the arguments of to_jax, and the inputs of a call.
CASES = {
    "branches": (branches, {}, (X, np.array(False))),
    "static": (branches, {"static": {"big": np.array(True)}}, (X,)),
    "function": (with_function, {}, (X,)),
    "quantized": (quantized, {}, (X,)),
    "straight_through": (straight_through, {"straight_through": True}, (X,)),
    "maximum": (history, {"maximum": {"all": 5}, "int32": ["n"]}, (np.int32(3),)),
}


@pytest.mark.parametrize(
    ("name", "again"),
    [*((name, COPIES["pickle"]) for name in CASES), *(("branches", again) for again in COPIES.values())],
)
def test_the_same_numbers_and_parameters(name, again):
    build, arguments, inputs = CASES[name]
    function = to_jax(build(), **arguments)
    restored = again(function)
    assert repr(restored) == repr(function)
    assert list(restored.parameters) == list(function.parameters)
    results = zip(*(jax.tree.leaves(jax.jit(f)(*inputs)) for f in (function, restored)), strict=True)
    for result, wanted in results:
        assert_same_bits(result, wanted)


def test_every_argument_of_to_jax_is_kept():
    """An argument that a pickle does not hold would change what the function computes."""
    _, options, _ = to_jax(branches()).__reduce__()[1]
    assert {*options} == {*inspect.signature(to_jax).parameters} - {"model"}


def test_gradients_of_a_copy():
    """Without the argument they would be 0; numbers below 0 are out of the range of uint8."""
    function = COPIES["pickle"](to_jax(straight_through(), straight_through=True))
    assert_same_bits(jax.jit(jax.grad(lambda x: function(x).sum()))(X), np.float32(X > 0))


def test_external_data_is_in_the_pickle(tmp_path):
    """Of initializers, and of the attributes of nodes; the files are gone when it is read."""
    proto = model([constant("b", np.float32([7, 8])), make("Gemm", ["x", "w", "b"], ["y"])], {"x": X}, ["y"], {"w": W})
    path = tmp_path / "model.onnx"
    onnx.save_model(proto, path, save_as_external_data=True, size_threshold=0, convert_attribute=True)
    assert path.stat().st_size < len(proto.SerializeToString()) + 400
    function = to_jax(path)
    for file in tmp_path.iterdir():
        file.unlink()
    assert_same_bits(COPIES["pickle"](function)(X), X @ W + np.float32([7, 8]))


def test_changes_of_the_model_afterwards_are_not_in_it():
    proto, given = branches(), {"big": np.array(True)}
    function = to_jax(proto, static=given)
    proto.graph.node[0].op_type, given["big"] = "Nonsense", np.array(False)
    assert_same_bits(COPIES["pickle"](function)(X), 2 * (X @ W))


def test_a_prepared_model_of_the_backend():
    prepared = COPIES["pickle"](Backend.prepare(with_function(), "CPU"))
    assert_same_bits(prepared.run([X])[0], np.maximum(X @ W, 0))
