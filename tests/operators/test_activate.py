"""activate, and the operators that are one activation each. tests/test_activations.py has the formulas.

DirectML documents no numbers of them but those of ELU, fused with a sum: the examples are what float64 says.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from activation_structs import exact, exact_of, make, struct_of
from checks import (
    assert_calls_agree,
    assert_close,
    assert_same_bits,
    exported,
    refused_without_x64,
    sampled,
    together,
)
from jax.sharding import PartitionSpec as P
from jax.test_util import check_grads
from operator_cases import Call, f32, i32
from oracles import coordinates
from small_arrays import every_small_shape, numbered, on_explicit_mesh, random_keys
from variant_cases import chosen_on

from dml_jax import (
    Activation,
    ActivationSoftmaxDesc,
    ActivationSoftplusDesc,
    ConstraintError,
    DataTypeError,
    activate,
    add,
    compile_operator,
    desc_from_json,
    use_form,
)
from dml_jax.catalogue import STRUCTS as CLASSES
from dml_jax.core.structs.size_and_scale_bias import ScaleAndBias

pytestmark = pytest.mark.device


def oracle(input, activation):
    if input.dtype.kind not in "iu":
        return exact(input, activation).astype(input.dtype)
    if activation.operator_type == "ACTIVATION_RELU":
        return np.maximum(input, 0)
    return shrunk(input, *activation.parameters)


def shrunk(input, bias, threshold):
    """SHRINK of integers: both numbers lose what follows the point, and sums wrap."""
    output, limits = np.empty_like(input), np.iinfo(input.dtype)
    bias, threshold = (min(max(int(one), int(limits.min)), int(limits.max)) for one in (bias, threshold))
    for c in coordinates(input.shape):
        x = int(input[c])
        made = x - bias if x > threshold else x + bias if x < -threshold else 0
        output[c] = (made - int(limits.min)) % 2**limits.bits + int(limits.min)
    return output


RELU, SOFTMAX = Activation("ACTIVATION_RELU"), Activation("ACTIVATION_SOFTMAX")
SHRINK = Activation("ACTIVATION_SHRINK", (1.5, 2.5))
X = numbered((3, 4)) - 6
CASE = Call(activate, {"input": X}, {"activation": Activation("ACTIVATION_LEAKY_RELU", (0.5,))}, is_linear=False)
BREAKS = {
    "computed_by(activation)": {"input": X.astype(np.int32)},
    "axes_within(activation)": {"activation": Activation("ACTIVATION_SOFTMAX1", ((0, 2),))},
}
# Those whose numbers are exact here.
VARIANTS = {
    "hard sigmoid": {"activation": Activation("ACTIVATION_HARD_SIGMOID", (0.25, 0.5))},
    "linear": {"activation": Activation("ACTIVATION_LINEAR", (-2, 0.5))},
    "relu": {"activation": RELU},
    "relu of integers": {"input": np.int8([[-128, 127], [0, 5]]), "activation": RELU},
    "shrink": {"activation": SHRINK},
    "shrink of integers": {"input": np.int8([[-128, 127], [3, 2]]), "activation": SHRINK},
    "shrink of unsigned integers": {"input": np.uint8([[0, 255], [3, 2]]), "activation": SHRINK},
    "thresholded relu": {"activation": Activation("ACTIVATION_THRESHOLDED_RELU", (-2,))},
    "clip": {"activation": Activation("ELEMENT_WISE_CLIP", (ScaleAndBias(2, 1), -3, 4))},
    "float16": {"input": X.astype(np.float16)},
}


# The structs: of each, parameters, the first ones those of the examples.

PARAMETERS = {
    "ACTIVATION_CELU": [(0.5,), (1,), (-0.5,)],
    "ACTIVATION_ELU": [(0.5,), (2.5,)],
    "ACTIVATION_GELU": [()],
    "ACTIVATION_HARD_SIGMOID": [(0.25, 0.5), (-0.2, 0.3)],
    "ACTIVATION_IDENTITY": [()],
    "ACTIVATION_LEAKY_RELU": [(0.25,), (-2,)],
    "ACTIVATION_LINEAR": [(2, -1), (-0.3, 0.7)],
    "ACTIVATION_PARAMETRIC_SOFTPLUS": [(2, 0.5), (-2, 3)],
    "ACTIVATION_RELU": [()],
    "ACTIVATION_SCALED_ELU": [(2, 0.5), (1.6732632, 1.050701)],
    "ACTIVATION_SCALED_TANH": [(2, 0.5), (-2, 0.25)],
    "ACTIVATION_SHRINK": [(0.5, 1), (0, 0.5), (2.75, 1.5), (1, -0.5)],
    "ACTIVATION_SIGMOID": [()],
    "ACTIVATION_SOFTMAX": [()],
    "ACTIVATION_SOFTMAX1": [((2,),), ((1, 3),)],
    "ACTIVATION_SOFTPLUS": [(2,), (0.5,)],
    "ACTIVATION_SOFTSIGN": [()],
    "ACTIVATION_TANH": [()],
    "ACTIVATION_THRESHOLDED_RELU": [(1,), (-0.5,)],
}
# Bits are compared where nothing is rounded.
EXACT = {"ACTIVATION_IDENTITY", "ACTIVATION_RELU", "ACTIVATION_SHRINK", "ACTIVATION_THRESHOLDED_RELU"}
BREAKS_OF = {
    "ACTIVATION_SOFTMAX": {"effective_rank": dict.fromkeys(("input", "output"), f32(1, 2, 1, 3))},
    "ACTIVATION_SOFTMAX1": {"axes_within(axes)": {"axes": (1, 4)}},
}


def expected(name):
    """Integers are exact."""
    if name not in EXACT:
        return exact_of
    return lambda desc, x: oracle(x, desc.activation)


STRUCTS = tuple(
    struct_of(
        name, parameters, breaks=BREAKS_OF.get(name, {}), expected=expected(name), units=None if name in EXACT else 8
    )
    for name, parameters in PARAMETERS.items()
)


def test_directmls_documented_numbers():
    """ELU of 6, 10 and -2, which ELEMENT_WISE_ADD1 is fused with."""
    desc = make("ACTIVATION_ELU", f32(3), f32(3), (0.5,))
    assert [f"{x:g}" for x in desc.compute(np.float32([6, 10, -2])).tolist()] == ["6", "10", "-0.432332"]


@pytest.mark.parametrize("name", PARAMETERS)
def test_what_executes_in_place(name):
    """All but softmax."""
    assert CLASSES[name].in_place == (not name.startswith("ACTIVATION_SOFTMAX"))


def test_in_place():
    x = jnp.float32([-1, 2, -3])
    made = compile_operator(make("ACTIVATION_RELU", f32(3), f32(3), ()))(x, out=x)
    assert x.is_deleted()
    assert_same_bits(made, np.float32([0, 2, 0]))


def test_softplus_was_steep_below_6_4():
    flat = ActivationSoftplusDesc(f32(1, 1, 1, 3), f32(1, 1, 1, 3), 0.5)
    flat.validate("6_4")
    with pytest.raises(ConstraintError, match=r"Steepness must be at least 1, but it is 0\.5"):
        flat.validate("6_3")
    ActivationSoftplusDesc(f32(1, 1, 1, 3), f32(1, 1, 1, 3), 1).validate("1_0")


def test_softmax_has_two_dimensions():
    """And leading ones of size 1; SOFTMAX1 along the last one is the same."""
    ActivationSoftmaxDesc(f32(1, 1, 2, 3), f32(1, 1, 2, 3))
    with pytest.raises(ConstraintError, match="without leading sizes of 1 must be at most 2, but it is 3"):
        ActivationSoftmaxDesc(f32(1, 2, 1, 3), f32(1, 2, 1, 3))


@pytest.mark.parametrize(
    ("form", "match"),
    [
        ({}, "Axes is missing"),
        ({"Axes": []}, r"must be different dimensions of InputTensor, one at least, but they are \(\)"),
        ({"Axes": [1, 1]}, "but they are"),
        ({"Axes": [0], "AxisCount": 2}, "AxisCount"),
    ],
)
def test_json_that_is_refused(form, match):
    tensor = {"DataType": "FLOAT32", "Sizes": [2, 3]}
    desc = {"InputTensor": tensor, "OutputTensor": tensor, **form}
    with pytest.raises(ConstraintError, match=match):
        desc_from_json({"type": "DML_OPERATOR_ACTIVATION_SOFTMAX1", "desc": desc})


# Against the oracle.


@every_small_shape
def test_shapes(shapes):
    assert_calls_agree(
        (partial(activate, activation=SHRINK), (numbered(shape),), oracle(numbered(shape), SHRINK))
        for shape in [(), (0,), (2, 0), *shapes]
    )


@pytest.mark.parametrize("name", ["ACTIVATION_TANH", "ACTIVATION_SOFTMAX"])
def test_float16_is_computed_in_float32(name):
    x = np.linspace(-5, 5, 12, dtype=np.float16).reshape(3, 4)
    assert_close(activate(x, Activation(name)), exact(x, Activation(name)), units=8)


@pytest.mark.exhaustive
@pytest.mark.variants
@pytest.mark.parametrize("dtype", sampled(["float16", "bfloat16"], ["bfloat16"]))
def test_softmax_in_chunks(dtype, monkeypatch):
    """Of rows, of columns inside of a chunk, and along the dimension that would be cut, which is not."""
    monkeypatch.setattr("dml_jax.lowering.cpu.cache_chunks.CHUNK", 2**10)
    monkeypatch.setattr("dml_jax.lowering.cpu.cache_chunks.FRESH", 0)
    rng, calls = np.random.default_rng(3), []
    for shape, axes in (((37, 29), (1,)), ((3, 9, 20), (1, 2)), ((37, 29), (0,)), ((1, 7, 61), (2,))):
        x = rng.uniform(-3, 3, shape).astype(dtype)
        calls.append((partial(activate, activation=Activation("ACTIVATION_SOFTMAX1", (axes,))), x))
    x, w = jnp.asarray(calls[0][1]), rng.uniform(-1, 1, (37, 29)).astype(dtype)
    back = lambda x: jax.jit(jax.grad(lambda x: (calls[0][0](x) * w).sum()))(x)  # noqa: E731
    with use_form("plain"):
        expected = back(x)
    with use_form("cache_chunks"):
        made = together(calls)
        assert_same_bits(back(x), expected)
    for one, (function, x) in zip(made, calls, strict=True):
        assert one.dtype == dtype
        assert_close(one, exact(x, function.keywords["activation"]), units=16)


@pytest.mark.variants
def test_which_softmax_is_computed_in_chunks():
    softmax = partial(activate, activation=Activation("ACTIVATION_SOFTMAX"))
    small, large = (jax.ShapeDtypeStruct((rows, 1024), np.float16) for rows in (1024, 8192))
    assert chosen_on("cpu", softmax, large) == {"cache_chunks"}
    assert chosen_on("cpu", softmax, small) == chosen_on("cuda", softmax, large) == set()


def test_what_overflows_on_the_way_does_not():
    """65504 * 2 is out of float16's range."""
    x = np.float16([65504, 3])
    made = activate(x, Activation("ELEMENT_WISE_CLIP", (ScaleAndBias(2, -65504), 0, 65504)))
    assert_same_bits(made, np.float16([65504, 0]))


