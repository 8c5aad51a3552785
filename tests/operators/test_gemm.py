"""gemm and GEMM: activation(alpha * op(a) @ op(b) + beta * c)."""

from functools import partial

import jax
import numpy as np
import pytest
from activation_cases import activated
from checks import assert_calls_agree, assert_close, assert_same_bits, assert_sharded, exported
from draws import dims, normal_numbers
from jax.sharding import PartitionSpec as P
from jax.test_util import check_grads
from operator_cases import Call, Example, Struct, f32
from oracles import coordinates
from refusals import refuses
from small_arrays import numbered, on_explicit_mesh, random_keys

from dml_jax import Activation, ConstraintError, DataTypeError, GemmDesc, MatrixTransform, compile_operator, gemm
from dml_jax.core.structs.size_and_scale_bias import ScaleAndBias

pytestmark = pytest.mark.device


def exact(a, b, c=None, trans_a=False, trans_b=False, alpha=1.0, beta=1.0, activation=None):
    """In float64, one product after the other."""
    a, b = (x.swapaxes(-1, -2) if trans else x for x, trans in ((a, trans_a), (b, trans_b)))
    output = np.zeros((*a.shape[:-1], b.shape[-1]))
    for *batch, m, n in coordinates(output.shape):
        total = sum(float(a[*batch, m, k]) * float(b[*batch, k, n]) for k in range(a.shape[-1]))
        output[*batch, m, n] = alpha * total + (beta * float(c[*batch, m, n]) if c is not None and beta else 0)
    return output if activation is None else activated(output, activation)


def oracle(a, b, c=None, **attributes):
    return exact(a, b, c, **attributes).astype(a.dtype)


RELU, LEAKY_RELU = Activation("ACTIVATION_RELU"), Activation("ACTIVATION_LEAKY_RELU", (0.5,))
A, B, C = numbered((2, 3)) - 4, numbered((3, 4)) - 6, numbered((2, 4))
CASE = Call(
    gemm,
    {"a": A, "b": B, "c": C},
    {"trans_a": False, "trans_b": False, "alpha": 2, "beta": -3, "activation": LEAKY_RELU},
    is_linear=False,
)
EMPTY = {"a": np.zeros((2**40, 0), np.float32), "b": np.zeros((0, 2**40), np.float32)}
BREAKS = {
    "minimum_rank(a, 2)": {"a": A[0]},
    "minimum_rank(b, 2)": {"b": B[0]},
    "float(a)": {"a": A.astype(np.int32)},
    "same_dtype(b, a)": {"b": B.astype(np.float16)},
    "same_dtype(c, a)": {"c": C.astype(np.float16)},
    "same_batch(b, a)": {"b": B[None]},
    "same_inner_size(a, b)": {"b": B[1:]},
    "representable": EMPTY,
    "sizes_follow(c)": {"c": C[:1]},
    "axes_within(activation)": {"activation": Activation("ACTIVATION_SOFTMAX1", ((2,),))},
}
VARIANTS = {
    "without c": {"c": None, "activation": None},
    "transposed a": {"a": A.T.copy(), "trans_a": True},
    "transposed b": {"b": B.T.copy(), "trans_b": True},
    "transposed both": {"a": A.T.copy(), "b": B.T.copy(), "trans_a": True, "trans_b": True, "activation": None},
    "batches": {
        "a": numbered((2, 1, 3, 2)),
        "b": -numbered((2, 1, 3, 1)),
        "c": numbered((2, 1, 2, 1)),
        "trans_a": True,
        "activation": RELU,
    },
    "float16": {"a": A.astype(np.float16), "b": B.astype(np.float16), "c": C.astype(np.float16)},
    "no beta": {"beta": 0},
}


# By example.


def test_a_product_of_matrices_and_what_is_added():
    a, b, c = np.float32([[1, 2], [3, 4]]), np.float32([[1, 0], [10, 1]]), np.float32([[100, 100], [100, 100]])
    assert_same_bits(gemm(a, b), np.float32([[21, 2], [43, 4]]))
    assert_same_bits(gemm(a, b, trans_b=True), np.float32([[1, 12], [3, 34]]))
    assert_same_bits(gemm(a, b, c, alpha=2, beta=0.5), np.float32([[92, 54], [136, 58]]))


