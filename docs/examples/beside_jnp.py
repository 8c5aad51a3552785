"""Trains these examples with dml_jax and with jax.numpy, and compares losses and times.

    python docs/examples/beside_jnp.py [--steps 20] [--size 1] [--dtype float32]

Each example is loaded twice; the second time plain_jnp.py takes the place of dml_jax. Both
take turns, step by step, and the table says how many times as fast dml_jax is, by the
medians of all steps. `--size` multiplies the batch: 1 suits a test, 64 a GPU. Weights stay
in float32; `--dtype bfloat16` computes with copies of 16 bits. It needs Pillow.
"""

import argparse
import importlib.util
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax.layers import routing

FOLDER = Path(__file__).parent
TOLERANCE = {
    "float32": 1e-3,
    "bfloat16": 2e-2,
}  # of losses, which sums in another order change


class Training(NamedTuple):
    """What is trained, by gradient descent."""

    loss: Callable[..., jax.Array]  # of parameters and a batch
    parameters: Any
    batch: tuple[Any, ...]
    rate: float


# The models: each takes its example as a module, and a size.


def super_resolution(example: ModuleType, size: int) -> Training:
    """16 * size squares of a photograph."""
    rng, photo = np.random.default_rng(0), example.photograph()
    pictures = np.concatenate([example.patches(rng, photo) for _ in range(size)])
    return Training(example.loss, example.new_layers(rng), (pictures,), rate=0.5)


def detection_head(example: ModuleType, size: int) -> Training:
    """2 * size pictures."""
    rng, pictures = np.random.default_rng(0), example.OBJECTS * size
    head = example.new_head(rng)
    batch = example.features_of(pictures, head, rng), example.targets_of(pictures)
    return Training(example.loss, np.zeros_like(head), batch, example.RATE)


def routed_experts(
    example: ModuleType, size: int, layer: Callable[..., jax.Array]
) -> Training:
    """128 * size tokens, of which each goes to two of eight experts."""
    rng, width = np.random.default_rng(0), 256
    parameters = example.new_parameters(rng, width, 2 * width, experts=8)
    tokens, targets = np.float32(rng.normal(size=(2, 128 * size, width)))
    return Training(partial(example.loss, layer), parameters, (tokens, targets), rate=10.0)


def dropless(example: ModuleType, size: int) -> Training:
    """Every token gets both experts."""
    return routed_experts(example, size, partial(example.dropless, k=2))


def with_capacity(example: ModuleType, size: int) -> Training:
    """An expert takes a quarter more than its share, 32 * size."""
    return routed_experts(
        example, size, partial(example.with_capacity, k=2, capacity=40 * size)
    )


MODELS: dict[str, tuple[str, Callable[[ModuleType, int], Training]]] = {
    "super-resolution": ("super_resolution", super_resolution),
    "detection head": ("detection_head", detection_head),
    "experts, dropless": ("routed_experts", dropless),
    "experts, capacity": ("routed_experts", with_capacity),
}


# The comparison.


def loaded(name: str, path: Path | None = None, package: str = "") -> ModuleType:
    """A new copy of a module, of this folder if no path says another."""
    path = path or FOLDER / f"{name}.py"
    spec = importlib.util.spec_from_file_location(package + name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def in_plain_jnp(name: str) -> ModuleType:
    """A copy of an example that calls plain_jnp.py, also where dml_jax.layers calls
    operators."""
    example, plain = loaded(name), loaded("plain_jnp")
    layers = loaded("routing", Path(routing.__file__), "dml_jax.layers.")
    for operator in vars(layers).keys() & vars(plain).keys():
        setattr(layers, operator, getattr(plain, operator))
    example.dml_jax, example.layers = plain, layers
    return example


class Trainer:
    """Trains a model, and keeps the loss and the seconds of each step."""

    def __init__(self, training: Training, dtype: str) -> None:
        self.parameters, self.batch = jax.device_put((training.parameters, training.batch))
        self.losses: list[float] = []
        self.seconds: list[float] = []

        def narrow(tree: Any) -> Any:
            return jax.tree.map(
                lambda x: x.astype(dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x,
                tree,
            )

        def loss(parameters: Any, batch: tuple[Any, ...]) -> jax.Array:
            return training.loss(narrow(parameters), *narrow(batch)).astype(jnp.float32)

        @jax.jit
        def step(parameters: Any, batch: tuple[Any, ...]) -> tuple[jax.Array, Any]:
            value, gradient = jax.value_and_grad(loss)(parameters, batch)
            return value, jax.tree.map(
                lambda array, slope: array - training.rate * slope, parameters, gradient
            )

        self._step = step

    def step(self) -> None:
        """One step, which is waited for."""
        start = time.perf_counter()
        value, self.parameters = jax.block_until_ready(
            self._step(self.parameters, self.batch)
        )
        self.seconds.append(time.perf_counter() - start)
        self.losses.append(float(value))


def trained(name: str, steps: int, size: int, dtype: str) -> tuple[Trainer, Trainer]:
    """A model after training with dml_jax, and in plain jax.numpy. A first step compiles,
    and is not counted."""
    file, start = MODELS[name]
    trainers = [Trainer(start(load(file), size), dtype) for load in (loaded, in_plain_jnp)]
    for turn in range(steps + 1):
        for trainer in trainers[:: 1 if turn % 2 else -1]:
            trainer.step()
    for trainer in trainers:
        del trainer.seconds[0]
    ours, plain = trainers
    if not np.allclose(ours.losses, plain.losses, rtol=TOLERANCE[dtype]):
        raise SystemExit(
            f"beside_jnp: the losses of {name} differ: {ours.losses} and, in plain jnp,"
            f" {plain.losses}"
        )
    return ours, plain


def main(argv: Sequence[str] | None = None) -> None:
    """Prints a row for each model."""
    parser = argparse.ArgumentParser(
        description="Compares training steps with those in plain jax.numpy."
    )
    parser.add_argument("--steps", type=int, default=20, help="of training, for each model")
    parser.add_argument("--size", type=int, default=1, help="multiplies the batch")
    parser.add_argument(
        "--dtype",
        choices=sorted(TOLERANCE),
        default="float32",
        help="in which a step computes",
    )
    options = parser.parse_args(argv)

    print(
        f"{jax.devices()[0].device_kind}, jax {jax.__version__}, {options.dtype},"
        f" size {options.size}"
    )
    print("| model | first loss | last loss | in plain jnp | times as fast |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name in MODELS:
        ours, plain = trained(name, options.steps, options.size, options.dtype)
        losses = [
            f"{loss:.4g}" for loss in (ours.losses[0], ours.losses[-1], plain.losses[-1])
        ]
        ratio = median(plain.seconds) / median(ours.seconds)
        print(f"| {name} | {' | '.join(losses)} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
