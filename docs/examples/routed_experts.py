"""Routed experts: a mixture-of-experts layer sends each token to its likeliest experts.

    python docs/examples/routed_experts.py [--capacity-factor 1.25] [--steps 100]

A router gives each token `k` experts with weights. The layer `dropless` sorts the copies of
the tokens by expert, and `jax.lax.ragged_dot` multiplies the rows of each expert by its
matrix. In the layer `with_capacity` every expert has a buffer of so many rows, and a token
whose expert is full gets 0 from it. On a mesh each device has a part of the tokens and of
the experts, and an all-to-all carries rows there and back. The program trains both layers,
on all devices.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType

from dml_jax import layers

TOKENS, WIDTH, HIDDEN, EXPERTS, CHOSEN = 512, 16, 32, 8, 2
RATE = 4.0
AXIS = "devices"

Layer = Callable[..., jax.Array]


class Parameters(NamedTuple):
    """A router, and two matrices for each expert."""

    router: jax.Array  # [width, expert]
    up: jax.Array  # [expert, width, hidden]
    down: jax.Array  # [expert, hidden, width]


# The layers. With the name of an axis they run inside jax.shard_map, on the tokens and the
# experts of one device.


def chosen(tokens: jax.Array, router: jax.Array, k: int) -> tuple[jax.Array, jax.Array]:
    """The `k` likeliest experts of each token, and their weights. Logits [token, expert]
    are float32, as small differences choose."""
    logits = tokens.astype(jnp.float32) @ router.astype(jnp.float32)
    expert, weight = layers.route(logits, k)
    return expert, weight.astype(tokens.dtype)


def dropless(
    parameters: Parameters, tokens: jax.Array, k: int, axis: str | None = None
) -> jax.Array:
    """Every token gets all of its experts: [token, width], as `tokens`."""
    expert, weight = chosen(tokens, parameters.router, k)
    copies, expert = jnp.repeat(tokens, k, axis=0), expert.reshape(-1)
    apply = sorted_experts if axis is None else partial(sorted_experts_elsewhere, axis=axis)
    return layers.weighted_sum(apply(parameters, copies, expert), weight)


def sorted_experts(
    parameters: Parameters, copies: jax.Array, expert: jax.Array
) -> jax.Array:
    """Applies to each copy its expert. Rows of no expert, whose number is behind the last
    one, are undefined."""
    order, inverse = layers.sort_by_group(expert)
    sizes = layers.group_sizes(expert, len(parameters.up))
    hidden = jax.nn.relu(
        lax.ragged_dot(layers.permute_rows(copies, order), parameters.up, sizes)
    )
    return layers.permute_rows(lax.ragged_dot(hidden, parameters.down, sizes), inverse)


def sorted_experts_elsewhere(
    parameters: Parameters, copies: jax.Array, expert: jax.Array, axis: str
) -> jax.Array:
    """`sorted_experts` on the devices of the experts. Each buffer has a row for every copy,
    so that none is dropped."""
    devices, experts = lax.axis_size(axis), len(parameters.up)
    slot = layers.buffer_slots(expert // experts, devices, len(copies))
    numbers = layers.dispatch(
        expert[:, None] % experts,
        slot,
        jnp.full((devices, len(copies), 1), experts, expert.dtype),
    )
    buffers = layers.dispatch(
        copies, slot, jnp.zeros((devices, *copies.shape), copies.dtype)
    )

    def apply(numbers: jax.Array, buffers: jax.Array) -> jax.Array:
        rows = buffers.reshape(-1, buffers.shape[-1])
        return sorted_experts(parameters, rows, numbers.reshape(-1)).reshape(buffers.shape)

    return layers.collect(elsewhere(apply, axis)(numbers, buffers), slot)


def with_capacity(
    parameters: Parameters,
    tokens: jax.Array,
    k: int,
    capacity: int,
    axis: str | None = None,
) -> jax.Array:
    """Every expert takes `capacity` copies of the tokens of a device, the first that come;
    others get 0 from it."""
    expert, weight = chosen(tokens, parameters.router, k)
    experts = parameters.router.shape[1]
    slot = layers.buffer_slots(expert.reshape(-1), experts, capacity)
    buffers = layers.dispatch(
        jnp.repeat(tokens, k, axis=0),
        slot,
        jnp.zeros((experts, capacity, tokens.shape[1]), tokens.dtype),
    )
    results = elsewhere(partial(buffered_experts, parameters), axis)(buffers)
    return layers.weighted_sum(layers.collect(results, slot), weight)


def buffered_experts(parameters: Parameters, buffers: jax.Array) -> jax.Array:
    """Applies each expert to its buffer [capacity, width]."""
    hidden = jax.nn.relu(jnp.einsum("ecw,ewh->ech", buffers, parameters.up))
    return jnp.einsum("ech,ehw->ecw", hidden, parameters.down)


# On a mesh.


def elsewhere(
    function: Callable[..., jax.Array], axis: str | None
) -> Callable[..., jax.Array]:
    """Sends buffers [group, row, ...] to the devices of their groups, applies a function
    there, and sends rows back."""
    if axis is None:
        return function

    def applied(*buffers: jax.Array) -> jax.Array:
        there = [
            lax.all_to_all(buffer, axis, split_axis=0, concat_axis=1, tiled=True)
            for buffer in buffers
        ]
        return lax.all_to_all(
            function(*there), axis, split_axis=1, concat_axis=0, tiled=True
        )

    return applied


def specs(axis: str) -> tuple[Parameters, jax.P]:
    """How parameters and tokens are sharded over an axis of a mesh: by experts, and by
    tokens."""
    return Parameters(router=jax.P(), up=jax.P(axis), down=jax.P(axis)), jax.P(axis)


def on_mesh(layer: Layer, axis: str) -> Layer:
    """A layer whose tokens and experts are sharded over the one axis of the mesh that is
    set."""
    return jax.shard_map(
        partial(layer, axis=axis), in_specs=specs(axis), out_specs=jax.P(axis)
    )


# Training.


def loss(
    layer: Layer, parameters: Parameters, tokens: jax.Array, targets: jax.Array
) -> jax.Array:
    """The mean squared distance of a layer's results from their targets."""
    return jnp.mean((layer(parameters, tokens) - targets) ** 2)


