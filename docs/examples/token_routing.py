"""Token routing of a mixture of experts: every token goes to one expert, unless that expert's buffer is full.

    python docs/examples/token_routing.py [--capacity 20]

A router gives each token an expert and a weight, the gate. `scatter_nd` writes the tokens into the buffers of their
experts; where a buffer is full the slot of a token lies beyond its end, and mode="drop" drops the token. Each expert
multiplies its buffer by its matrix, and `gather_nd` reads the results back; mode="fill" gives 0 for a dropped token.
Gradients go the same ways back, as one step of gradient descent shows.
"""

import argparse
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import dml_jax

TOKENS, EXPERTS, WIDTH = 64, 4, 16
RATE = 4.0


class Route(NamedTuple):
    """Where tokens go."""

    expert: jax.Array  # [token]
    slot: jax.Array  # [token]: how many earlier tokens have the same expert
    gate: jax.Array  # [token]: the router's probability of the expert


def route(logits: jax.Array) -> Route:
    """Sends each token to its likeliest expert, by logits [token, expert]."""
    expert = logits.argmax(axis=-1)
    arrivals = jnp.cumsum(jax.nn.one_hot(expert, logits.shape[-1], dtype=jnp.int32), axis=0)
    slot = dml_jax.gather_elements(arrivals, expert[:, None], axis=1)[:, 0] - 1
    gate = dml_jax.gather_elements(jax.nn.softmax(logits), expert[:, None], axis=1)[:, 0]
    return Route(expert, slot, gate)


def routed(experts: jax.Array, router: jax.Array, tokens: jax.Array, capacity: int) -> jax.Array:
    """Applies to each token the matrix of its expert, times its gate; 0 for tokens that were dropped."""
    expert, slot, gate = route(tokens @ router)
    place = jnp.stack([expert, slot], axis=-1)
    empty = jnp.zeros((experts.shape[0], capacity, tokens.shape[1]), tokens.dtype)
    buffers = dml_jax.scatter_nd(empty, place, tokens, mode="drop")
    return gate[:, None] * dml_jax.gather_nd(buffers @ experts, place, mode="fill")


@partial(jax.jit, static_argnames="capacity")
def loss(experts: jax.Array, router: jax.Array, tokens: jax.Array, targets: jax.Array, capacity: int) -> jax.Array:
    """The mean squared distance of the routed tokens from their targets."""
    return jnp.mean((routed(experts, router, tokens, capacity) - targets) ** 2)


def example() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Experts, a router, tokens and targets, at random; the tokens prefer some experts."""
    rng = np.random.default_rng(0)
    experts = rng.normal(size=(EXPERTS, WIDTH, WIDTH)) / np.sqrt(WIDTH)
    router = rng.normal(size=(WIDTH, EXPERTS)) / np.sqrt(WIDTH)
    tokens = rng.normal(size=(TOKENS, WIDTH)) + router[:, 0]
    targets = rng.normal(size=(TOKENS, WIDTH))
    return tuple(array.astype(np.float32) for array in (experts, router, tokens, targets))


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the load of each expert, its gradient, and the loss before and after one step."""
    parser = argparse.ArgumentParser(description="Routes tokens to experts.")
    parser.add_argument("--capacity", type=int, default=20, help="how many tokens an expert takes")
    capacity = parser.parse_args(argv).capacity

    experts, router, tokens, targets = example()
    chosen = jax.device_get(jax.jit(route)(jnp.matmul(tokens, router)))
    before, gradient = jax.device_get(jax.value_and_grad(loss)(experts, router, tokens, targets, capacity))
    print("expert  tokens  dropped  gradient")
    for expert, matrix in enumerate(gradient):
        slots = chosen.slot[chosen.expert == expert]
        dropped = (slots >= capacity).sum()
        print(f"{expert:6}  {slots.size:6}  {dropped:7}  {np.linalg.norm(matrix):8.4f}")
    print(f"dropped: {(chosen.slot >= capacity).sum()} of {len(tokens)} tokens")
    after = loss(experts - RATE * gradient, router, tokens, targets, capacity)
    print(f"loss: {before:.4f}, after one step {after:.4f}")


if __name__ == "__main__":
    main()