# Against the oracle.


def test_shapes_and_transpositions():
    def calls():
        for batch, m, k, n in [((), 1, 1, 1), ((), 2, 3, 1), ((3,), 1, 2, 2), ((2, 1), 3, 1, 2), ((), 2, 0, 2)]:
            a, b, c = numbered((*batch, m, k)), -numbered((*batch, k, n)), numbered((*batch, m, n))
            for trans_a in (False, True):
                for trans_b in (False, True):
                    given = (a.swapaxes(-1, -2) if trans_a else a, b.swapaxes(-1, -2) if trans_b else b)
                    attributes = {"trans_a": trans_a, "trans_b": trans_b, "alpha": 0.5, "beta": 2}
                    yield partial(gemm, **attributes), (*given, c), oracle(*given, c, **attributes)

    assert_calls_agree(calls())


def test_products_are_as_exact_as_float32():
    """TF32 would be off by some ten thousand units."""
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(64, 64)).astype(np.float32) for _ in range(2))
    assert_close(gemm(a, b), exact(a, b), units=256)
    whole = np.full((1, 1), 2**12 + 1, np.float32)
    assert_same_bits(gemm(whole, np.full((1, 1), 2**11 - 1, np.float32)), np.full((1, 1), 4097 * 2047, np.float32))


def test_sixteen_bit_floats_are_rounded_once():
    """2049 is no float16, and 65536 is out of its range."""
    ones = np.ones((1, 2049), np.float16)
    assert_same_bits(gemm(ones, ones, np.full((1, 1), -1, np.float16), trans_b=True), np.full((1, 1), 2048, np.float16))
    linear = Activation("ACTIVATION_LINEAR", (2, 2))
    assert_same_bits(gemm(ones, ones, trans_b=True, activation=linear), np.full((1, 1), 4100, np.float16))
    big = np.full((1, 1), 256, np.float16)
    assert_same_bits(gemm(big, big, alpha=0.5), np.full((1, 1), 32768, np.float16))
    assert_same_bits(gemm(big, big, big, beta=-255), np.full((1, 1), 256, np.float16))


def test_beta_of_0_does_not_read_c():
    for beta in (0.0, -0.0):
        assert_same_bits(gemm(A, B, np.full_like(C, np.nan), beta=beta), oracle(A, B))
    back = jax.jit(jax.grad(lambda c: gemm(A, B, c, beta=0).sum()))(C)
    assert_same_bits(back, np.zeros_like(C))


def test_alpha_of_0_is_multiplied_with():
    infinite = np.float32([[np.inf, 0, 1]])
    np.testing.assert_array_equal(gemm(infinite, B, alpha=0), np.full((1, 4), np.nan, np.float32))
    assert_same_bits(gemm(A, B, C, alpha=0), C)


def test_beta_without_c_is_ignored():
    assert_same_bits(gemm(A, B, beta=np.nan), oracle(A, B))


def test_empty_arrays():
    assert gemm(A[:0], B, C[:0]).shape == (0, 4)
    assert gemm(A, B[:, :0], activation=Activation("ACTIVATION_SOFTMAX")).shape == (2, 0)
    assert_same_bits(gemm(A[:, :0], B[:0], C, beta=2), C * 2)


def test_softmax_is_of_rows_or_of_what_axes_say():
    a, b = A / 4, B / 4
    for axes in ((), ((0,),), ((1,),), ((0, 1),)):
        activation = Activation("ACTIVATION_SOFTMAX1" if axes else "ACTIVATION_SOFTMAX", axes)
        assert_close(gemm(a, b, activation=activation), exact(a, b, activation=activation), units=4)


# The struct.


