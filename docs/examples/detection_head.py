"""A detection head: the best anchors of two pictures, with their scores, classes and boxes.

    python docs/examples/detection_head.py [--count 5] [--steps 0]

Each cell of a feature map has two anchors, each with a logit per class and an offset of its
box. `lax.top_k` finds the best anchors of each picture; `gather_elements` reads their
scores and classes, `gather_nd` with batch_dims=1 their offsets, and `gather` the anchors,
so that only these few boxes are computed. The feature maps are made such that one head
finds the objects in OBJECTS. With `--steps` another head learns to: `scatter_nd` writes the
classes of objects among zeros, and the loss counts their anchors and the hardest others.
Overlapping boxes are not suppressed.
"""

import argparse
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import dml_jax

CLASSES = ("cat", "dog", "bird")
CELLS, STRIDE = 8, 16  # cells per side of a feature map, pixels per side of a cell
ANCHOR_SIZES = ((48, 24), (24, 48))  # width and height, in pixels
CHANNELS = 16
PER_ANCHOR = len(CLASSES) + 4
FOUND = 0.5  # the least score to report
HARDEST = 32  # anchors without an object that the loss counts, for each picture
RATE = 0.005


class Object(NamedTuple):
    """What a picture shows: a class, how sure the head is to be of it, and left, top, right
    and bottom in pixels."""

    name: str
    score: float
    box: tuple[float, float, float, float]


OBJECTS = (
    (
        Object("cat", 0.98, (10.0, 20.0, 62.0, 46.0)),
        Object("dog", 0.91, (70.5, 30.0, 98.0, 90.5)),
        Object("bird", 0.64, (96.0, 4.0, 126.0, 20.0)),
    ),
    (
        Object("bird", 0.87, (3.0, 70.0, 25.0, 124.0)),
        Object("bird", 0.75, (40.0, 64.0, 88.0, 90.0)),
    ),
)


class Detections(NamedTuple):
    """The best anchors of each picture, the best first."""

    scores: jax.Array  # [picture, rank]
    classes: jax.Array  # [picture, rank]
    boxes: jax.Array  # [picture, rank, 4]: left, top, right, bottom


class Targets(NamedTuple):
    """The objects of each picture. Of a picture that has fewer than others the anchor is
    out of range."""

    anchors: jax.Array  # [picture, object]: the number of the anchor that is nearest
    classes: jax.Array  # [picture, object]
    offsets: jax.Array  # [picture, object, 4]: from the anchor to the box


