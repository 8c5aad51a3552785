"""rnn and RNN: h = f(x @ weight.T + h @ recurrence.T + bias), step by step."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from activation_cases import activated
from checks import assert_calls_agree, assert_close, assert_is, assert_same_bits, exported
from draws import dims
from jax.sharding import PartitionSpec as P
from jax.test_util import check_grads
from operator_cases import Call, Example, Struct, f32, u32
from recurrent_cases import layer
from refusals import refuses
from small_arrays import every_narrow_float, numbered, on_explicit_mesh

from dml_jax import (
    Activation,
    ConstraintError,
    DataTypeError,
    RecurrentNetworkDirection,
    RnnDesc,
    compile_operator,
    rnn,
)

pytestmark = pytest.mark.device

TANH = Activation("ACTIVATION_TANH")


def exact(
    input,
    weight,
    recurrence,
    bias=None,
    hidden_init=None,
    sequence_lengths=None,
    direction="forward",
    activations=None,
):
    """In float64, row by row and step by step."""
    functions = [partial(activated, activation=one) for one in activations or (TANH,) * len(weight)]
    arrays = {"sequence_lengths": sequence_lengths, "activations": functions, "direction": direction}
    sequence, single, _ = layer("RNN", input, weight, recurrence, bias, hidden_init, **arrays)
    return sequence, single[None]


def oracle(input, *arrays, **attributes):
    return tuple(x.astype(input.dtype) for x in exact(input, *arrays, **attributes))


# Whole numbers stay so: what bounds them makes them neither small nor large.
RELU, LEAKY_RELU = Activation("ACTIVATION_RELU"), Activation("ACTIVATION_LEAKY_RELU", (0.5,))
IDENTITY = Activation("ACTIVATION_IDENTITY")
INPUT, WEIGHT, RECURRENCE = numbered((3, 2, 2)) - 6, numbered((2, 3, 2)) - 7, numbered((2, 3, 3)) % 3 - 1
BIAS, INIT, LENGTHS = numbered((2, 6)), numbered((2, 2, 3)), np.int32([2, 3])
ARRAYS = {
    "input": INPUT,
    "weight": WEIGHT,
    "recurrence": RECURRENCE,
    "bias": BIAS,
    "hidden_init": INIT,
    "sequence_lengths": LENGTHS,
}
CASE = Call(rnn, ARRAYS, {"direction": "bidirectional", "activations": (LEAKY_RELU, RELU)}, is_linear=False)
SOFTMAX = Activation("ACTIVATION_SOFTMAX")
BREAKS = {
    "one_of(direction)": {"direction": "both"},
    "float(input)": {"input": INPUT.astype(np.int32)},
    "same_dtype(weight, input)": {"weight": WEIGHT.astype(np.float16)},
    "same_dtype(recurrence, input)": {"recurrence": RECURRENCE.astype(np.float16)},
    "same_dtype(bias, input)": {"bias": BIAS.astype(np.float16)},
    "same_dtype(hidden_init, input)": {"hidden_init": INIT.astype(np.float16)},
    "integer(sequence_lengths)": {"sequence_lengths": INPUT[0, :, 0]},
    "rank(input, 3)": {"input": INPUT[None]},
    "rank(recurrence, 3)": {"recurrence": RECURRENCE[0]},
    "sizes_follow(weight)": {"weight": WEIGHT[:1]},
    "sizes_follow(recurrence)": {"recurrence": RECURRENCE[:, 1:]},
    "sizes_follow(bias)": {"bias": BIAS[:, 1:]},
    "sizes_follow(hidden_init)": {"hidden_init": INIT[:, :1]},
    "sizes_follow(sequence_lengths)": {"sequence_lengths": LENGTHS[None]},
    "one_per_direction(activations)": {"activations": (RELU,)},
    "supported_activation(activations)": {"activations": (RELU, SOFTMAX)},
    "representable": {
        "input": np.zeros((2**30, 2**30, 0), np.float32),
        "weight": np.zeros((2, 3, 0), np.float32),
        **dict.fromkeys(("hidden_init", "sequence_lengths")),
    },
}


def one_way(direction, arrays=ARRAYS):
    """The case as one direction."""
    names = ("weight", "recurrence", "bias", "hidden_init")
    given = {name: arrays[name][:1] for name in names}
    return {"direction": direction, "activations": (LEAKY_RELU,), **given}


VARIANTS = {
    "forward": one_way("forward"),
    "backward": one_way("backward"),
    "plain": {**one_way("forward"), **dict.fromkeys(("bias", "hidden_init", "sequence_lengths"))},
    "lengths out of range": {"sequence_lengths": np.int32([-3, 9])},
    "no steps": {"input": INPUT[:0]},
    "float16": {
        **{name: (x % 3 - 1).astype(np.float16) for name, x in ARRAYS.items()},
        "sequence_lengths": np.uint8([3, 0]),
    },
}


# By example.


def test_each_state_is_made_of_the_input_and_the_state_before():
    """Without an activation: a step is 10 times its input and the state before it."""
    x, weight, recurrence = np.float32([[[1]], [[2]]]), np.float32([[[10]]]), np.float32([[[1]]])
    for direction, states in (("forward", [10, 30]), ("backward", [30, 20])):
        sequence, last = rnn(x, weight, recurrence, direction=direction, activations=(IDENTITY,))
        assert_same_bits(sequence.ravel(), np.float32(states))
        assert_same_bits(last.ravel(), np.float32([30]))


# Against the oracle.


def test_what_may_be_left_out():
    def calls():
        for number in range(8):
            names = ["bias", "hidden_init", "sequence_lengths"]
            given = {name: x for i, (name, x) in enumerate(ARRAYS.items()) if i < 3 or number >> names.index(name) & 1}
            attributes = {"direction": "bidirectional", "activations": (RELU, IDENTITY)}

            def call(*arrays, names=tuple(given), attributes=attributes):
                return rnn(**dict(zip(names, arrays, strict=True)), **attributes)

            yield call, tuple(given.values()), oracle(**given, **attributes)

    assert_calls_agree(calls())


def assert_rnn_is_close(*arrays, units, **attributes):
    for made, wanted in zip(rnn(*arrays, **attributes), exact(*arrays, **attributes), strict=True):
        assert_close(made, wanted, units)


def test_tanh_is_what_is_taken_by_default():
    assert_rnn_is_close(INPUT / 8, WEIGHT / 8, RECURRENCE / 8, direction="bidirectional", units=16)


def test_states_are_those_of_the_step_before():
    """Digits: forward each step appends one, backward each puts one behind those that follow."""
    x, one = np.float32([[[1]], [[2]], [[3]]]), np.ones((2, 1, 1), np.float32)
    sequence, single = rnn(x, one, 10 * one, direction="bidirectional", activations=(IDENTITY, IDENTITY))
    assert_same_bits(sequence[:, 0].ravel(), np.float32([1, 12, 123]))
    assert_same_bits(sequence[:, 1].ravel(), np.float32([321, 32, 3]))
    assert_same_bits(single.ravel(), np.float32([123, 321]))


def test_what_lies_behind_the_end_of_a_row_is_not_read():
    """Neither forward nor backward, and its gradients are 0 and not NaN."""
    lengths = np.int32([1, 3, 0])
    x = np.where(np.arange(3)[:, None, None] < lengths[:, None], 1, np.float32(np.nan)).astype(np.float32)
    one = np.ones((2, 1, 1), np.float32)

    def run(x, w):
        return rnn(x, w, 10 * one, sequence_lengths=lengths, direction="bidirectional", activations=(IDENTITY,) * 2)

    sequence, single = run(x, one)
    assert_same_bits(sequence[:, 0, :, 0], np.float32([[1, 1, 0], [0, 11, 0], [0, 111, 0]]))
    assert_same_bits(sequence[:, 1, :, 0], np.float32([[1, 111, 0], [0, 11, 0], [0, 1, 0]]))
    assert_same_bits(single[0, ..., 0], np.float32([[1, 111, 0], [1, 111, 0]]))
    of_x, of_w = jax.jit(jax.grad(lambda *x: run(*x)[1].sum(), (0, 1)))(x, one)
    assert_same_bits(of_x[..., 0], np.float32([[2, 101, 0], [0, 20, 0], [0, 101, 0]]))
    assert_same_bits(of_w.ravel(), np.float32([112, 112]))


def test_a_row_of_no_steps_keeps_the_first_state():
    sequence, single = rnn(**{**ARRAYS, "sequence_lengths": np.int32([0, 0])}, **CASE.static)
    assert_same_bits(single, INIT[None])
    assert_same_bits(sequence, np.zeros_like(sequence))


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64], ids=lambda t: t.__name__
)
def test_lengths_of_every_type(dtype):
    """Also where the type does not hold the number of steps, and what no number of steps is."""
    limits = np.iinfo(dtype)
    lengths = np.array([limits.min, 0, 3, limits.max], dtype)
    x, one = np.ones((300, 4, 1), np.float32), np.ones((1, 1, 1), np.float32)
    _, single = rnn(x, one, one, sequence_lengths=lengths, activations=(IDENTITY,))
    assert_same_bits(single.ravel(), np.float32([0, 0, 3, min(300, int(limits.max))]))


def test_products_are_as_exact_as_float32():
    """TF32 would drop half of the bits, bfloat16 two thirds."""
    rng = np.random.default_rng(0)
    sizes = (4, 5, 32), (2, 16, 32), (2, 16, 16)
    arrays = [rng.normal(scale=0.25, size=size).astype(np.float32) for size in sizes]
    for made, wanted in zip(
        rnn(*arrays, direction="bidirectional"), exact(*arrays, direction="bidirectional"), strict=True
    ):
        assert_close(made, wanted, units=64)


@pytest.mark.thinned(2)
@every_narrow_float
def test_narrow_floats_are_computed_in_float32(dtype):
    x, one = np.array([[[1]], [[2]]], dtype), np.ones((1, 1, 1), dtype)
    arrays = x, one, one, one.reshape(1, 1).repeat(2, 1), one
    assert_is(rnn(*arrays, activations=(RELU,)), oracle(*arrays, activations=(RELU,)))


def test_states_of_sixteen_bit_floats_are_rounded_at_the_end():
    """2049 is no float16, and 2049 + 2049 is."""
    x, one = np.array([[[2048]], [[2048]]], np.float16), np.ones((1, 1, 1), np.float16)
    sequence, single = rnn(x, one, one, np.array([[1, 0]], np.float16), activations=(IDENTITY,))
    assert_same_bits(sequence.ravel(), np.array([2048, 4098], np.float16).astype(np.float16))
    assert_same_bits(single.ravel(), np.array([4098], np.float16))


def test_empty_arrays():
    attributes = {"direction": "bidirectional"}
    sequence, single = rnn(INPUT[:0], WEIGHT, RECURRENCE, None, INIT, **attributes)
    assert sequence.shape == (0, 2, 2, 3)
    assert_same_bits(single, INIT[None])
    assert rnn(INPUT[:, :0], WEIGHT, RECURRENCE, **attributes)[0].shape == (3, 2, 0, 3)
    nothing = rnn(INPUT, WEIGHT[:, :0], RECURRENCE[:, :0, :0], BIAS[:, :0], **attributes)
    assert [x.shape for x in nothing] == [(3, 2, 2, 0), (1, 2, 2, 0)]
    sequence, _ = rnn(INPUT[..., :0], WEIGHT[..., :0], RECURRENCE, BIAS, activations=(IDENTITY,) * 2, **attributes)
    assert_same_bits(sequence[0, 0], np.tile(BIAS[0, :3] + BIAS[0, 3:], (2, 1)))


# The struct.


# Continuous ones, so that what is rounded a little differently is not something else, and none that lets states grow.
FUSED = [
    *(Activation(f"ACTIVATION_{name}") for name in ("TANH", "SIGMOID", "HARD_SIGMOID", "SOFTSIGN", "SCALED_TANH")),
    *(RELU, LEAKY_RELU, Activation("ACTIVATION_ELU", (0.5,)), Activation("ACTIVATION_SOFTPLUS")),
]


def fill(rng, port, tensor, count):
    """Small numbers, whose states stay so; any lengths."""
    return None if port == "sequence_lengths" else rng.normal(scale=0.4, size=count).astype(tensor.dtype)


def draw(rng):
    steps, batch, inputs, hidden = dims(rng, 4, 60)
    direction = RecurrentNetworkDirection(int(rng.integers(0, 3)))
    count = 1 + (direction == RecurrentNetworkDirection.BIDIRECTIONAL)
    outputs = rng.integers(1, 4)
    return {
        "input": (1, steps, batch, inputs),
        "weight": (1, count, hidden, inputs),
        "recurrence": (1, count, hidden, hidden),
        "bias": (1, 1, count, 2 * hidden) if rng.random() < 0.6 else None,
        "hidden_init": (1, count, batch, hidden) if rng.random() < 0.6 else None,
        "sequence_lengths": (1, 1, 1, batch) if rng.random() < 0.6 else None,
        "output_sequence": (steps, count, batch, hidden) if outputs & 1 else None,
        "output_single": (1, count, batch, hidden) if outputs & 2 else None,
        "activation_descs": tuple(FUSED[rng.integers(0, len(FUSED))] for _ in range(count)),
        "direction": direction,
    }


def expected(desc, input, weight, recurrence, bias, hidden_init, sequence_lengths):
    both = exact(
        input[0],
        weight[0],
        recurrence[0],
        None if bias is None else bias[0, 0],
        None if hidden_init is None else hidden_init[0],
        None if sequence_lengths is None else sequence_lengths[0, 0, 0],
        desc.direction.name.lower(),
        desc.activation_descs,
    )
    given = (desc.output_sequence, desc.output_single)
    return tuple(x for x, tensor in zip(both, given, strict=True) if tensor is not None)


DESC = RnnDesc(
    input=f32(1, 3, 2, 2),
    weight=f32(1, 2, 3, 2),
    recurrence=f32(1, 2, 3, 3),
    bias=f32(1, 1, 2, 6),
    hidden_init=f32(1, 2, 2, 3),
    sequence_lengths=u32(1, 1, 1, 2),
    output_sequence=f32(3, 2, 2, 3),
    output_single=f32(1, 2, 2, 3),
    activation_descs=(RELU, LEAKY_RELU),
    direction="BIDIRECTIONAL",
)
# DirectML's sample: one step, so that the recurrence has no effect.
ELUS = (Activation("ACTIVATION_ELU", (0.5,)), Activation("ACTIVATION_ELU", (3.5,)))
TENSORS = f32(1, 1, 8, 4), f32(1, 2, 5, 4), f32(1, 2, 5, 5)
SAMPLE = RnnDesc(*TENSORS, None, None, None, None, f32(1, 2, 8, 5), ELUS, "BIDIRECTIONAL")
ROWS, WEIGHTS = np.arange(1, 33.0).reshape(8, 4), 1 + 0.4 * np.arange(40).reshape(2, 5, 4)
STRUCTS = (
    Struct(
        DESC,
        breaks={
            "unowned(inputs)": {"weight": f32(1, 2, 3, 2, flags="OWNED_BY_DML")},
            "sizes_follow(input)": {"input": f32(2, 3, 2, 2)},
            "sizes_follow(weight)": {"weight": f32(1, 2, 4, 2)},
            "sizes_follow(recurrence)": {"recurrence": f32(1, 2, 2, 3)},
            "sizes_follow(bias)": {"bias": f32(1, 1, 2, 3)},
            "sizes_follow(hidden_init)": {"hidden_init": f32(1, 1, 2, 3)},
            "sizes_follow(sequence_lengths)": {"sequence_lengths": u32(1, 1, 2, 1)},
            "sizes_follow(output_sequence)": {"output_sequence": f32(1, 2, 2, 3)},
            "sizes_follow(output_single)": {"output_single": f32(3, 2, 2, 3)},
            "one_per_direction(activation_descs)": {"activation_descs": (RELU,)},
            "some(outputs)": {"output_sequence": None, "output_single": None},
        },
        examples=(
            Example(
                SAMPLE,
                [ROWS.ravel(), WEIGHTS.ravel(), [0.3] * 50],
                [np.round(np.einsum("bi,dhi->dbh", ROWS, WEIGHTS), 4).ravel()],
            ),
        ),
        draw=draw,
        expected=expected,
        fill=fill,
        units=64,
    ),
)


def test_directmls_sample_has_its_numbers():
    wanted = STRUCTS[0].examples[0].outputs[0].reshape(2, 8, 5)
    assert wanted[0, 0].tolist() == [18, 34, 50, 66, 82]
    assert wanted[0, 7].tolist() == [197.2, 392.4, 587.6, 782.8, 978]
    assert wanted[1, 0].tolist() == [98, 114, 130, 146, 162]
    assert wanted[1, 7].tolist() == [1173.2, 1368.4, 1563.6, 1758.8, 1954]


@pytest.mark.parametrize("left_out", ["output_sequence", "output_single"])
def test_an_output_that_is_left_out(left_out):
    run = compile_operator(RnnDesc(**DESC.operands() | {left_out: None}))
    arrays = [*ARRAYS.values()]
    made = run(*(x.ravel() for x in arrays[:-1]), np.uint32(LENGTHS))
    wanted = oracle(*arrays, direction="bidirectional", activations=(RELU, LEAKY_RELU))
    assert_same_bits(made, wanted[left_out == "output_sequence"].ravel())


test_what_the_struct_refuses = refuses(
    DESC,
    ({"direction": 3}, ConstraintError, "Direction must be one of FORWARD, BACKWARD, BIDIRECTIONAL, but it is 3"),
    ({"direction": "FORWARD"}, ConstraintError, r"WeightTensor.Sizes must be \(1, D, H, I\), .* \(1, 1, 3, 2\)"),
    ({"activation_descs": RELU}, DataTypeError, "ActivationDescs must be a sequence of Activation"),
    ({"activation_descs": (RELU, "RELU")}, DataTypeError, r"ActivationDescs\[1\] must be an Activation"),
    ({"activation_descs": (RELU, SOFTMAX)}, ConstraintError, "it is ACTIVATION_SOFTMAX, which is for GEMM"),
    ({"activation_descs": ()}, ConstraintError, "one entry per direction, but there are 0 for 2"),
    ({"sequence_lengths": f32(1, 1, 1, 2)}, DataTypeError, "SequenceLengthsTensor.DataType must be one of UINT32"),
    ({"bias": f32(1, 1, 2, 3)}, ConstraintError, r"BiasTensor.Sizes must be \(1, 1, D, 2 \* H\), but \(1, 1, 2, 3"),
    ({"recurrence": None}, DataTypeError, "RecurrenceTensor must be a TensorDesc"),
    (
        {"output_sequence": None, "output_single": None},
        ConstraintError,
        "OutputSequenceTensor or OutputSingleTensor must be given, but there is none",
    ),
)


def test_names_of_directions():
    direction = RecurrentNetworkDirection.BIDIRECTIONAL
    for name in ("BIDIRECTIONAL", "DML_RECURRENT_NETWORK_DIRECTION_BIDIRECTIONAL", 2, direction):
        assert RnnDesc(**DESC.operands() | {"direction": name}) == DESC


def test_activations_that_came_later():
    desc = RnnDesc(**DESC.operands() | {"activation_descs": (RELU, Activation("ACTIVATION_GELU"))})
    desc.validate("5_1")
    with pytest.raises(ConstraintError, match="it is ACTIVATION_GELU, which feature level 5_1 accepts"):
        desc.validate("5_0")


# Transformations and meshes.


@pytest.mark.parametrize(
    ("order", "modes"), [(1, ["rev"]), pytest.param(2, ["fwd", "rev"], marks=pytest.mark.exhaustive)]
)
def test_derivatives(order, modes):
    arrays = [x / 16 for x in (INPUT, WEIGHT, RECURRENCE, BIAS, INIT)]
    call = partial(rnn, sequence_lengths=LENGTHS, direction="bidirectional")
    check_grads(jax.jit(call), arrays, order=order, modes=modes, atol=0.05, rtol=0.05)


def test_the_gradient_goes_back_step_by_step():
    """Of the last of three states in the recurrence r: x0 r**2 + x1 r + x2."""
    x, one = np.float32([[[1]], [[2]], [[3]]]), np.ones((1, 1, 1), np.float32)
    back = jax.jit(jax.grad(lambda r: rnn(x, one, r, activations=(IDENTITY,))[1].sum()))(10 * one)
    assert_same_bits(back.ravel(), np.float32([2 * 1 * 10 + 2]))


def test_symbolic_sizes_are_exported():
    call = partial(rnn, direction="bidirectional", activations=(RELU, LEAKY_RELU))
    made = exported(call, "s, b, 2", WEIGHT, RECURRENCE).call(INPUT, WEIGHT, RECURRENCE)
    assert_is(made, oracle(INPUT, WEIGHT, RECURRENCE, **call.keywords))


def test_in_shard_map():
    """Each device has a part of the batch, and all weights."""
    mesh = jax.make_mesh((2,), ("d",), devices=jax.devices("cpu")[:2], axis_types=(jax.sharding.AxisType.Auto,))
    call = partial(rnn, direction="bidirectional", activations=(RELU, LEAKY_RELU))
    specs = (P(None, "d"), P(), P())
    local = jax.shard_map(call, mesh=mesh, in_specs=specs, out_specs=P(None, None, "d"))
    assert_is(jax.jit(local)(INPUT, WEIGHT, RECURRENCE), oracle(INPUT, WEIGHT, RECURRENCE, **call.keywords))


@pytest.mark.parametrize(("name", "spec"), [("input", (None, "d", None)), ("sequence_lengths", ("d",))])
def test_a_batch_keeps_its_sharding(name, spec):
    arrays = {**ARRAYS, name: on_explicit_mesh(ARRAYS[name], *spec)}
    made = rnn(**arrays, **CASE.static)
    assert {jax.typeof(output).sharding.spec for output in made} == {P(None, None, "d", None)}
    assert_is(made, oracle(**ARRAYS, **CASE.static))


def test_other_dimensions_are_sharded_only_if_the_output_says_how():
    arrays = {**ARRAYS, "weight": on_explicit_mesh(WEIGHT, "d", None, None)}
    with pytest.raises(ConstraintError, match="dimension 0 of weight is sharded over 'd', along which"):
        rnn(**arrays, **CASE.static)
    made = rnn(**arrays, **CASE.static, out_sharding=P(None, None, "d", None))
    assert {jax.typeof(output).sharding.spec for output in made} == {P(None, None, "d", None)}
    assert_is(made, oracle(**ARRAYS, **CASE.static))


# Mistakes.


test_mistakes_are_named = refuses(
    CASE,
    ({"input": 3}, DataTypeError, "input must be an array"),
    ({"recurrence": None}, DataTypeError, "recurrence must be an array"),
    ({"input": INPUT > 3}, DataTypeError, "input.dtype must be a floating-point type, but it is bool"),
    ({"input": np.float32(3)}, ConstraintError, r"input.rank must be 3, \(S, B, I\), but it is 0"),
    ({"recurrence": np.float32(3)}, ConstraintError, r"recurrence.rank must be 3, \(D, H, H\), but it is 0"),
    ({"weight": np.float32(3)}, ConstraintError, r"weight.sizes must be \(D, H, I\), but \(\) is not \(2, 3, 2\)"),
    ({"bias": BIAS[0]}, ConstraintError, r"bias.sizes must be \(D, 2 \* H\), but \(6,\) is not \(2, 6\)"),
    ({"hidden_init": INIT[None]}, ConstraintError, r"hidden_init.sizes must be \(D, B, H\)"),
    ({"sequence_lengths": 3}, ConstraintError, r"sequence_lengths.sizes must be \(B\), but \(\) is not \(2,\)"),
    ({"sequence_lengths": [2, 3.0]}, DataTypeError, "sequence_lengths must be an array"),
    ({"sequence_lengths": INPUT[0, :, 0]}, DataTypeError, "sequence_lengths.dtype must be an integer type"),
    ({"direction": "forward"}, ConstraintError, r"\(2, 3, 2\) is not \(1, 3, 2\)"),
    ({"direction": "up"}, ConstraintError, "direction must be one of 'forward', 'backward', 'bidirectional'"),
    ({"direction": 2}, DataTypeError, "direction must be"),
    ({"activations": RELU}, DataTypeError, "activations must be a sequence of Activation"),
    ({"activations": (RELU, jax.nn.relu)}, DataTypeError, r"activations\[1\] must be an Activation"),
    ({"activations": "relu"}, DataTypeError, "activations must be a sequence of Activation"),
    ({"activations": (RELU,)}, ConstraintError, "activations must have one entry per direction, .* 1 for 2"),
)


def test_lists_of_activations_are_accepted():
    lists = rnn(**ARRAYS, direction="bidirectional", activations=[LEAKY_RELU, RELU])
    assert_is(lists, oracle(**ARRAYS, **CASE.static))


def test_a_long_sequence_is_one_loop():
    shapes = [jax.ShapeDtypeStruct(shape, np.float32) for shape in ((10000, 1, 2), (1, 3, 2), (1, 3, 3))]
    assert len(str(jax.make_jaxpr(rnn)(*shapes))) < 5000
    assert jnp.isfinite(rnn(*(np.ones(x.shape, x.dtype) for x in shapes))[1]).all()