# Continuous ones, so that what is rounded a little differently is not something else.
FUSED = [
    *(None, None, None, RELU, LEAKY_RELU),
    *(Activation(f"ACTIVATION_{name}") for name in ("CELU", "GELU", "SIGMOID", "SOFTMAX", "SOFTPLUS", "TANH")),
    Activation("ACTIVATION_LINEAR", (0.5, -1)),
    Activation("ELEMENT_WISE_CLIP", (ScaleAndBias(0.5, 1), -1, 2)),
]


def draw(rng):
    *batch, m, n, k = dims(rng, int(rng.integers(3, 6)), 60)
    trans_a, trans_b = (MatrixTransform(int(one)) for one in rng.integers(0, 2, 2))
    number = rng.integers(0, len(FUSED) + 1)
    softmax1 = Activation("ACTIVATION_SOFTMAX1", ((int(rng.integers(0, len(batch) + 2)),),))
    return {
        "a": (*batch, k, m) if trans_a else (*batch, m, k),
        "b": (*batch, n, k) if trans_b else (*batch, k, n),
        "c": (*batch, m, n) if rng.random() < 0.7 else None,
        "output": (*batch, m, n),
        "trans_a": trans_a,
        "trans_b": trans_b,
        "alpha": float(rng.choice([1, 1, -0.3, 2])),
        "beta": float(rng.choice([1, 1, 0, 0.7])),
        "fused_activation": FUSED[number] if number < len(FUSED) else softmax1,
    }


def expected(desc, a, b, c):
    return exact(a, b, c, desc.trans_a, desc.trans_b, desc.alpha, desc.beta, desc.fused_activation)


DESC = GemmDesc(f32(1, 1, 3, 2), f32(1, 1, 3, 4), f32(1, 1, 2, 4), f32(1, 1, 2, 4), 1, 0, 2, 0.5, RELU)
# DirectML's samples; of the second one, 32 ones by 32 ones, a single row and column.
OUTER = GemmDesc(f32(3, 1), f32(1, 3), f32(3, 3), f32(3, 3))
ONES = GemmDesc(f32(1, 1, 1, 32), f32(1, 1, 32, 1), None, f32(1, 1, 1, 1))
STRUCTS = (
    Struct(
        DESC,
        breaks={
            "same_batch(b, a)": {"b": f32(1, 2, 3, 4)},
            "same_inner_size(a, b)": {"b": f32(1, 1, 2, 4)},
            "sizes_follow(c)": {"c": f32(1, 1, 1, 4)},
            "sizes_follow(output)": {"output": f32(1, 1, 4, 2)},
            "axes_within(fused_activation)": {"fused_activation": Activation("ACTIVATION_SOFTMAX1", ((4,),))},
        },
        examples=(
            Example(OUTER, [[1, 2, 3], [4, 5, 6], [2] * 9], [[6, 7, 8, 10, 12, 14, 14, 17, 20]]),
            Example(ONES, [[1] * 32, [1] * 32], [[32]]),
            Example(
                DESC,
                [[1, 0, 0, 1, 2, -1], [1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 0, -1], [0, 0, 0, 0, 4, 4, -60, 4]],
                [[2, 8, 6, 4, 12, 12, 0, 20]],
            ),
        ),
        draw=draw,
        expected=expected,
        fill=normal_numbers,
        units=16,
    ),
)


def test_matrices_are_broadcast_by_strides():
    """A row for every row of the product, a number for all of it, one matrix for two batches."""
    a, b, output = f32(2, 2, 3), f32(2, 3, 2, strides=(0, 2, 1)), f32(2, 2, 2)
    values = [numbered((12,)), numbered((6,))]
    product = values[0].reshape(2, 2, 3) @ values[1].reshape(3, 2)
    row = compile_operator(GemmDesc(a, b, f32(2, 2, 2, strides=(0, 0, 1)), output))
    assert_same_bits(row(*values, np.float32([10, 20])).reshape(2, 2, 2), product + np.float32([10, 20]))
    number = compile_operator(GemmDesc(a, b, f32(2, 2, 2, strides=(0, 0, 0)), output))
    assert_same_bits(number(*values, np.float32([10])).reshape(2, 2, 2), product + np.float32(10))


