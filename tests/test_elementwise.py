"""The tables of elementwise operators: edge values of every type, and what each row promises beside all structs."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits, sampled, together
from elementwise_cases import TYPES, assert_numbers, class_of, descriptor, numbers_of, pairs
from operator_cases import f16, f32
from operators import test_binary, test_unary

from dml_jax import ConstraintError, GraphBuilder, TensorDesc, compile_operator

ROWS = {**test_unary.ROWS, **test_binary.ROWS}
TYPES_OF = {struct.name: struct.levels[0].types for struct in (*test_unary.STRUCTS, *test_binary.STRUCTS)}
every_row = pytest.mark.parametrize("name", ROWS)


def of_one_type(name, data_type, sizes, fields=None, pair=None):
    """A descriptor of tensors of one type, but for results with types of their own, which are UINT8."""
    row = ROWS[name]
    result = "UINT8" if row.output in TYPES_OF[name] else data_type
    types = {**dict.fromkeys(row.inputs, data_type), row.output: result}
    return descriptor(name, row, types, sizes, row.fields[0] if fields is None else fields, pair)


def plain_type(name):
    """A type that it takes, and that JAX computes with as it does."""
    row = ROWS[name]
    return "FLOAT32" if "FLOAT32" in TYPES_OF[name][row.inputs[0]] and not row.on_bits else "UINT8"


# Edges.


def calls_of(data_type):
    """Every row that takes a type, with all its fields: the row, the descriptor, and the edges of its inputs."""
    for name, row in ROWS.items():
        newest = TYPES_OF[name]
        first, *others = (newest.get(one, {data_type}) for one in row.inputs)
        if data_type not in first:
            continue
        for other in sorted(others[0] if others else {data_type}):
            outputs = sorted(newest.get(row.output, {data_type}))
            arrays = pairs(len(row.inputs), TYPES[data_type], TYPES[other])
            types = dict(zip(row.inputs, (data_type, other), strict=False))
            for i, fields in enumerate(row.fields):
                types[row.output] = outputs[i % len(outputs)]
                yield row, descriptor(name, row, types, arrays[0].shape, fields), arrays


@pytest.mark.device
@pytest.mark.parametrize("data_type", sampled([*TYPES], ["FLOAT32", "INT8"]))
def test_edges(data_type):
    """Zeros of both signs, NaN, infinities, subnormals, divisors of 0, shifts of all bits, the ends of integers."""
    with jax.enable_x64(TYPES[data_type].itemsize == 8):
        cases = [*calls_of(data_type)]
        results = together([(desc.compute, *arrays) for _, desc, arrays in cases])
        for (row, desc, arrays), made in zip(cases, results, strict=True):
            wanted = numbers_of(row, desc, *arrays)
            made = np.asarray(made).view(wanted.dtype) if row.on_bits else np.asarray(made)
            is_far = np.any([abs(a.astype(np.float64)) > row.most for a in arrays], axis=0)
            try:
                assert_numbers(made[~is_far], wanted[~is_far], row.units, row.signed_zeros)
            except AssertionError as error:
                error.add_note(f"{desc}")
                raise


SUBNORMAL = np.float32([1e-40, -1e-40, 1e-44, -3e-39])


def test_subnormals_of_float32_are_themselves_or_0():
    """As devices like; ABS, NEGATE and BIT_NOT keep them."""
    names = [name for name in test_unary.ROWS if "FLOAT32" in TYPES_OF[name]["input"]]
    descs = [of_one_type(name, "FLOAT32", SUBNORMAL.shape) for name in names if "BIT" not in name]
    for desc, made in zip(descs, together([(desc.compute, SUBNORMAL) for desc in descs]), strict=True):
        row, name = ROWS[desc.operator_type], desc.operator_type
        kept, flushed = (numbers_of(row, desc, x) for x in (SUBNORMAL, np.copysign(np.float32(0), SUBNORMAL)))
        if name.endswith(("ABS", "NEGATE")):
            assert_same_bits(made, kept.astype(np.float32))
            continue
        for one in zip(made, kept, flushed, strict=True):
            actual, *accepted = (np.array([number]) for number in one)
            assert any(is_like(actual, wanted, row.units) for wanted in accepted), (name, one)


def is_like(actual, wanted, units):
    try:
        assert_numbers(actual, wanted, units)
    except AssertionError:
        return False
    return True


def test_numbers_of_64_bits_without_x64(x64):
    """They are words, and are computed with as they are."""
    big = np.array([2**40 + 3, -(2**63), -1], np.int64)
    for name, wanted in (
        ("ABS", [2**40 + 3, -(2**63), 1]),
        ("NEGATE", [-(2**40) - 3, -(2**63), 1]),
        ("SIGN", [1, -1, -1]),
    ):
        made = compile_operator(of_one_type(f"ELEMENT_WISE_{name}", "INT64", big.shape))(
            big if x64 else big.view(np.uint32)
        )
        assert_same_bits(np.asarray(made).view(np.int64), np.array(wanted, np.int64))


# ScaleBias, and numbers that fields hold.


def test_float16_is_rounded_once():
    """60000 * 2 is out of its range, before a root is taken of it; and 1 + 2 ** -12 of 1."""
    x = np.float16([60000, 0.5])
    made = of_one_type("ELEMENT_WISE_SQRT", "FLOAT16", x.shape, pair=(2, 0)).compute(x)
    assert_same_bits(made, np.sqrt(2 * x.astype(np.float64)).astype(np.float16))
    made = of_one_type("ELEMENT_WISE_RECIP", "FLOAT16", (1,), pair=(2.0**-12, 1)).compute(np.float16([1]))
    assert_same_bits(made, np.float16([1 / (1 + 2.0**-12)]))


def test_fractions_scale_integers_in_float32():
    made = of_one_type("ELEMENT_WISE_ABS", "INT8", (3,), pair=(-1.5, 0)).compute(np.int8([1, -5, 100]))
    assert_same_bits(made, np.int8([1, 7, -128]))  # -150 becomes the least integer, which ABS keeps


@pytest.mark.parametrize("data_type", sampled(sorted(TYPES_OF["ELEMENT_WISE_CLIP_GRAD"]["input"]), ["INT8"]))
def test_bounds_of_clip_grad_are_cast_as_those_of_clip(data_type):
    """To the whole part, or to the nearest number of the type; both are 0 of the gradient."""
    with jax.enable_x64(TYPES[data_type].itemsize == 8):
        x = np.array([0, 1, 2, 3, 100], TYPES[data_type])
        compute = partial(of_one_type, "ELEMENT_WISE_CLIP_GRAD", data_type, x.shape)
        is_float = x.dtype.kind == "f"
        made = compute({"min": 0.75, "max": 3.5}).compute(x, x + x.dtype.type(1))
        assert made.tolist() == ([0, 2, 3, 4, 0] if is_float else [0, 2, 3, 0, 0])
        made = compute({"min": -1e30, "max": 1e30}).compute(x, x + x.dtype.type(1))
        assert made.tolist() == [0 if x.dtype.kind == "u" else 1, 2, 3, 4, 101]


def test_the_exponent_had_the_type_of_the_base_below_3_0():
    tensors = (f32(1, 1, 1, 2), f16(1, 1, 1, 2))
    desc = class_of("ELEMENT_WISE_POW")(*tensors, tensors[0])
    desc.validate("3_0")
    with pytest.raises(ConstraintError, match=r"ExponentTensor\.DataType must equal InputTensor\.DataType"):
        desc.validate("2_1")


def test_long_exponents():
    """Even ones above 2 ** 24, of which FLOAT has no odd ones; the powers wrap."""
    x = np.int32([-1, 1, 3, 0, 2])
    power = partial(of_one_type, "ELEMENT_WISE_CONSTANT_POW", "INT32", x.shape)
    made = [power({"exponent": e}).compute(x) for e in (2.0**30, -(2.0**30), 33)]
    wanted = [[1, 1, pow(3, 2**30, 2**32), 0, 0], [1, 1, 0, 0, 0], [-1, 1, 3**33, 0, 0]]
    for one, numbers in zip(made, wanted, strict=True):
        assert_same_bits(one, np.array([(n + 2**31) % 2**32 - 2**31 for n in numbers], np.int32))


# In place.


@every_row
def test_which_inputs_the_output_may_be_bound_to(name):
    row = ROWS[name]
    desc = of_one_type(name, plain_type(name), (3,))
    assert desc.in_place == bool(row.in_place)
    assert {one for one in row.inputs if desc.may_share(row.output, one)} == {*row.in_place}
    fields = desc.operands()
    moved = {one: TensorDesc(fields[one].data_type, (3,), (2,)) for one in row.inputs}
    assert not any(type(desc)(**{**fields, **moved}).may_share(row.output, one) for one in row.inputs)


def test_a_power_replaces_its_base_alone():
    x, e = jnp.float32([1, 2, 3]), jnp.float32([3, 2, 1])
    power = compile_operator(of_one_type("ELEMENT_WISE_POW", "FLOAT32", (3,)))
    made = power(x, e, out=x)
    assert x.is_deleted()
    assert_same_bits(made, np.float32([1, 4, 3]))
    with pytest.raises(ConstraintError):
        power(made, e, out=e)


# Which function of JAX does the same.


@pytest.mark.thinned(6)
@every_row
def test_the_function_of_jax_does_the_same(name):
    """Of positive numbers; where a mode decides it is one of several."""
    row = ROWS[name]
    dtype, quarter = TYPES[plain_type(name)], name.endswith(("ACOS", "ASIN", "ATANH"))
    x = (np.array([1, 2, 3, 1]) / (4 if quarter else 1)).astype(dtype)
    arrays = dict(zip(row.inputs, (x, x[::-1]), strict=False))
    desc = of_one_type(name, plain_type(name), x.shape)
    expression, *_ = desc.in_jax.split(" or ")
    names = {"jax": jax, **arrays, **row.fields[0]}
    found = eval(expression, names)
    if callable(found):
        numbers = [value for value in row.fields[0].values() if isinstance(value, int | float)]
        found = found(*arrays.values(), *(np.asarray(n, x.dtype) for n in numbers))
    np.testing.assert_allclose(desc.compute(*arrays.values()), found, rtol=1e-6)


# Gradients.


def has_gradient(name):
    row, types = ROWS[name], TYPES_OF[name]
    return "FLOAT32" in types[row.inputs[0]] and row.output not in types and not row.on_bits


@pytest.mark.device
def test_gradients_are_slopes():
    """Those of differences of the formula in float64, by each input, at numbers where no formula has a corner."""
    rng, cases = np.random.default_rng(5), []
    for name, row in ROWS.items():
        if has_gradient(name):
            draw = row.floats or (lambda rng, count: rng.uniform(-3.9, 3.9, count))
            arrays = [np.float32(draw(rng, 8)) + np.float32(0.01) for _ in row.inputs]
            pair = next(iter(row.scales), None)
            cases.append((row, of_one_type(name, "FLOAT32", (8,), pair=pair), arrays))
    slopes = [lambda *x, desc=desc: jax.grad(lambda x: desc.compute(*x).sum())(x) for _, desc, _ in cases]
    made = together([(slope, *arrays) for slope, (_, _, arrays) in zip(slopes, cases, strict=True)])
    for (row, desc, arrays), by_input in zip(cases, made, strict=True):
        for i, one in enumerate(by_input):
            h = np.zeros_like(arrays[i], np.float64) + 1e-4
            above, below = ([a + (h if k == i else 0) * way for k, a in enumerate(arrays)] for way in (1, -1))
            wanted = (numbers_of(row, desc, *above) - numbers_of(row, desc, *below)) / 2e-4
            np.testing.assert_allclose(one, wanted, rtol=2e-3, atol=2e-3, err_msg=f"{desc.operator_type} by input {i}")


# An operator, the inputs, and the slope by each of them where the formula has a corner.
CORNERS = {
    "ELEMENT_WISE_THRESHOLD": ([0.5], [0]),
    "ELEMENT_WISE_SQRT": ([0.0], [np.inf]),
    "ELEMENT_WISE_MAX": ([1.0], [1.0], [0.5], [0.5]),
    "ELEMENT_WISE_MIN": ([1.0], [1.0], [0.5], [0.5]),
    "ELEMENT_WISE_POW": ([0.0], [0.0], [0], [0]),
    "ACTIVATION_PARAMETERIZED_RELU": ([np.inf], [2.0], [1], [0]),
}


def test_gradients_at_corners():
    for name, (*arrays, wanted) in ((name, row) for name, row in CORNERS.items() if len(row) == 2):
        compute = of_one_type(name, "FLOAT32", (1,)).compute
        assert jax.grad(lambda x, f=compute: f(x).sum())(np.float32(arrays[0])).tolist() == wanted
    for name, (x, y, *wanted) in ((name, row) for name, row in CORNERS.items() if len(row) == 4):
        compute = of_one_type(name, "FLOAT32", (1,)).compute
        made = jax.grad(lambda x, f=compute: f(*x).sum())((np.float32(x), np.float32(y)))
        assert [one.tolist() for one in made] == wanted, name


# Graphs.


def test_ten_operators_are_one_loop():
    """XLA fuses them: nothing is written between two, and nothing copied."""
    graph = GraphBuilder()
    x, w = (graph.input(name, ("FLOAT32", (64, 100))) for name in "xw")
    y = graph.element_wise_multiply(x, w)
    y = graph.element_wise_abs(graph.element_wise_subtract(y, x), (2, 1))
    y = graph.element_wise_max(graph.element_wise_sqrt(y), w)
    y = graph.element_wise_difference_square(graph.element_wise_negate(y), x)
    y = graph.element_wise_mean(graph.element_wise_recip(y, (1, 3)), w)
    desc = graph.build([graph.element_wise_threshold(y, None, 0.1)])
    assert len(desc.nodes) == 10
    array = jax.ShapeDtypeStruct((64, 100), np.float32)
    program = jax.jit(lambda x, w: desc.compute(x, w)).lower(array, array).compile().as_text()
    assert len(re.findall(r"= \S+ fusion\(", program)) == 1
    assert not re.findall(r"= \S+ copy\(", program)


# ONNX's node tests.

ONNX = {
    **{
        name: f"ELEMENT_WISE_{name.upper()}"
        for name in ("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil")
    },
    **{
        name: f"ELEMENT_WISE_{name.upper()}"
        for name in ("Cos", "Cosh", "Erf", "Exp", "Floor", "Log", "Sign", "Sin", "Sinh")
    },
    **{name: f"ELEMENT_WISE_{name.upper()}" for name in ("Sqrt", "Tan", "Tanh", "Max", "Min", "Mean", "Pow")},
    **{name: f"ELEMENT_WISE_LOGICAL_{name.upper()}" for name in ("And", "Not", "Or", "Xor")},
    **{f"Bitwise{name}": f"ELEMENT_WISE_BIT_{name.upper()}" for name in ("And", "Not", "Or", "Xor")},
    "Div": "ELEMENT_WISE_DIVIDE",
    "Equal": "ELEMENT_WISE_LOGICAL_EQUALS",
    "Greater": "ELEMENT_WISE_LOGICAL_GREATER_THAN",
    "GreaterOrEqual": "ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL",
    "IsNaN": "ELEMENT_WISE_IS_NAN",
    "Less": "ELEMENT_WISE_LOGICAL_LESS_THAN",
    "LessOrEqual": "ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL",
    "Mul": "ELEMENT_WISE_MULTIPLY",
    "Neg": "ELEMENT_WISE_NEGATE",
    "PRelu": "ACTIVATION_PARAMETERIZED_RELU",
    "Reciprocal": "ELEMENT_WISE_RECIP",
    "Sub": "ELEMENT_WISE_SUBTRACT",
}
BY_ATTRIBUTE = {
    "BitShift": lambda direction: (f"ELEMENT_WISE_BIT_SHIFT_{direction.decode()}", {}),
    "IsInf": lambda detect_negative=1, detect_positive=1: (
        "ELEMENT_WISE_IS_INFINITY",
        {"infinity_mode": {(1, 1): 0, (0, 1): 1, (1, 0): 2}[detect_negative, detect_positive]},
    ),
    "Mod": lambda fmod=0: (f"ELEMENT_WISE_MODULUS_{'TRUNCATE' if fmod else 'FLOOR'}", {}),
    "Round": lambda: ("ELEMENT_WISE_ROUND", {"rounding_mode": 0}),
}


def onnx_calls():
    """The cases of one node whose numbers the structs take: the type of the node, what is called, and what it gives."""
    onnx_cases = pytest.importorskip("onnx_cases", reason="ONNX's cases need onnx and onnxruntime")
    for name, case in onnx_cases.cases().items():
        node, *more = case.model.graph.node
        if more or node.op_type not in {*ONNX, *BY_ATTRIBUTE}:
            continue
        ((inputs, outputs),) = case.data_sets
        inputs, output = [onnx_cases.as_array(one) for one in inputs], onnx_cases.as_array(outputs[0])
        attributes = {one.name: one.s or one.i for one in node.attribute}
        struct, fields = BY_ATTRIBUTE.get(node.op_type, lambda op=node.op_type: (ONNX[op], {}))(**attributes)
        arrays = [np.array(np.broadcast_to(one, output.shape)) for one in inputs]
        arrays = [one.astype(np.uint8) if one.dtype == bool else one for one in arrays]
        try:
            types = dict(zip(ROWS[struct].inputs, (TYPES[one.dtype.name.upper()] for one in arrays), strict=True))
            types[ROWS[struct].output] = np.uint8 if output.dtype == bool else output.dtype
            desc = descriptor(struct, ROWS[struct], types, output.shape or (1,), fields)
        except (ConstraintError, KeyError, ValueError):  # another type, or more operands
            continue
        yield name, node.op_type, desc, [one.reshape(output.shape or (1,)) for one in arrays], output


@pytest.mark.exhaustive
def test_onnx_node_cases():
    found = [*onnx_calls()]
    assert {op_type for _, op_type, *_ in found} == {*ONNX, *BY_ATTRIBUTE}
    assert len(found) > 150
    with jax.enable_x64(True):
        made = together([(desc.compute, *arrays) for *_, desc, arrays, _ in found])
    for (name, _, desc, _, wanted), actual in zip(found, made, strict=True):
        exact = ROWS[desc.operator_type].units is None and wanted.dtype != np.float16
        tolerance = (
            {"rtol": 0, "atol": 0} if exact else {"rtol": 2e-3 if wanted.dtype == np.float16 else 1e-5, "atol": 1e-6}
        )
        np.testing.assert_allclose(actual.reshape(wanted.shape), wanted, **tolerance, err_msg=name)
