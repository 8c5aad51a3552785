"""ONNX's own test cases: every one whose operators are done passes, through `Backend`; and as constants, in NumPy."""

from collections import Counter
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from onnx_building import assert_same_values, helper, numpy_helper, onnx
from onnx_cases import all_cases, as_array, cases, operators

from dml_jax.onnx import Backend, OnnxError, UnsupportedError, cast, control_flow, data_movement, layout, to_jax
from dml_jax.onnx.operator_table import ONNX_OPERATORS

PAGE = Path(__file__).parents[1] / "docs/reference/onnx_operators.md"

# Computed exactly: all others may be rounded once less or more often than where the cases were made.
EXACT = {
    *(*data_movement.OPERATORS, *layout.OPERATORS, *cast.OPERATORS, *control_flow.OPERATORS),
    *("Abs", "And", "ArgMax", "ArgMin", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Ceil"),
    *("Clip", "Equal", "Floor", "Greater", "GreaterOrEqual", "Hardmax", "IsInf", "IsNaN", "Less", "LessOrEqual", "Max"),
    *(
        "Dropout",
        "GlobalMaxPool",
        "MaxPool",
        "Min",
        "Mod",
        "Neg",
        "Not",
        "Or",
        "ReduceMax",
        "ReduceMin",
        "Relu",
        "Round",
        "Sign",
        "ThresholdedRelu",
        "Xor",
    ),
} - {"CumProd", "CumSum"}
# Their expected outputs are NumPy's random numbers.
RANDOM = {
    *(f"test_training_dropout{kind}" for kind in ("", "_default", "_default_mask", "_mask")),
    *(f"test_bernoulli{kind}{how}" for kind in ("", "_double", "_seed") for how in ("", "_expanded")),
}


def pytest_generate_tests(metafunc):
    """A test of each case, where all of them run: their names are known when ONNX has made them."""
    if metafunc.function is test_node_case:
        metafunc.parametrize("name", passing() if metafunc.config.getoption("exhaustive") else [])


def passing():
    return [name for name in cases() if name not in RANDOM]


FOURIER = {"DFT", "STFT"}  # off by some units of the greatest number: ONNX's runner takes 1e-7 where a number is 0


def assert_expected(case, results, expected):
    results, expected = jax.tree.leaves(list(results)), jax.tree.leaves(list(map(as_array, expected)))
    assert len(results) == len(expected)
    for actual, wanted in zip(results, expected, strict=True):
        if operators(case.model) - EXACT and jnp.issubdtype(wanted.dtype, jnp.floating):
            assert np.asarray(actual).dtype == wanted.dtype
            rtol = max(case.rtol, 4 * float(jnp.finfo(wanted.dtype).eps))
            unit = float(jnp.finfo(wanted.dtype).eps) * float(abs(wanted).max(initial=0))
            atol = 4 * unit if operators(case.model) & FOURIER else case.atol
            np.testing.assert_allclose(actual, wanted, rtol=rtol, atol=atol)
        else:
            assert_same_values(actual, wanted)


@pytest.mark.exhaustive
def test_every_operator_has_cases():
    counts = Counter(op for case in cases().values() for op in operators(case.model))
    of_onnx = {name for name in ONNX_OPERATORS if onnx.defs.has(name)}
    without = {"ConcatFromSequence", "GlobalLpPool", "MaxRoiPool", "SequenceErase"}  # which ONNX has none of
    without |= {"Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform"}
    assert set(counts) >= of_onnx - without
    assert len(passing()) >= 1500
    print(f"{len(passing())} of {len(all_cases())} cases of onnx {onnx.__version__}")  # noqa: T201


@pytest.mark.exhaustive
def test_the_page_lists_what_is_not_done():
    """By the operator that a case lacks first, with the number of cases; those of strings lack none."""
    if not onnx.__version__.startswith("1.23."):
        pytest.skip("the page has the cases of onnx 1.23")
    lacking = Counter(lacked(case.model) for name, case in all_cases().items() if name not in cases())
    listed = ", ".join(f"{name} {count}" for name, count in sorted(lacking.items()))
    page = PAGE.read_text()
    written = page.partition("<!-- not done -->")[2].partition("<!-- end -->")[0]
    assert " ".join(written.split()) == f"{listed}."


# Two are of float16, off by 1.2 parts in a thousand, which is as near as float16 is; ONNX's runner takes one in a
# thousand. One is a sequence with a scalar, of which the runner asks the length.
BEYOND_THE_RUNNER = {"test_attention_4d_causal_fp16", "test_attention_4d_causal_fp16_expanded", "test_loop16_seq_none"}


@pytest.mark.exhaustive
def test_the_page_counts_what_passes():
    """Of narrow floats and sequences ONNX's runner asks for more than `assert_expected`; so it may of transforms."""
    runner = pytest.importorskip("onnx.backend.test.runner")
    missed = set()
    for case in map(cases().get, passing()):
        for inputs, expected in case.data_sets:
            wanted = list(map(as_array, expected))
            is_narrow = any(
                isinstance(y, list) or (jnp.issubdtype(y.dtype, jnp.floating) and y.itemsize < 4) for y in wanted
            )
            if is_narrow:
                results = Backend.run_model(case.model, [as_array(x) for x in inputs])
                try:
                    runner.Runner.assert_similar_outputs(wanted, results, case.rtol, case.atol)
                except (AssertionError, TypeError):
                    missed.add(case.name)
    assert missed <= BEYOND_THE_RUNNER  # another CPU may round to the expected number
    if onnx.__version__.startswith("1.23."):
        page = " ".join(PAGE.read_text().split())
        transforms = sum(bool(operators(cases()[name].model) & FOURIER) for name in passing())
        done, more = len(passing()), len(passing()) - len(BEYOND_THE_RUNNER) - transforms
        assert f"Of the {len(all_cases()):,} node tests of onnx 1.23, {done:,} pass" in page
        assert f"ONNX's own runner counts {more:,}, and up to {transforms} of Fourier transforms" in page


def lacked(proto):
    try:
        to_jax(proto)
    except UnsupportedError as error:
        return error.nodes[0].rpartition(": ")[2].partition(" ")[0].rpartition("::")[2]
    except OnnxError:
        return "strings"
    raise AssertionError("it is done")


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", sorted(RANDOM))
def test_random_cases_have_the_shapes_and_types_that_are_expected(name):
    case = cases()[name]
    ((inputs, expected),) = case.data_sets
    results = Backend.run_model(case.model, [as_array(x) for x in inputs], key=jax.random.key(0))
    assert [(y.shape, y.dtype) for y in results] == [(y.shape, y.dtype) for y in map(as_array, expected)]


@pytest.mark.exhaustive
def test_node_case(name):
    case = cases()[name]
    for inputs, expected in case.data_sets:
        assert_expected(case, Backend.run_model(case.model, [as_array(x) for x in inputs]), expected)


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", range(4))
def test_node_cases_as_constants(first):
    """With every tensor as an initializer the result is a constant, computed by NumPy where that is possible."""
    for case in map(cases().get, passing()[first::4]):
        ((inputs, expected),) = case.data_sets
        model = onnx.ModelProto()
        model.CopyFrom(case.model)
        given = list(zip(case.model.graph.input, map(as_array, inputs), strict=True))
        others = [(info, value) for info, value in given if not info.type.HasField("tensor_type")]
        model.graph.ClearField("input")
        model.graph.input.extend(info for info, _ in others)
        tensors = [(info.name, value) for info, value in given if info.type.HasField("tensor_type")]
        model.graph.initializer.extend(numpy_helper.from_array(array, key) for key, array in tensors)
        with jax.enable_x64(True):
            results = to_jax(model)(*(value for _, value in others))
        assert_expected(case, results if isinstance(results, tuple) else (results,), expected)


@pytest.mark.exhaustive
def test_node_cases_beside_known_numbers():
    """With each single float as an initializer: outside of `jit` nodes of floats take such numbers as operands."""
    compared = 0
    for case in map(cases().get, passing()):
        inputs, expected = case.data_sets[0]
        given = list(zip((info.name for info in case.model.graph.input), map(as_array, inputs), strict=True))
        floats = [x for _, x in given if jnp.issubdtype(getattr(x, "dtype", bool), jnp.floating)]
        known = [(name, x) for name, x in given if len(floats) == len(given) and x.size == 1]
        if not 0 < len(known) < len(given):
            continue
        model = onnx.ModelProto()
        model.CopyFrom(case.model)
        model.graph.initializer.extend(numpy_helper.from_array(np.asarray(x), name) for name, x in known)
        with jax.enable_x64(True):
            results = to_jax(model)(*(x for _, x in given if x.size != 1))
        assert_expected(case, results if isinstance(results, tuple) else (results,), expected)
        compared += 1
    assert compared > 20


def test_run_node_of_the_backend():
    x, i = np.int64([[1, 2], [3, 4]]), np.int64([[0, 0], [1, 0]])
    node = helper.make_node("GatherElements", ["x", "i"], ["y"], axis=1)
    (y,) = Backend.run_node(node, [x, i])
    np.testing.assert_array_equal(y, [[1, 1], [4, 3]])
    assert y.dtype == np.int64
    old = helper.make_node("Squeeze", ["x"], ["y"], axes=[0])
    assert Backend.run_node(old, [np.zeros((1, 2), np.int8)], opset_version=11)[0].shape == (2,)


def test_devices_of_the_backend():
    assert Backend.supports_device("CPU")
    assert Backend.supports_device("CPU:0")
    assert not Backend.supports_device("CPU:99999")
    assert not Backend.supports_device("ABACUS")


def test_outputs_of_the_backend_have_names():
    node = helper.make_node("Identity", ["x"], ["y"])
    proto = helper.make_model(
        helper.make_graph(
            [node], "g", [helper.make_tensor_value_info("x", 1, [2])], [helper.make_tensor_value_info("y", 1, [2])]
        ),
        opset_imports=[helper.make_opsetid("", 20)],
    )
    prepared = Backend.prepare(proto)
    x = np.float32([1, 2])
    assert prepared.run([x])["y"].tolist() == prepared.run({"x": x}).y.tolist() == [1, 2]
    assert Backend.is_compatible(proto)
    proto.graph.node[0].op_type = "StringNormalizer"
    assert not Backend.is_compatible(proto)
    with pytest.raises(UnsupportedError):
        Backend.prepare(proto)