test_what_the_struct_refuses = refuses(
    DESC,
    ({"trans_a": 2}, ConstraintError, "TransA must be one of NONE, TRANSPOSE, but it is 2"),
    ({"alpha": "1"}, DataTypeError, "Alpha must be a real number, but it is '1'"),
    ({"a": None}, DataTypeError, "ATensor must be a TensorDesc"),
    ({"fused_activation": "RELU"}, DataTypeError, "FusedActivation must be an Activation"),
    ({"b": f32(1, 1, 4, 4)}, ConstraintError, "as many columns as BTensor rows, .* 3 columns and 4"),
    ({"c": f32(1, 1, 1, 4)}, ConstraintError, r"CTensor.Sizes must be those of the product: .*\(1, 1, 1, 4\)"),
    ({"b": f32(3, 3, 3, 4)}, ConstraintError, r"BTensor.Sizes before the last two must .*\(3, 3\) and"),
)


def test_names_of_transforms():
    for name in ("TRANSPOSE", "DML_MATRIX_TRANSFORM_TRANSPOSE", 1, MatrixTransform.TRANSPOSE):
        assert GemmDesc(**DESC.operands() | {"trans_a": name}) == DESC


@pytest.mark.parametrize(
    ("activation", "level"),
    [
        (Activation("ACTIVATION_SHRINK"), "2_0"),
        (Activation("ACTIVATION_CELU"), "3_0"),
        (Activation("ACTIVATION_GELU"), "5_1"),
        (Activation("ELEMENT_WISE_CLIP", (None, 0, 6)), "6_0"),
        (Activation("ACTIVATION_SOFTMAX"), "6_1"),
    ],
)
def test_activations_that_came_later(activation, level):
    desc = GemmDesc(**DESC.operands() | {"fused_activation": activation})
    desc.validate(level)
    with pytest.raises(ConstraintError, match=f"at feature level 1_0, .* feature level {level} accepts"):
        desc.validate("1_0")


# Transformations and meshes.


@pytest.mark.parametrize(
    ("activation", "order"),
    [
        pytest.param(Activation("ACTIVATION_TANH"), 1, id="tanh"),
        pytest.param(Activation("ACTIVATION_TANH"), 2, id="tanh, twice", marks=pytest.mark.exhaustive),
        pytest.param(None, 2, id="linear", marks=pytest.mark.exhaustive),
    ],
)
def test_derivatives_in_both_directions(activation, order):
    a, b, c = (numbered(shape) / 16 - 0.4 for shape in ((2, 3, 2), (2, 4, 3), (2, 2, 4)))
    call = partial(gemm, trans_a=True, trans_b=True, alpha=0.5, beta=2, activation=activation)
    check_grads(jax.jit(call), (a, b, c), order=order, atol=0.05, rtol=0.05)


def test_the_gradient_is_made_of_products():
    def total(a, b, c):
        return (gemm(a, b, c, alpha=2, beta=3) * C).sum()

    back = jax.jit(jax.grad(total, (0, 1, 2)))(A, B, C)
    for one, wanted in zip(back, (2 * C @ B.T, 2 * A.T @ C, 3 * C), strict=True):
        assert_same_bits(one, wanted)


def test_it_is_transposed_in_each_operand():
    (back,) = jax.linear_transpose(lambda a: gemm(a, B, alpha=2), A)(C)
    assert_same_bits(back, 2 * C @ B.T)
    (back,) = jax.linear_transpose(lambda b: gemm(A, b), B)(C)
    assert_same_bits(back, A.T @ C)


def test_symbolic_sizes_are_exported():
    call = exported(partial(gemm, activation=RELU), "m, k", "k, 4", "m, 4").call
    assert_same_bits(call(A, B, C), oracle(A, B, C, activation=RELU))


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("specs", "wanted"),
    [
        ((("d", None), (None, None), (None, None)), P("d", None)),
        (((None, None), (None, "d"), (None, None)), P(None, "d")),
        (((None, None), (None, None), ("d", None)), P("d", None)),
        ((("d", None), (None, None), None), P("d", None)),
    ],
)
def test_rows_and_columns_keep_their_sharding(specs, wanted):
    arrays = [x if spec is None else on_explicit_mesh(x, *spec) for x, spec in zip((A, B, C), specs, strict=True)]
    if specs[2] is None:
        arrays[2] = None
    assert_sharded(gemm(*arrays), wanted, oracle(A, B, arrays[2] if arrays[2] is None else C))