@pytest.mark.thinned(2)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32])
def test_shrink_of_integers_far_from_0(dtype):
    """A threshold that the type does not hold is the nearest one."""
    limits = np.iinfo(dtype)
    x = np.array([limits.min, 0, 1, 5, limits.max], dtype)
    for parameters in ((0.5, 0.5), (3, 1e12), (-2.7, 4.9)):
        activation = Activation("ACTIVATION_SHRINK", parameters)
        assert_same_bits(activate(x, activation), oracle(x, activation))


def test_64_bit_numbers_need_x64(x64):
    wide = np.float64([1 + 2.0**-40, -1])
    with refused_without_x64("input of type float64"):
        assert_same_bits(activate(wide, RELU), np.float64([1 + 2.0**-40, 0]))
        assert_same_bits(activate(np.int64([2**40, -(2**40)]), RELU), np.int64([2**40, 0]))


def test_an_empty_softmax():
    assert activate(np.zeros((0, 3), np.float32), SOFTMAX).shape == (0, 3)
    assert activate(np.zeros((3, 0), np.float32), SOFTMAX).shape == (3, 0)


def test_what_is_fused_is_the_same():
    a, b = X / 4, X[::-1] / 8
    tanh = Activation("ACTIVATION_TANH")
    assert_same_bits(activate(add(a, b), tanh), add(a, b, activation=tanh))


