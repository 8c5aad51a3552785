"""ADAM_OPTIMIZER: DirectML's formula in float64, ONNX's Adam, and training of a single weight."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close, assert_same_bits, sampled
from draws import dims
from operator_cases import Example, Struct, f16, f32, u32
from refusals import refuses

from dml_jax import ConstraintError, DataTypeError, compile_operator
from dml_jax.descs import AdamOptimizerDesc

pytestmark = pytest.mark.device

INPUTS = ("input_parameters", "input_first_moment", "input_second_moment", "gradient")
OUTPUTS = ("output_parameters", "output_first_moment", "output_second_moment")


def exact(x, first, second, gradient, step, rate, beta1, beta2, epsilon):
    """In float64, of attributes that are FLOAT."""
    x, first, second, gradient = (np.asarray(array, np.float64) for array in (x, first, second, gradient))
    rate, beta1, beta2, epsilon = (float(np.float32(number)) for number in (rate, beta1, beta2, epsilon))
    first = beta1 * first + (1 - beta1) * gradient
    second = beta2 * second + (1 - beta2) * gradient * gradient
    alpha = np.sqrt(1 - beta2**step) / (1 - beta1**step)
    return x - rate * alpha * first / (np.sqrt(second) + epsilon), first, second


def law(desc):
    return desc.learning_rate, desc.beta1, desc.beta2, desc.epsilon


def draw(rng):
    sizes = dims(rng, int(rng.integers(1, 9)))
    return {
        **dict.fromkeys((*INPUTS, *OUTPUTS), sizes),
        "training_step": [1] * len(sizes),
        "learning_rate": float(rng.choice([0.001, 0.1])),
        "beta1": float(rng.choice([0, 0.5, 0.9])),
        "beta2": float(rng.choice([0, 0.75, 0.999])),
        "epsilon": float(rng.choice([0.01, 0.5])),
    }


def fill(rng, port, tensor, count):
    """Second moments are positive, and steps counted from 1."""
    if port == "training_step":
        return rng.choice([1, 2, 3, 1000, 2**32 - 1], count).astype(np.uint32)
    numbers = rng.normal(size=count)
    return (abs(numbers) if port == "input_second_moment" else numbers).astype(tensor.dtype)


def expected(desc, x, first, second, gradient, step):
    return exact(x, first, second, gradient, int(step.reshape(-1)[0]), *law(desc))


TENSOR, STEP = f32(1, 1, 1, 2), u32(1, 1, 1, 1)
DESC = AdamOptimizerDesc(*[TENSOR] * 4, STEP, *[TENSOR] * 3, 0.5, 0.5, 0.75, 0)
USUAL = replace(DESC, learning_rate=0.1, beta1=0.9, beta2=0.999, epsilon=1e-8)
OTHER = f32(1, 1, 2, 1)
STRUCTS = (
    Struct(
        DESC,
        breaks={
            **{f"same_sizes({name}, input_parameters)": {name: OTHER} for name in (*INPUTS[1:], *OUTPUTS)},
            "single(training_step)": {"training_step": u32(1, 1, 1, 2)},
            "in_range(beta1)": {"beta1": 1.5},
            "in_range(beta2)": {"beta2": -0.5},
        },
        examples=(
            Example(DESC, [[1, 1], [0, 0], [0, 0], [2, -4], [1]], [[0.5, 1.5], [1, -2], [1, 4]]),
            # 1 - Beta2 is 0.000999987 in FLOAT32.
            Example(
                USUAL,
                [[1, 1], [0, 0], [0, 0], [0.5, -0.5], [1]],
                [[0.9, 1.1], [0.05, -0.05], [0.000249997, 0.000249997]],
            ),
        ),
        draw=draw,
        expected=expected,
        fill=fill,
        units=16,
    ),
)


test_what_the_struct_refuses = refuses(
    DESC,
    ({"training_step": f32(1, 1, 1, 1)}, DataTypeError, "TrainingStepTensor.DataType must be one of UINT32"),
    ({"training_step": u32(1, 1, 1, 2)}, ConstraintError, "all TrainingStepTensor.Sizes must be 1, but they are"),
    ({"training_step": u32(1)}, ConstraintError, "TrainingStepTensor.DimensionCount must equal"),
    ({"beta1": float("nan")}, ConstraintError, r"Beta1 must be in \[0, 1\], but it is nan"),
    ({"beta2": 1.001}, ConstraintError, r"Beta2 must be in \[0, 1\], but it is 1.001"),
    ({"gradient": f16(1, 1, 1, 2)}, DataTypeError, "GradientTensor.DataType must equal"),
)


@pytest.mark.parametrize("step", sampled([1, 2, 10, 1000, 10**6, 2**32 - 1], [2, 1000]))
def test_the_correction_of_every_step(step):
    """1 - 0.9999 ** step has all its digits: the power is not subtracted from 1 in float32."""
    desc = replace(USUAL, beta1=0.9999, beta2=0.9999, learning_rate=1)
    x, gradient = np.zeros(TENSOR.sizes, np.float32), np.float32([3, -5]).reshape(TENSOR.sizes)
    made = desc.compute(x, x, x, gradient, np.full((1, 1, 1, 1), step, np.uint32))
    for one, wanted in zip(made, exact(x, x, x, gradient, step, *law(desc)), strict=True):
        assert_close(one, wanted, units=8)


def test_step_0_is_nan_by_the_formula():
    x = np.ones(TENSOR.sizes, np.float32)
    parameters, first, second = DESC.compute(x, x, x, x, np.zeros((1, 1, 1, 1), np.uint32))
    assert np.isnan(parameters).all()
    assert np.isfinite([first, second]).all()


def test_onnx():
    """The Adam of ONNX's reference: the same formula from step 1 on."""
    onnx = pytest.importorskip("onnx")
    reference = pytest.importorskip("onnx.reference")
    names = ("r", "t", "x", "g", "v", "h")
    node = onnx.helper.make_node(
        "Adam", names, ["x1", "v1", "h1"], domain="ai.onnx.preview.training", alpha=0.9, beta=0.999, epsilon=1e-2
    )
    rng = np.random.default_rng(0)
    x, first, gradient = (rng.normal(size=TENSOR.sizes).astype(np.float32) for _ in range(3))
    second, step = abs(first), 3
    given = dict(zip(names, (np.float32(0.1), np.int64(step), x, gradient, first, second), strict=True))
    wanted = reference.ReferenceEvaluator(node).run(None, given)
    made = replace(USUAL, epsilon=1e-2).compute(x, first, second, gradient, np.full((1, 1, 1, 1), step, np.uint32))
    for one, other in zip(made, wanted, strict=True):
        assert_close(one, other, units=16)