def outputs_of(head: jax.Array, features: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Logits [picture, anchor, class] and offsets [picture, anchor, 4]."""
    outputs = jnp.einsum("prcf,fo->prco", features, head).reshape(
        features.shape[0], -1, PER_ANCHOR
    )
    return outputs[..., :-4], outputs[..., -4:]


@partial(jax.jit, static_argnames="count")
def detect(
    head: jax.Array, features: jax.Array, anchors: jax.Array, count: int
) -> Detections:
    """Applies the head to features [picture, row, column, channel] and returns the `count`
    best anchors."""
    logits, offsets = outputs_of(head, features)
    scores = jax.nn.sigmoid(logits)
    best, classes = scores.max(axis=-1), scores.argmax(axis=-1)
    _, at = lax.top_k(best, count)
    return Detections(
        dml_jax.gather_elements(best, at, axis=1),
        dml_jax.gather_elements(classes, at, axis=1),
        boxes_of(
            dml_jax.gather(anchors, at, axis=0),
            dml_jax.gather_nd(offsets, at[..., None], batch_dims=1),
        ),
    )


def boxes_of(anchors: jax.Array, offsets: jax.Array) -> jax.Array:
    """Moves the centre of each anchor by a part of its size, and scales its size."""
    centre, size = jnp.split(anchors, 2, axis=-1)
    shift, scale = jnp.split(offsets, 2, axis=-1)
    centre, half = centre + shift * size, size * jnp.exp(scale) / 2
    return jnp.concatenate([centre - half, centre + half], axis=-1)


def all_anchors() -> np.ndarray:
    """Centre x, centre y, width and height of every anchor, in the order of the head's
    outputs."""
    middles = (np.arange(CELLS) + 0.5) * STRIDE
    anchors = [(x, y, *size) for y in middles for x in middles for size in ANCHOR_SIZES]
    return np.array(anchors, np.float32)


def new_head(rng: np.random.Generator) -> np.ndarray:
    """A random head of orthonormal columns: its transpose inverts it."""
    columns, _ = np.linalg.qr(rng.normal(size=(CHANNELS, len(ANCHOR_SIZES) * PER_ANCHOR)))
    return columns.astype(np.float32)


def nearest_anchor(item: Object, anchors: np.ndarray) -> tuple[int, np.ndarray]:
    """The number of the anchor that is nearest to an object, and the offset of the object's
    box from it."""
    left, top, right, bottom = item.box
    box = np.array([(left + right) / 2, (top + bottom) / 2, right - left, bottom - top])
    nearest = int(np.abs(anchors - box).sum(axis=1).argmin())
    centre, size = np.split(anchors[nearest], 2)
    return nearest, np.concatenate([(box[:2] - centre) / size, np.log(box[2:] / size)])


def features_of(
    pictures: Sequence[Sequence[Object]], head: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Feature maps on which the head finds these objects, and little elsewhere."""
    anchors = all_anchors()
    outputs = rng.normal(size=(len(pictures), len(anchors), PER_ANCHOR))
    outputs[..., :-4] -= 6
    for picture, objects in zip(outputs, pictures, strict=True):
        for item in objects:
            nearest, offset = nearest_anchor(item, anchors)
            picture[nearest, CLASSES.index(item.name)] = np.log(
                item.score / (1 - item.score)
            )
            picture[nearest, -4:] = offset
    return (outputs.reshape(len(pictures), CELLS, CELLS, -1) @ head.T).astype(np.float32)


def targets_of(pictures: Sequence[Sequence[Object]]) -> Targets:
    """What the head is to find."""
    anchors, most = all_anchors(), max(map(len, pictures))
    found = np.full((len(pictures), most), len(anchors), np.int32)
    classes, offsets = np.zeros_like(found), np.zeros((*found.shape, 4), np.float32)
    for at, objects in enumerate(pictures):
        for number, item in enumerate(objects):
            found[at, number], offsets[at, number] = nearest_anchor(item, anchors)
            classes[at, number] = CLASSES.index(item.name)
    return Targets(found, classes, offsets)


def loss(head: jax.Array, features: jax.Array, targets: Targets) -> jax.Array:
    """Cross-entropy of the anchors of objects and of the hardest others, and squared errors
    of offsets, by object."""
    logits, offsets = outputs_of(head, features)
    shape = targets.anchors.shape
    picture = jnp.broadcast_to(jnp.arange(shape[0], dtype=jnp.int32)[:, None], shape)
    place = jnp.stack([picture, targets.anchors, targets.classes], axis=-1)
    wanted = dml_jax.scatter_nd(
        jnp.zeros_like(logits),
        place,
        jnp.ones(shape, logits.dtype),
        mode="drop",
        unique_indices=True,
    )
    entropy = (jax.nn.softplus(logits) - logits * wanted).sum(axis=-1)
    _, at = lax.top_k(
        lax.stop_gradient(jnp.where(wanted.any(axis=-1), -1, entropy)), HARDEST
    )
    of_others = dml_jax.gather_elements(entropy, at, axis=1, unique_indices=True)

    read = partial(
        dml_jax.gather_nd,
        indices=targets.anchors[..., None],
        batch_dims=1,
        mode="fill",
        unique_indices=True,
    )
    is_object = targets.anchors < entropy.shape[1]
    errors = jnp.where(is_object[..., None], (read(offsets) - targets.offsets) ** 2, 0)
    return (read(entropy).sum() + of_others.sum() + errors.sum()) / is_object.sum(
        dtype=logits.dtype
    )


@jax.jit
def trained_once(
    head: jax.Array, features: jax.Array, targets: Targets
) -> tuple[jax.Array, jax.Array]:
    """The loss, and the head after one step of gradient descent."""
    value, gradient = jax.value_and_grad(loss)(head, features, targets)
    return value, head - RATE * gradient


def main(argv: Sequence[str] | None = None) -> None:
    """Prints what is found in each picture."""
    parser = argparse.ArgumentParser(description="Finds the objects of two pictures.")
    parser.add_argument(
        "--count", type=int, default=5, help="how many anchors of each picture to look at"
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=0,
        help="of training; 0 takes the head that features were made for",
    )
    options = parser.parse_args(argv)

    rng = np.random.default_rng(0)
    head = new_head(rng)
    features, losses = features_of(OBJECTS, head, rng), []
    if options.steps:
        print(f"training: {options.steps} steps on {jax.devices()[0].device_kind}")
        head = jnp.zeros_like(head)
        for _ in range(options.steps):
            value, head = trained_once(head, features, targets_of(OBJECTS))
            losses.append(float(value))
        print(
            f"loss: {losses[0]:.4f} at the start, {losses[-1]:.4f} in step {options.steps}"
        )
    found = jax.device_get(detect(head, features, all_anchors(), options.count))
    print("picture  class  score   left    top  right  bottom")
    for picture, detections in enumerate(zip(*found, strict=True)):
        for score, kind, (left, top, right, bottom) in zip(*detections, strict=True):
            if score >= FOUND:
                box = f"{left:6.1f} {top:6.1f} {right:6.1f}  {bottom:6.1f}"
                print(f"{picture:7}  {CLASSES[kind]:5}  {score:5.2f} {box}")


if __name__ == "__main__":
    main()
