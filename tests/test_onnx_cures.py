"""What errors tell to do about int64 inputs and values that must be known: the arguments of to_jax, by name."""

import jax
import numpy as np
import onnx
import pytest

import dml_jax
from dml_jax.onnx import NotConstantError, to_jax

HEADER = '<ir_version: 10, opset_import: ["": 21, "own": 1]>\n'
X, IDS, ONE = np.float32([1, 2, 3]), np.int32([[1, 0]]), np.int32([1])


def parsed(text):
    return onnx.parser.parse_model(HEADER + text)


def told(function, *inputs):
    """What a jitted call says; None if it is right."""
    try:
        jax.eval_shape(jax.jit(function), *inputs)
    except dml_jax.ConstraintError as error:
        return str(error)
    return None


# Inputs of int64, which JAX cuts to int32.

TEXT = """
text (int64[b, t] ids, int64[b, t] mask, int64[1] k) => (float rows, int64 weighed)
<float[4] table = {1, 2, 3, 4}, int64 one = {1}, int64[1] zero = {0}>
{
    rows = Gather (table, ids)
    weighed = WEIGHED (mask, one)
    first = Slice (rows, zero, OF_K)
}"""
CUT = {
    "int32": ("zero", "Mul", "say to_jax(model, int32=['ids', 'mask', 'k']), and give int32 arrays"),
    "x64": (
        "zero",
        "Add",
        "put jax.enable_x64(True) around the call, its jit included, or, if int8 or bool holds the numbers of 'mask', "
        "give it so, and say to_jax(model, int32=['ids', 'mask', 'k'])",
    ),
    "static, too": ("k", "Mul", "say to_jax(model, int32=['ids', 'mask'], static={'k': value}), and give int32 arrays"),
    "x64 and static": (
        "k",
        "Add",
        "put jax.enable_x64(True) around the call, its jit included, and say to_jax(model, static={'k': value})",
    ),
}


@pytest.mark.parametrize("name", CUT)
def test_cut_inputs_are_told_the_shortest_call_that_works(name):
    """The first message is enough: what it says works, and nothing else has to be found out."""
    end, weighed, cure = CUT[name]
    text = TEXT.replace("WEIGHED", weighed).replace("OF_K", end)
    proto = parsed(text if end == "zero" else text.replace("float rows,", "float first,"))
    inputs = {"ids": IDS, "mask": IDS, "k": ONE}
    seen = told(to_jax(proto), *inputs.values())
    assert seen == f"input 'ids': its type must be int64, but it is int32, as JAX makes it while x64 is off: {cure}"
    static = {"k": [1]} if "static" in cure else {}
    given = [x for key, x in inputs.items() if key not in static]
    int32 = [key for key in inputs if key not in static] if "int32=" in cure else []
    with jax.enable_x64("x64" in cure):
        assert told(to_jax(proto, int32=int32, static=static), *given) is None


def test_inputs_that_were_declared_stay_in_the_call_that_is_told():
    proto = parsed(TEXT.replace("WEIGHED", "Mul").replace("OF_K", "zero"))
    seen = told(to_jax(proto, int32=["mask"], static={"k": [1]}), IDS, IDS)
    assert seen.endswith(": say to_jax(model, int32=['ids', 'mask']), and give int32 arrays")


def test_floats_of_64_bits_need_x64():
    proto = parsed("f (double[n] x) => (double y) { y = Neg (x) }")
    assert told(to_jax(proto), X).endswith(": put jax.enable_x64(True) around the call, its jit included")


@pytest.mark.parametrize("kind", ["seq(int64[n])", "optional(int64[n])"])
def test_sequences_and_optionals_of_64_bits_need_x64(kind):
    """Nothing is tried for them: int32= takes tensors alone."""
    proto = parsed("f (float[n] x) => (float y) { y = Identity (x) }")
    proto.graph.input[0].type.CopyFrom(parsed(f"f ({kind} x) => (float y) {{ y = Identity (x) }}").graph.input[0].type)
    given = [ONE] if kind.startswith("seq") else ONE
    assert told(to_jax(proto), given).endswith(": put jax.enable_x64(True) around the call, its jit included")


def test_both_ways_are_told_if_neither_works_alone():
    proto = parsed(
        "f (int64[n] i, float[2] x) => (int64 j, float y) <float[3] z = {1, 2, 3}> { j = Neg (i) y = Add (x, z) }"
    )
    assert told(to_jax(proto), ONE, X[:2]).endswith(
        ": put jax.enable_x64(True) around the call, its jit included, or say to_jax(model, int32=['i'])"
    )


# Values that must be known.

LISTEN = """
listen (float[length] sound, float[3] state, int64 rate) => (float wave)
<int64 high = {16000}>
{
    is_high = Equal (rate, high)
    [choice] wave = If (is_high) <
        then_branch = a () => (float long) { [join] long = Concat <axis = 0> (sound, state) },
        else_branch = b () => (float sum) { [add] sum = Add (sound, state) }>
}"""