def test_a_weight_learns():
    """w * 3 = 6, from 0; step by step as in float64."""
    one, step = f32(1), u32(1)
    desc = AdamOptimizerDesc(*[one] * 4, step, *[one] * 3, 0.1, 0.9, 0.999, 1e-8)
    state, real = [jnp.zeros(1)] * 3, [np.zeros(1)] * 3
    update, slope = jax.jit(desc.compute), jax.jit(jax.grad(lambda w: ((w * 3 - 6) ** 2).sum()))
    for t in range(1, 101):
        gradient = slope(state[0])
        real = exact(*real, gradient, t, *law(desc))
        state = update(*state, gradient, np.uint32([t]))
    assert_close(state[0], real[0], units=100)
    assert abs(state[0][0] - 2) < 0.1


NEXT = dict(zip(INPUTS, OUTPUTS, strict=False))


@pytest.mark.parametrize("shared", [INPUTS[:3], INPUTS[1:2], ("gradient",)])
def test_in_place(shared):
    """Each output in the buffer of what it is the next one of; the gradient's may take the parameters."""
    run = compile_operator(USUAL)
    inputs = {name: jnp.float32([n, 2 - n]) for n, name in enumerate(INPUTS)} | {"training_step": jnp.uint32([5])}
    alone = run(*inputs.values())
    at = {NEXT.get(name, OUTPUTS[0]): name for name in shared}
    made = run(*inputs.values(), out=tuple(inputs[at[name]] if name in at else jnp.zeros(2) for name in OUTPUTS))
    assert [name for name, buffer in inputs.items() if buffer.is_deleted()] == [*shared]
    for one, other in zip(made, alone, strict=True):
        assert_same_bits(one, other)


def test_the_step_shares_its_buffer_with_no_output():
    assert not any(DESC.may_share(name, "training_step") for name in OUTPUTS)
    assert all(DESC.may_share(name, other) for name in OUTPUTS for other in INPUTS)


def test_float16_is_rounded_once():
    """The square of 1000 is beyond float16: the second moment is written as infinity, and is not one on the way."""
    tensor = f16(1)
    desc = AdamOptimizerDesc(*[tensor] * 4, u32(1), *[tensor] * 3, 0.5, 0.5, 0.75, 0)
    zero, gradient = np.zeros(1, np.float16), np.float16([1000])
    made = desc.compute(zero, zero, zero, gradient, np.uint32([1]))
    assert_same_bits(np.stack(made), np.float16([[-0.5], [500], [np.inf]]))