def test_transposed_rows_keep_their_sharding():
    made = gemm(on_explicit_mesh(A.T.copy(), None, "d"), B, trans_a=True)
    assert jax.typeof(made).sharding.spec == P("d", None)
    made = gemm(on_explicit_mesh(np.stack([A, A]), "d", None, None), np.stack([B, B]))
    assert jax.typeof(made).sharding.spec == P("d", None, None)


def test_what_is_added_up_is_sharded_only_if_the_output_says_how():
    a, b = numbered((2, 4)), numbered((4, 2))
    on_mesh = [on_explicit_mesh(a, None, "d"), on_explicit_mesh(b, "d", None)]
    with pytest.raises(ConstraintError, match="dimension 1 of a is sharded over 'd', along which"):
        gemm(*on_mesh)
    for spec in (P(None, None), P("d", None)):
        assert_sharded(gemm(*on_mesh, out_sharding=spec), spec, a @ b)
    auto = jax.make_mesh((2,), ("d",), devices=jax.devices("cpu")[:2], axis_types=(jax.sharding.AxisType.Auto,))
    placed = (
        jax.device_put(a, jax.NamedSharding(auto, P(None, "d"))),
        jax.device_put(b, jax.NamedSharding(auto, P("d"))),
    )
    assert_same_bits(gemm(*placed), a @ b)


def test_rows_and_columns_cannot_share_a_mesh_axis():
    with pytest.raises(ConstraintError, match="'d' would shard two dimensions of the output"):
        gemm(on_explicit_mesh(A, "d", None), on_explicit_mesh(B, None, "d"))


# Mistakes.


test_mistakes_are_named = refuses(
    CASE,
    ({"a": 3}, DataTypeError, "a must be an array"),
    ({"b": None}, DataTypeError, "b must be an array"),
    ({"a": A > 3}, DataTypeError, "a.dtype must be a floating-point type, but it is bool"),
    ({"a": A.astype(np.complex64)}, DataTypeError, "it is complex64"),
    ({"a": random_keys(2, 3)}, DataTypeError, "it is key<fry>"),
    ({"b": B.astype(np.float16)}, DataTypeError, "b.dtype must equal a.dtype, but they are float16 and float32"),
    ({"a": A[0]}, ConstraintError, "a.rank must be at least 2, but it is 1"),
    ({"b": B.T}, ConstraintError, "as many columns as b rows, each as it is multiplied, but there are 3"),
    ({"trans_a": True}, ConstraintError, "but there are 2 columns and 3 rows"),
    ({"b": B[None]}, ConstraintError, r"b.sizes before the last two must equal those of a, but they are \(1,\)"),
    ({"c": C[0]}, ConstraintError, r"c.sizes must be those of the product: .*, but \(4,\) is not \(2, 4\)"),
    ({"trans_b": 1}, DataTypeError, "trans_b must be True or False"),
    ({"alpha": "2"}, DataTypeError, "alpha must be a real number"),
    ({"beta": None}, DataTypeError, "beta must be a real number"),
    ({"beta": 10**400}, DataTypeError, "beta must be a real number"),
    ({"beta": 10**5000}, DataTypeError, "beta must be a real number, but it is an integer of 16610 bits"),
    ({"activation": "RELU"}, DataTypeError, "activation must be an Activation, but it is str"),
    ({"activation": jax.nn.relu}, DataTypeError, "activation must be an Activation"),
    (EMPTY | {"c": None}, ConstraintError, r"fewer than 2\*\*63 bytes"),
)


def test_a_traced_alpha_is_refused():
    with pytest.raises(DataTypeError, match=r"alpha must be a real number, but it is traced"):
        jax.jit(lambda s: gemm(A, B, alpha=s))(2.0)
