"""ONNX's losses: against the formulas in float64, ONNX Runtime and torch; what is ignored has no part in them."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import sampled
from onnx_building import one_node, runtime
from onnx_one_node import assert_refused, computed

from dml_jax.onnx import to_jax

NEGATIVE, SOFTMAX = "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"
TYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64}
REDUCTIONS = ("none", "sum", "mean")


def log_softmax(x):
    less = x - x.max(1, keepdims=True, initial=-np.inf)
    return less - np.log(np.exp(less).sum(1, keepdims=True))


def expected(kind, x, target, weight=None, *, ignore_index=None, reduction="mean"):
    """In float64, without the elements that are ignored."""
    x = np.asarray(x, np.float64)
    logarithms = np.moveaxis(log_softmax(x) if kind == SOFTMAX else x, 1, -1)
    weight = np.ones(x.shape[1]) if weight is None else np.asarray(weight, np.float64)
    losses, factors = np.zeros(target.shape), np.zeros(target.shape)
    for at in np.argwhere(target != ignore_index) if ignore_index is not None else np.ndindex(target.shape):
        factors[*at] = weight[target[*at]]
        losses[*at] = -logarithms[(*at, target[*at])] * factors[*at]
    if reduction == "none":
        return losses
    with np.errstate(invalid="ignore"):
        return losses.sum() if reduction == "sum" else np.divide(losses.sum(), factors.sum())


def drawn(rng, dtype=np.float32):
    """The inputs of a loss, and its attributes: sizes of 1 too, a class that is ignored, or a number of none."""
    count = int(rng.integers(1, 6))
    sizes = tuple(int(n) for n in rng.integers(1, 5, int(rng.integers(1, 4))))
    x = rng.standard_normal((sizes[0], count, *sizes[1:])).astype(dtype)
    target = rng.integers(0, count, sizes, (np.int32, np.int64)[rng.integers(2)])
    attributes = {"reduction": str(rng.choice(REDUCTIONS))}
    if rng.random() < 0.7:
        attributes["ignore_index"] = int(rng.choice([-100, -1, 0, count]))
        if sizes[0] > 1:
            target[0] = attributes["ignore_index"]
    weight = rng.uniform(0.5, 2, count).astype(dtype) if rng.random() < 0.5 else None
    return [x, target] + ([] if weight is None else [weight]), attributes


@pytest.mark.thinned(21)
@pytest.mark.parametrize("seed", range(64))
@pytest.mark.parametrize("kind", [NEGATIVE, SOFTMAX])
def test_losses_are_those_of_onnx_runtime_and_rounded_once(kind, seed):
    rng = np.random.default_rng(seed)
    dtype = list(TYPES.values())[seed // 8 % 4]
    opset = 22 if dtype == ml_dtypes.bfloat16 else int(rng.choice([12, 13, 22]))
    inputs, attributes = drawn(rng, dtype)
    outputs = 2 if kind == SOFTMAX and seed % 2 else 1
    loss, *logarithms = computed(kind, inputs, outputs, opset=opset, **attributes)
    step = float(jnp.finfo(dtype).eps)
    near = {"rtol": 0.51 * step, "atol": 1e-6} if step > 1e-6 else {"rtol": 8 * step, "atol": 8 * step}
    assert loss.dtype == dtype
    np.testing.assert_allclose(loss, expected(kind, *inputs, **attributes), **near)
    for y in logarithms:
        assert y.dtype == dtype
        np.testing.assert_allclose(y, log_softmax(inputs[0].astype(np.float64)), **near)
    if dtype == np.float32:
        model, named = one_node(kind, inputs, outputs, opset=opset, **attributes)
        for y, wanted in zip([loss, *logarithms], runtime(model, named), strict=True):
            np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", sampled([NEGATIVE, SOFTMAX], [SOFTMAX]))
@pytest.mark.parametrize("dtype", sampled(list(TYPES.values()), [ml_dtypes.bfloat16]))
def test_every_type_takes_weights_and_a_class_that_is_ignored(kind, dtype):
    inputs = [np.eye(3, 4).astype(dtype), np.int64([1, 0, 3]), np.arange(1, 5).astype(dtype)]
    (loss,) = computed(kind, inputs, opset=22, ignore_index=0)
    assert loss.dtype == dtype
    step = float(jnp.finfo(dtype).eps)
    np.testing.assert_allclose(loss, expected(kind, *inputs, ignore_index=0), rtol=0.51 * step + 2e-7, atol=1e-15)


@pytest.mark.parametrize("kind", sampled([NEGATIVE, SOFTMAX], [NEGATIVE]))
def test_targets_of_64_bits_may_be_known_without_x64(kind):
    x, target, weight = np.float32([[0.5, -1], [2, 0.25], [1, 1]]), np.int64([1, -(2**40), 0]), np.float32([3, 2])
    proto, _ = one_node(kind, [x, target, weight], opset=13, ignore_index=-(2**40))
    name = proto.graph.input[1].name
    loss = to_jax(proto, static={name: target})(x, weight)
    np.testing.assert_allclose(loss, expected(kind, x, target, weight, ignore_index=-(2**40)), rtol=1e-6)


def slopes(kind, inputs, **attributes):
    """Derivatives of the sum of a loss by the numbers and, if there are some, the weights."""
    model, named = one_node(kind, inputs, opset=13, **attributes)
    floats = {name: array for name, array in named.items() if array.dtype.kind == "f"}
    given = {name: array for name, array in named.items() if name not in floats}
    return jax.jit(jax.grad(lambda floats: to_jax(model)(**floats, **given).sum()))(floats).values()


@pytest.mark.parametrize("kind", [NEGATIVE, SOFTMAX])
@pytest.mark.parametrize("weighted", sampled([False, True], [True]))
@pytest.mark.parametrize("reduction", sampled(REDUCTIONS, ["mean"]))
def test_derivatives_are_those_of_torch(kind, weighted, reduction):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((3, 4, 2)).astype(np.float32), np.int32([[0, -9], [3, 3], [-9, 1]])]
    inputs += [rng.uniform(1, 2, 4).astype(np.float32)] if weighted else []
    loss = {NEGATIVE: torch.nn.functional.nll_loss, SOFTMAX: torch.nn.functional.cross_entropy}[kind]
    x, target, weight = *map(torch.tensor, inputs), *([] if weighted else [None])
    x.requires_grad_()
    loss(x, target.long(), weight, ignore_index=-9, reduction=reduction).sum().backward()
    by_x, *_ = slopes(kind, inputs, ignore_index=-9, reduction=reduction)
    np.testing.assert_allclose(by_x, x.grad.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", sampled([NEGATIVE, SOFTMAX], [SOFTMAX]))
@pytest.mark.parametrize("reduction", sampled(REDUCTIONS, ["mean"]))
def test_what_is_ignored_may_be_anything(kind, reduction):
    """Neither the loss nor a derivative, by numbers or weights, is NaN: those of what is ignored are 0."""
    x = np.float32([[0.5, -1, 0.25], [np.nan, np.inf, -np.inf], [-np.inf] * 3])
    target, weight = np.int64([2, -1, -1]), np.float32([3, 2, 1])
    attributes = {"ignore_index": -1, "reduction": reduction}
    alone = [x[:1], np.int32([2]), weight]
    (loss,) = computed(kind, [x, target, weight], opset=13, **attributes)
    np.testing.assert_allclose(np.sum(loss), np.sum(expected(kind, *alone, reduction=reduction)), rtol=1e-6)
    by_x, by_weight = slopes(kind, [x, target.astype(np.int32), weight], **attributes)
    of_alone, weight_of_alone = slopes(kind, alone, **attributes)
    np.testing.assert_allclose(by_x, np.stack([of_alone[0], np.zeros(3), np.zeros(3)]), rtol=1e-6)
    np.testing.assert_allclose(by_weight, weight_of_alone, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", [NEGATIVE, SOFTMAX])
def test_the_logarithm_of_0_has_an_infinite_loss_and_finite_derivatives(kind):
    x, target = np.float32([[0, -np.inf], [0, -np.inf]]), np.int32([1, 0])
    (loss,) = computed(kind, [x, target], opset=13, reduction="none")
    np.testing.assert_array_equal(loss, [np.inf, 0])
    (by_x,) = slopes(kind, [x, target], reduction="none")
    np.testing.assert_allclose(by_x, [[0, -1], [-1, 0]] if kind == NEGATIVE else [[1, -1], [0, 0]], atol=1e-7)


@pytest.mark.parametrize("kind", sampled([NEGATIVE, SOFTMAX], [SOFTMAX]))
def test_the_mean_of_no_elements_is_nan(kind):
    """As in torch: of a batch of 0, and if all are ignored; then the derivatives are 0."""
    inputs = [np.zeros((2, 3, 0), np.float32), np.zeros((2, 0), np.int32)]
    for reduction, wanted in {"mean": np.nan, "sum": 0, "none": np.zeros((2, 0))}.items():
        np.testing.assert_array_equal(computed(kind, inputs, opset=13, reduction=reduction)[0], wanted)
    inputs = [np.zeros((2, 3), np.float32), np.int32([7, 7]), np.ones(3, np.float32)]
    assert np.isnan(computed(kind, inputs, opset=13, ignore_index=7)[0])
    for slope in slopes(kind, inputs, ignore_index=7):
        np.testing.assert_array_equal(slope, 0)


@pytest.mark.parametrize("kind", [NEGATIVE, SOFTMAX])
def test_labels_out_of_range(kind):
    """They are read as any index is: from the end, or as the nearest one; a number that int32 lacks ignores nothing."""
    x = np.log(np.float32([[0.25, 0.25, 0.5]] * 3))
    (loss,) = computed(kind, [x, np.int32([-1, 5, 0])], opset=13, reduction="none", ignore_index=2**40)
    np.testing.assert_allclose(loss, np.log([2, 2, 4]), rtol=1e-6)


@pytest.mark.parametrize("kind", sampled([NEGATIVE, SOFTMAX], [SOFTMAX]))
def test_each_of_a_batch_is_computed_as_if_alone(kind):
    rng = np.random.default_rng(0)
    x, target = rng.standard_normal((2, 3, 4)).astype(np.float32), rng.integers(-1, 4, (2, 3)).astype(np.int32)
    function = jax.jit(to_jax(one_node(kind, [x[0], target[0]], opset=13, ignore_index=-1)[0]))
    np.testing.assert_allclose(jax.vmap(function)(x, target), list(map(function, x, target)), rtol=1e-6)


def test_labels_of_64_bits_while_x64_is_off():
    model, named = one_node(SOFTMAX, [np.zeros((2, 4), np.float32), np.int64([3, -100])], ignore_index=-100)
    loss = jax.jit(to_jax(model, int32=["x1"]))(named["x0"], named["x1"].astype(np.int32))
    np.testing.assert_allclose(loss, np.log(4), rtol=1e-6)


X, LABELS = np.zeros((2, 3, 4), np.float32), np.zeros((2, 4), np.int64)


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        ([X[0, 0], LABELS[0]], {}, "its sizes must be [?, ?], but they are [4]"),
        ([X, LABELS[:, :3]], {}, "its sizes must be [2, 4], but they are [2, 3]"),
        ([X, LABELS[:1]], {}, "its sizes must be [2, 4], but they are [1, 4]"),
        ([X, LABELS, np.ones(4, np.float32)], {}, "its sizes must be [3], but they are [4]"),
        ([X, LABELS], {"reduction": "average"}, "reduction must be none or sum or mean, but it is average"),
    ],
)
@pytest.mark.parametrize("kind", [NEGATIVE, SOFTMAX])
def test_what_does_not_fit(kind, inputs, attributes, message):
    assert_refused(message, kind, inputs, opset=13, **attributes)