# Transformations and meshes.


def test_derivatives():
    check_grads(jax.jit(partial(activate, activation=SOFTMAX)), (X / 8,), order=1, atol=0.02, rtol=0.02)
    corners = np.float32([-2, 0, 2])
    for activation in (Activation("ACTIVATION_HARD_SIGMOID", (0.25, 0.5)), RELU):
        assert jax.jit(jax.grad(lambda x, one=activation: activate(x, one).sum()))(corners)[0] == 0


def test_vmap_moves_the_dimensions_of_softmax():
    batch = numbered((2, 3, 4)) / 8
    for axes in ((0,), (1,), (0, 1)):
        activation = Activation("ACTIVATION_SOFTMAX1", (axes,))
        mapped = jax.jit(jax.vmap(partial(activate, activation=activation), in_axes=1, out_axes=1))(batch)
        for i in range(3):
            assert_close(mapped[:, i], exact(batch[:, i], activation), units=8)


def test_symbolic_sizes_are_exported():
    for activation in (RELU, Activation("ACTIVATION_SOFTMAX1", ((0,),))):
        call = exported(partial(activate, activation=activation), "n, m").call
        assert_close(call(X / 4), exact(X / 4, activation), units=8)


def test_softmax_along_what_is_sharded_keeps_its_sharding():
    x = on_explicit_mesh(X / 4, None, "d")
    made = activate(x, SOFTMAX)
    assert jax.typeof(made).sharding.spec == P(None, "d")
    assert_close(made, exact(X / 4, SOFTMAX), units=8)
    along_rows = activate(x, Activation("ACTIVATION_SOFTMAX1", ((0,),)))
    assert jax.typeof(along_rows).sharding.spec == P(None, "d")


