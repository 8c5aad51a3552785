"""Python's operators on expressions: the nodes that they add, their results, and their errors."""

import inspect
import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits
from operator_cases import i32

from dml_jax import ConstraintError, DataTypeError, GraphBuilder
from dml_jax.core.structs.size_and_scale_bias import ScaleAndBias
from dml_jax.graphs.expression import Arithmetic

PAGE = (Path(__file__).parents[1] / "docs" / "graphs.md").read_text(encoding="utf-8")


def rows():
    """What each expression of the page's table adds; a row has one operator for each, or one for all."""
    section = PAGE.split("\n### Arithmetic\n")[1].split("\n### ")[0]
    for sources, added in re.findall(r"^\| `(.+)` \| (.+) \|$", section, re.MULTILINE):
        sources, added = sources.replace("\\|", "|").split("`, `"), added.split(", ")
        yield from zip(sources, added * len(sources) if len(added) == 1 else added, strict=True)


ROWS = dict(rows())
X, Y = np.float32([[-7, 2.5], [4, 0.5]]), np.float32([[3, 2], [-1.5, 0.5]])
OPERANDS = {"x": X, "y": Y, "i": np.uint32([[12, 5], [2**31, 0]]), "j": np.uint32([[10, 3], [1, 31]])}


def operator_type(words):
    """DirectML's name, of the last word or of the one before "with"."""
    name = words.partition(" with")[0].split()[-1]
    return name if name == "GEMM" else f"ELEMENT_WISE_{name}"


def written(source, **arrays):
    """The graph of an expression of Python, of inputs with the types and the sizes of arrays."""
    graph = GraphBuilder()
    names = {
        name: graph.input(name, (x.dtype, x.shape)) for name, x in arrays.items() if name in re.findall(r"\w+", source)
    }
    return graph.build({"z": eval(source, {}, names)})


def computed(source, **arrays):
    desc = written(source, **arrays)
    return desc.compute(*(arrays[name] for name in desc.inputs))


def by_numpy(source, **arrays):
    """What NumPy computes; its % has the sign of the divisor, and its truths are bools."""
    source = re.sub(r"(\w+) % (\w+)", r"fmod(\1, \2)", re.sub(r"\.equals\((\w+)\)", r" == \1", source))
    result = eval(source, {"fmod": np.fmod}, arrays)
    return result.astype(np.uint8) if result.dtype == bool else result


@pytest.mark.parametrize("source", ROWS)
def test_an_operator_of_python_adds_that_of_directml(source):
    words = ROWS[source]
    types = [node.operator_type for node in written(source, **OPERANDS).nodes.values()]
    assert types == [*(["CONSTANT"] if "CONSTANT and " in words else []), operator_type(words)]
    result = computed(source, **OPERANDS)
    expected = by_numpy(source, **OPERANDS)
    if "**" in source:
        np.testing.assert_allclose(result, expected, rtol=1e-6)
    else:
        assert_same_bits(result, expected)


def test_the_page_has_every_operator():
    methods = {name: value for name, value in vars(Arithmetic).items() if inspect.isfunction(value)}
    assert methods.pop("__bool__")
    shown = {operator_type(words) for words in ROWS.values()}
    assert shown == {value.__name__.upper() for value in methods.values()} | {"ELEMENT_WISE_CONSTANT_POW"}


# Numbers.


@pytest.mark.thinned
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8"])
@pytest.mark.parametrize(
    "source", ["x + 3", "3 + x", "x - 3", "3 - x", "x * 3", "3 * x", "x / 2", "7 / x", "x % 3", "7 % x"]
)
def test_numbers_have_the_type_of_the_expression(source, dtype):
    x = np.array([1, 2, 5, 6], dtype)
    result = computed(source, x=x)
    with np.errstate(all="ignore"):
        expected = by_numpy(source.replace("/", "//") if "int" in dtype else source, x=x)
    assert_same_bits(result, expected.astype(dtype))


def test_a_number_is_a_scale_or_a_bias_where_directmlx_has_one():
    scales = {"x + 3": (1, 3), "3 + x": (1, 3), "x - 3": (1, -3), "3 - x": (-1, 3), "x * 3": (3, 0), "3 * x": (3, 0)}
    for source, (scale, bias) in scales.items():
        (node,) = written(source, x=X).nodes.values()
        assert node.scale_bias == ScaleAndBias(scale, bias)


def test_a_number_that_no_float_holds_is_a_constant(x64):
    x = np.int64([1, -1]) if x64 else np.int32([1, -1])
    big = 2**40 + 1 if x64 else 2**24 + 1
    nodes = written(f"x + {big}", x=x).nodes.values()
    assert [node.operator_type for node in nodes] == ["CONSTANT", "ELEMENT_WISE_ADD"]
    assert_same_bits(computed(f"x + {big}", x=x), x + big)


def test_numbers_of_numpy_are_numbers():
    graph = GraphBuilder()
    x = graph.input("x", ("FLOAT32", (2,)))
    y = np.float64(2) * x + np.int8(1)
    assert_same_bits(graph.build([np.float32(9) - y]).compute(np.float32([1, 2])), np.float32([6, 4]))


# Sizes.