def test_a_branch_that_cannot_be_compiled_names_the_input_behind_the_condition():
    """The rate decides for the first branch; the second has no meaning for five numbers and three."""
    sound = np.float32([1, 2, 3, 4, 5])
    seen = told(to_jax(parsed(LISTEN), int32=["rate"]), sound, X, np.int32(16000))
    assert seen.startswith(
        "If node 'choice': cond must be known, because a branch cannot be compiled, but it depends on the data of an "
        "input; `to_jax(model, static={'rate': value})` makes an input known. The branch fails so: Add node 'add': "
    )
    made = jax.jit(to_jax(parsed(LISTEN), static={"rate": 16000}))(sound, X)
    np.testing.assert_array_equal(made, [1, 2, 3, 4, 5, 1, 2, 3])


def test_branches_of_different_types_name_the_input_behind_the_condition():
    seen = told(to_jax(parsed(LISTEN), int32=["rate"]), X, X, np.int32(16000))
    assert "its branches give different types, float32[6] and float32[3]" in seen
    assert seen.endswith("`to_jax(model, static={'rate': value})` makes an input known")


DECIDING = {
    "of a node": ("", "y = Reshape (x, m)"),
    "in a function": (
        '<domain: "own", opset_import: ["": 21]> F (a, b) => (c) { d = Identity (b) c = Reshape (a, d) }',
        "y = own.F (x, m)",
    ),
    "in a branch": (
        "",
        """y = If (flag) <then_branch = a () => (float p) { p = Reshape (x, m) },
                         else_branch = b () => (float q) { q = Identity (x) }>""",
    ),
    "in a loop": (
        "",
        """y = Loop (two, , x) <body = c (int64 i, bool go, float[r] v) => (bool on, float[r] w) {
               on = Identity (go) w = Reshape (v, m) }>""",
    ),
}


@pytest.mark.parametrize("where", DECIDING)
def test_what_decides_a_shape_is_named_by_the_input_that_it_comes_from(where):
    """Not by those that decide nothing: the data, and inputs whose sizes alone are read."""
    function, node = DECIDING[where]
    proto = parsed(
        f"""f (float[n] x, int64[1] n, int64[k] sized, bool flag) => (float y) <int64 two = {{2}}>
        {{ s = Shape (sized) m = Mul (n, s) {node} }} {function}"""
    )
    given = X, np.int32([3]), ONE, np.array(True)
    seen = told(to_jax(proto, int32=["n", "sized"]), *given)
    assert "shape must be a constant or follow from shapes" in seen
    assert seen.endswith("by `to_jax(model, static={'n': value})`")


def test_what_no_input_decides_keeps_the_general_form():
    proto = parsed("f (float[n] x) => (float y) <int64[1] size = {3}> { y = Reshape (x, size) }")
    function = to_jax(proto)
    with jax.enable_x64(True), pytest.raises(NotConstantError, match=r"static=\{name: value\}"):
        jax.jit(lambda size: function(X, parameters={"size": size}))(np.int32([3]))


# Masks that are added up, as in language models, which count positions so.

POSITIONS = """
text (int64[b, t] ids, int64[b, t] mask) => (float[b, t] rows, int64[b, t] positions)
<float[4] table = {1, 2, 3, 4}, int64 axis = {1}, int64 one = {1}>
{
    rows = Gather (table, ids)
    sums = CumSum (mask, axis)
    positions = Sub (sums, one)
}"""
MASK = np.array([[True, False]])


def test_a_mask_that_is_added_up_is_told_to_be_narrow():
    seen = told(to_jax(parsed(POSITIONS)), IDS, MASK.astype(np.int32))
    fit = "if int8 or bool holds the numbers of 'mask', give it so"
    assert seen.endswith(f", or, {fit}, and say to_jax(model, int32=['ids', 'mask'])")
    seen = told(to_jax(parsed(POSITIONS), int32=["ids", "mask"]), IDS, MASK.astype(np.int32))
    assert seen.endswith("or give an input that int32= names as int8 or bool, if it is a mask")


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int16, np.uint16])
@pytest.mark.parametrize("is_wide", [False, True])
def test_a_declared_input_of_a_narrow_type_has_its_range(dtype, is_wide):
    function = to_jax(parsed(POSITIONS), int32=["ids", "mask"])
    with jax.enable_x64(is_wide):
        rows, positions = jax.jit(function)(IDS, MASK.astype(dtype))
        at_once = function(IDS, MASK.astype(dtype))
    assert rows.tolist() == at_once[0].tolist() == [[2, 1]]
    assert positions.tolist() == at_once[1].tolist() == [[0, 0]]
    assert positions.dtype == (np.int64 if is_wide else np.int32)


def test_what_is_wider_than_int32_is_no_declared_input():
    with pytest.raises(dml_jax.DataTypeError, match="input 'mask': its type must be int32, but it is uint32"):
        to_jax(parsed(POSITIONS), int32=["ids", "mask"])(IDS, MASK.astype(np.uint32))