# Mistakes.


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ((3, RELU), DataTypeError, "input must be an array"),
        ((X, "RELU"), DataTypeError, "activation must be an Activation, but it is str"),
        ((X, None), DataTypeError, "activation must be an Activation, but it is NoneType"),
        ((X, jax.nn.relu), DataTypeError, "activation must be an Activation"),
        ((X > 0, RELU), DataTypeError, "or an integer type if activation takes it, but it is bool"),
        ((X.astype(np.complex64), RELU), DataTypeError, "it is complex64, and the activation ACTIVATION_RELU"),
        ((random_keys(2), RELU), DataTypeError, "it is key<fry>"),
        ((X.astype(np.int8), Activation("ACTIVATION_ELU")), DataTypeError, r"activation ACTIVATION_ELU\(Alpha=1\.0\)"),
        ((np.float32(1), SOFTMAX), ConstraintError, r"but they are \(-1,\) and there are 0 dimensions"),
    ],
)
def test_what_is_refused(arguments, error, match):
    with pytest.raises(error, match=match):
        activate(*arguments)


def test_parameters_are_numbers():
    for wrong in ("1", None, True, [1]):
        with pytest.raises(DataTypeError, match="Alpha must be a real number"):
            make("ACTIVATION_ELU", f32(3), f32(3), (wrong,))
    with pytest.raises(DataTypeError, match=r"InputTensor\.DataType must be one of FLOAT32, FLOAT16"):
        make("ACTIVATION_TANH", *(i32(3),) * 2, ())