@partial(jax.jit, static_argnames="layer")
def trained_once(
    layer: Layer, parameters: Parameters, tokens: jax.Array, targets: jax.Array
) -> tuple[jax.Array, Parameters]:
    """The loss, and the parameters after one step of gradient descent."""
    value, gradient = jax.value_and_grad(partial(loss, layer))(parameters, tokens, targets)
    return value, jax.tree.map(
        lambda array, slope: array - RATE * slope, parameters, gradient
    )


def new_parameters(
    rng: np.random.Generator, width: int, hidden: int, experts: int
) -> Parameters:
    """Random matrices."""
    shapes = Parameters(
        (width, experts), (experts, width, hidden), (experts, hidden, width)
    )
    return Parameters(
        *(np.float32(rng.normal(size=shape) / np.sqrt(shape[-2])) for shape in shapes)
    )


def example() -> tuple[Parameters, np.ndarray, np.ndarray]:
    """Parameters, tokens, which prefer some experts, and targets, which other parameters
    make of them."""
    rng = np.random.default_rng(0)
    parameters, teacher = (new_parameters(rng, WIDTH, HIDDEN, EXPERTS) for _ in range(2))
    tokens = np.float32(rng.normal(size=(TOKENS, WIDTH)) + parameters.router[:, 0])
    return (
        parameters,
        tokens,
        np.asarray(jax.jit(partial(dropless, k=CHOSEN))(teacher, tokens)),
    )


@jax.jit
@partial(jax.vmap, in_axes=(None, 0))
def load(router: jax.Array, tokens: jax.Array) -> jax.Array:
    """How many copies of each device's tokens [device, token, width] go to each expert:
    [device, expert]."""
    return layers.group_sizes(chosen(tokens, router, CHOSEN)[0].reshape(-1), EXPERTS)


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the load of the experts, and for both layers the loss before and after
    training on all devices."""
    parser = argparse.ArgumentParser(description="Trains layers of routed experts.")
    parser.add_argument(
        "--capacity-factor",
        type=float,
        default=1.25,
        help="rows of a buffer, by the mean of what is sent",
    )
    parser.add_argument("--steps", type=int, default=100, help="of training")
    options = parser.parse_args(argv)

    parameters, tokens, targets = example()
    devices = math.gcd(jax.device_count(), EXPERTS)
    capacity = math.ceil(options.capacity_factor * CHOSEN * TOKENS / devices / EXPERTS)
    copies = np.asarray(load(parameters.router, tokens.reshape(devices, -1, WIDTH)))
    dropped = np.maximum(copies - capacity, 0)
    print(f"devices: {devices}; an expert takes {capacity} copies from each")
    print("expert  copies  dropped")
    for expert in range(EXPERTS):
        print(f"{expert:6}  {copies[:, expert].sum():6}  {dropped[:, expert].sum():7}")

    mesh = jax.make_mesh(
        (devices,),
        (AXIS,),
        axis_types=(AxisType.Explicit,),
        devices=jax.devices()[:devices],
    )
    both = {
        "dropless": partial(dropless, k=CHOSEN),
        "with capacity": partial(with_capacity, k=CHOSEN, capacity=capacity),
    }
    with jax.set_mesh(mesh):
        start, tokens, targets = jax.device_put(
            (parameters, tokens, targets), (*specs(AXIS), jax.P(AXIS))
        )
        for name, single in both.items():
            layer, parameters, losses = on_mesh(single, AXIS), start, []
            for _ in range(options.steps + 1):
                value, parameters = trained_once(layer, parameters, tokens, targets)
                losses.append(float(value))
            print(
                f"{name}: loss {losses[0]:.4f} at the start,"
                f" {losses[-1]:.4f} after {options.steps} steps"
            )


if __name__ == "__main__":
    main()
