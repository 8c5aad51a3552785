"""docs/examples/routed_experts.py: layers of routed experts, against a loop over the tokens."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import sampled
from jax.sharding import AxisType
from test_examples import numbers, printed, routed_experts
from test_meshes import COLLECTIVE

TOKENS, WIDTH, HIDDEN, EXPERTS, CHOSEN = 64, 128, 24, 16, 3
DEVICES = 8

# By layer: how many copies an expert takes, of the tokens of a device.
LAYERS = {
    "dropless": (partial(routed_experts.dropless, k=CHOSEN), TOKENS),
    **{f"capacity {n}": (partial(routed_experts.with_capacity, k=CHOSEN, capacity=n), n) for n in (1, 2, TOKENS)},
}
every_layer = pytest.mark.parametrize("name", sampled(LAYERS, ["dropless", "capacity 2"]))


def operands():
    """Parameters, tokens, and a cotangent of the results."""
    rng = np.random.default_rng(3)
    parameters = routed_experts.new_parameters(rng, WIDTH, HIDDEN, EXPERTS)
    tokens, cotangent = np.float32(rng.normal(size=(2, TOKENS, WIDTH)))
    return parameters, tokens, cotangent


def by_loop(parameters, tokens, capacity):
    """What each token gets, and which experts took it: [token, expert] of 0 and 1."""
    router, up, down = (array.astype(np.float64) for array in parameters)
    results, taken = np.zeros(tokens.shape), np.zeros((len(tokens), EXPERTS))
    for at, token in enumerate(tokens.astype(np.float64)):
        powers = np.exp(token @ router)
        for expert in np.argsort(-powers)[:CHOSEN]:
            if taken[:, expert].sum() < capacity:
                taken[at, expert] = 1
                results[at] += powers[expert] / powers.sum() * np.maximum(token @ up[expert], 0) @ down[expert]
    return results, taken


def by_loop_on_devices(parameters, tokens, capacity, devices):
    parts = [by_loop(parameters, part, capacity) for part in np.split(tokens, devices)]
    return tuple(map(np.concatenate, zip(*parts, strict=True)))


def dense(parameters, tokens, taken):
    """Every expert on every token, in jax.numpy alone."""
    hidden = jax.nn.relu(jnp.einsum("tw,ewh->teh", tokens, parameters.up))
    results = jnp.einsum("teh,ehw->tew", hidden, parameters.down)
    return jnp.einsum("te,tew->tw", jax.nn.softmax(tokens @ parameters.router) * taken, results)


def pulled_back(layer, cotangent, *operands):
    """Results and gradients, in one program."""
    results, pull_back = jax.vjp(layer, *operands)
    return results, pull_back(cotangent)


def assert_is_the_loop(actual, parameters, tokens, cotangent, capacity, devices):
    """The results are those of the loop, the gradients those of plain jax.numpy."""
    expected, taken = by_loop_on_devices(parameters, tokens, capacity, devices)
    assert (taken.sum() < CHOSEN * TOKENS) == (capacity < TOKENS // devices)
    results, gradients = jax.device_get(actual)
    np.testing.assert_allclose(results, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(~np.any(results, axis=1), ~np.any(taken, axis=1))
    _, of_dense = jax.jit(partial(pulled_back, partial(dense, taken=np.float32(taken))))(cotangent, parameters, tokens)
    for gradient, plain in zip(jax.tree.leaves(gradients), jax.tree.leaves(of_dense), strict=True):
        np.testing.assert_allclose(gradient, plain, rtol=1e-4, atol=1e-4)


@pytest.mark.thinned(2)
@every_layer
def test_a_layer_is_the_loop_over_tokens(name):
    layer, capacity = LAYERS[name]
    parameters, tokens, cotangent = operands()
    actual = jax.jit(partial(pulled_back, layer))(cotangent, parameters, tokens)
    assert_is_the_loop(actual, parameters, tokens, cotangent, capacity, devices=1)


def test_narrow_tokens_choose_experts_by_logits_of_float32():
    parameters, tokens, _ = operands()
    router, tokens = jnp.bfloat16(parameters.router), jnp.bfloat16(tokens)
    logits = np.float64(tokens) @ np.float64(router)
    expert, weight = routed_experts.chosen(tokens, router, CHOSEN)
    np.testing.assert_array_equal(expert, np.argsort(-logits, axis=1)[:, :CHOSEN])
    assert weight.dtype == jnp.bfloat16
    powers = np.exp(logits)
    chosen = np.take_along_axis(powers / powers.sum(axis=1, keepdims=True), np.asarray(expert), axis=1)
    np.testing.assert_allclose(np.float64(weight), chosen, rtol=2**-8)


@pytest.mark.thinned(2)
@every_layer
def test_on_a_mesh_tokens_and_experts_meet_by_all_to_all(name):
    """Nothing else is sent, but for the gradient of the router, which every device has."""
    layer, capacity = LAYERS[name]
    parameters, tokens, cotangent = operands()
    mesh = jax.make_mesh((DEVICES,), ("x",), axis_types=(AxisType.Explicit,), devices=jax.devices("cpu")[:DEVICES])
    specs = (jax.P("x"), *routed_experts.specs("x"))
    with jax.set_mesh(mesh):
        sharded = jax.device_put((cotangent, parameters, tokens), specs)
        layer = routed_experts.on_mesh(layer, "x")
        program = jax.jit(partial(pulled_back, layer)).lower(*sharded).compile()
        actual = program(*sharded)
    assert {*COLLECTIVE.findall(program.as_text())} == {"all-to-all", "all-reduce"}
    assert jax.tree.map(lambda array: array.sharding.spec[0], actual) == (
        "x",
        (routed_experts.Parameters(None, "x", "x"), "x"),
    )
    assert_is_the_loop(actual, parameters, tokens, cotangent, capacity, DEVICES)


@pytest.mark.exhaustive
@pytest.mark.parametrize("factor", sampled([0.5, 1.25, 8], [1.25]))
def test_the_program_counts_and_learns(factor):
    text = printed(routed_experts, "--capacity-factor", factor, "--steps", 20)
    devices, capacity = map(int, numbers(r"devices: (\d+); an expert takes (\d+)", text))
    parameters, tokens, _ = routed_experts.example()
    logits = (tokens @ parameters.router).reshape(devices, -1, routed_experts.EXPERTS)
    chosen = np.argsort(-logits, axis=-1)[..., : routed_experts.CHOSEN]
    counts = np.stack([np.bincount(part.ravel(), minlength=routed_experts.EXPERTS) for part in chosen])
    rows = np.array([line.split() for line in text.splitlines()[2 : 2 + routed_experts.EXPERTS]], int)
    dropped = np.maximum(counts - capacity, 0).sum(axis=0)
    np.testing.assert_array_equal(rows.T, [range(routed_experts.EXPERTS), counts.sum(axis=0), dropped])
    for name in ("dropless", "with capacity"):
        start, end = numbers(rf"{name}: loss ([\d.]+) at the start, ([\d.]+) after 20 steps", text)
        assert end < 0.8 * start