@pytest.mark.parametrize(
    ("one", "other"),
    [((2, 3), (3,)), ((3,), (2, 1)), ((2, 3), (1,)), ((2, 1, 3), (4, 1)), ((1, 3, 1, 1), (2, 3, 4, 2)), ((1,), (1, 1))],
)
def test_sizes_are_broadcast_as_those_of_numpy(one, other):
    x, y = (np.arange(np.prod(sizes), dtype=np.int32).reshape(sizes) + 1 for sizes in (one, other))
    desc = written("x * y", x=x, y=y)
    assert_same_bits(desc.compute(x, y), x * y)
    (node,) = desc.nodes.values()
    for tensor, array in ((node.a, x), (node.b, y)):
        repeated = np.broadcast_to(array, desc.compute(x, y).shape)
        assert tensor.total_tensor_size_in_bytes == array.nbytes
        assert tensor.is_packed or tensor.strides == tuple(bytes // 4 for bytes in repeated.strides)


def test_a_tensor_with_strides_is_broadcast_too():
    graph = GraphBuilder()
    x, y = graph.input("x", i32(2, 1, strides=(3, 7))), graph.input("y", ("INT32", (2, 2)))
    desc = graph.build([x - y])
    assert desc.nodes["element_wise_subtract_0"].a.strides == (3, 0)
    assert_same_bits(desc.compute(np.int32([[5], [8]]), np.int32([[1, 2], [3, 4]])), np.int32([[4, 3], [5, 4]]))


def test_batches_of_matrices_are_broadcast():
    x, y = np.arange(24, dtype=np.float32).reshape(2, 1, 3, 4), np.arange(20, dtype=np.float32).reshape(4, 5)
    assert_same_bits(computed("x @ y", x=x, y=y), x @ y)
    assert_same_bits(computed("y @ x", x=y.reshape(5, 4)[:2], y=x[0, :, :, :2]), x[0, :, :, :2] @ y.reshape(5, 4)[:2])


def test_an_operator_may_stand_before_an_assignment():
    graph = GraphBuilder()
    x = y = graph.input("x", ("INT32", (2,)))
    y += x
    y *= 3
    assert_same_bits(graph.build([y]).compute(np.int32([1, 2])), np.int32([6, 12]))


# What is Python's, and what is refused.


def test_equality_is_that_of_objects():
    graph = GraphBuilder()
    x = graph.input("x", ("INT32", (2,)))
    y = graph.reinterpret(x, (2,))
    assert x == x
    assert x != y
    assert len({x, y, x}) == 2
    assert y not in (x,)


REFUSED = {
    "a tensor has no truth value while its graph is written": lambda x: bool(x),
    "truth value .* compare twice instead of 0 < x < 1": lambda x: 0 < x < 1,
    r"ELEMENT_WISE_ADD: both operands must be .* one is float32\[2\]: graph.constant": (
        lambda x: x + np.ones(2, np.float32)
    ),
    "ELEMENT_WISE_SUBTRACT: both operands must be": lambda x: np.ones(2, np.float32) - x,
    "ELEMENT_WISE_MULTIPLY: both operands must be": lambda x: jnp.ones(2) * x,
    "ELEMENT_WISE_MULTIPLY: both operands must be .* one is False: .* a.equals": lambda x: (x == 0) * x,
    "ELEMENT_WISE_DIVIDE: both operands must be .* one is 'a'": lambda x: x / "a",
    "ELEMENT_WISE_LOGICAL_EQUALS: both operands must be .* one is None": lambda x: x.equals(None),
    "GEMM: both operands must be .* one is 1j": lambda x: x @ 1j,
    "ELEMENT_WISE_ADD: a scalar of UINT8 must be a number that it holds, but it is 300": lambda x: x + 300,
    "a scalar of UINT8 must be a number that it holds, but it is -1": lambda x: x * -1,
    "a scalar of UINT8 must be a number that it holds, but it is 0.5": lambda x: x > 0.5,
    "a scalar of UINT8 must be a number that it holds, but it is nan": lambda x: x - float("nan"),
    r"ELEMENT_WISE_MULTIPLY: sizes must be equal, or 1, .* they are \(2, 3\) and \(3, 2\)": (
        lambda x: x * x.graph.reinterpret(x, (3, 2))
    ),
    r"GEMM: sizes before the last two must be equal, .* they are \(2,\) and \(3,\)": (
        lambda x: x.graph.reinterpret(x, (2, 3, 1)) @ x.graph.reinterpret(x, (3, 1, 2))
    ),
    "ELEMENT_WISE_ADD: BTensor must be an Expression of this graph": (
        lambda x: x + GraphBuilder().input("x", ("UINT8", (2, 3)))
    ),
    "ELEMENT_WISE_BIT_AND: BTensor.DataType must equal ATensor.DataType": lambda x: x & x.graph.cast(x, output="INT8"),
}


@pytest.mark.parametrize("words", REFUSED)
def test_a_mistake_is_refused_with_what_would_be_accepted(words):
    x = GraphBuilder().input("x", ("UINT8", (2, 3)))
    with pytest.raises(ConstraintError, match=words):
        REFUSED[words](x)


def test_other_types_and_truth_values_are_type_errors():
    x = GraphBuilder().input("x", ("UINT8", (2, 3)))
    for wrong in (lambda: x + "a", lambda: bool(x), lambda: x + 300):
        with pytest.raises(DataTypeError):
            wrong()


def test_a_refused_operator_leaves_no_constant():
    """DIVIDE takes no FLOAT64."""
    graph = GraphBuilder()
    x = graph.input("x", ("FLOAT64", (2,)))
    with pytest.raises(ConstraintError, match="ELEMENT_WISE_DIVIDE"):
        x / 3
    third = graph.constant(np.float64([3]))
    nodes = graph.build([graph.cast(third, output="INT8"), graph.cast(x, output="INT8")]).nodes
    assert {*nodes} == {"constant_0", "cast_0", "cast_1"}


def test_help_names_the_operator():
    x = GraphBuilder().input("x", ("FLOAT32", (2,)))
    assert x.equals.__doc__ == "Adds ELEMENT_WISE_LOGICAL_EQUALS to the graph."
