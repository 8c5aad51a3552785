"""The programs of docs/examples, against NumPy."""

import contextlib
import importlib.util
import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"


def imported(name):
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


beside_jnp = imported("beside_jnp")
detection_head = imported("detection_head")
routed_experts = imported("routed_experts")
super_resolution = imported("super_resolution")


pytestmark = pytest.mark.usefixtures("full_precision")


def printed(module, *arguments):
    """The output of an example."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        module.main([str(a) for a in arguments])
    return output.getvalue()


def numbers(pattern, text):
    """The numbers in parentheses of a pattern."""
    return [float(n) for n in re.search(pattern, text).groups()]


@pytest.mark.parametrize(
    "module", [beside_jnp, detection_head, routed_experts, super_resolution], ids=lambda m: m.__name__
)
def test_every_example_says_what_it_is_and_how_to_run_it(module):
    assert module.__doc__.splitlines()[0].endswith(".")
    assert f"    python docs/examples/{module.__name__}.py" in module.__doc__.splitlines()[2]


@pytest.fixture(scope="module")
def super_resolved(tmp_path_factory):
    """The output of a short training, and its picture."""
    path = tmp_path_factory.mktemp("examples") / "out.png"
    return printed(super_resolution, "--steps", 60, "--picture", path), path


def test_super_resolution_learns(super_resolved):
    start, end = numbers(r"loss: ([\d.]+) at the start, ([\d.]+) after 60 steps", super_resolved[0])
    assert end < 0.8 * start


def test_super_resolution_beats_nearest_neighbour_on_the_part_held_out(super_resolved):
    repeated, network = numbers(r"neighbour ([\d.]+) dB\n +network +([\d.]+) dB", super_resolved[0])
    assert network > repeated + 1


def test_super_resolution_draws_the_pictures_whose_noise_it_prints(super_resolved):
    text, path = super_resolved
    with Image.open(path) as image:
        panels = np.split(np.asarray(image, np.float64) / 255, 3, axis=1)
    with Image.open(super_resolution.PHOTOGRAPH) as image:
        photo = np.asarray(image.convert("RGB"), np.float64)[:330, :510] / 255
    repeated = photo.reshape(110, 3, 170, 3, 3).mean((1, 3)).repeat(3, 0).repeat(3, 1)
    np.testing.assert_array_equal(panels[2], photo)
    np.testing.assert_allclose(panels[0], repeated, atol=0.501 / 255)
    ratios = [-10 * np.log10(np.mean((panel - photo) ** 2)) for panel in panels[:2]]
    np.testing.assert_allclose(numbers(r"neighbour ([\d.]+) dB\n +network +([\d.]+) dB", text), ratios, atol=0.05)


def test_super_resolution_keeps_the_colours_apart():
    rng = np.random.default_rng(0)
    pictures = rng.random((2, 3, 6, 9), np.float32)
    low = np.asarray(super_resolution.downscaled(pictures))
    np.testing.assert_allclose(low, pictures.reshape(2, 3, 2, 3, 3, 3).mean((3, 5)), rtol=1e-6)
    np.testing.assert_array_equal(super_resolution.nearest(low), low.repeat(3, 2).repeat(3, 3))


def test_super_resolution_lays_channels_out_as_pixel_shuffle_does():
    channels = np.arange(27, dtype=np.float32)  # colour by colour; row by row inside a block of 3 x 3 pixels
    layers = [(np.zeros((27, 3, 3, 3), np.float32), channels)]
    added = super_resolution.enlarged(layers, np.zeros((1, 3, 2, 4), np.float32))
    np.testing.assert_array_equal(added[0], np.tile(channels.reshape(3, 3, 3), (1, 2, 4)))


def test_super_resolution_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(SystemExit, match=r"needs Pillow; install it in a clone: pip install '\.\[cli\]'"):
        super_resolution.main([])


def test_detection_head_prints_the_planted_objects():
    rows = [line.split() for line in printed(detection_head).splitlines()[1:]]
    planted = [
        [str(picture), name, f"{score:.2f}", *(f"{edge:.1f}" for edge in box)]
        for picture, objects in enumerate(detection_head.OBJECTS)
        for name, score, box in sorted(objects, key=lambda found: -found.score)
    ]
    assert rows == planted


def test_detection_head_finds_the_best_anchors_that_a_sort_finds():
    rng = np.random.default_rng(1)
    head, anchors = detection_head.new_head(rng), detection_head.all_anchors()
    features = rng.normal(size=(2, 8, 8, 16)).astype(np.float32)
    found = detection_head.detect(head, features, anchors, 20)
    outputs = (features.astype(np.float64) @ head).reshape(2, len(anchors), -1)
    for picture in range(2):
        logits, offsets = outputs[picture, :, :3], outputs[picture, :, 3:]
        order = logits.max(axis=1).argsort()[::-1][:20]
        np.testing.assert_allclose(found.scores[picture], 1 / (1 + np.exp(-logits.max(axis=1)[order])), rtol=1e-5)
        np.testing.assert_array_equal(found.classes[picture], logits.argmax(axis=1)[order])
        for box, at in zip(np.asarray(found.boxes[picture]), order, strict=True):
            (x, y, width, height), (dx, dy, dw, dh) = anchors[at], offsets[at]
            size = np.array([width * np.exp(dw), height * np.exp(dh)])
            middle = [x + dx * width, y + dy * height]
            np.testing.assert_allclose(
                box, np.concatenate([middle - size / 2, middle + size / 2]), rtol=1e-4, atol=1e-3
            )


def loss_of_loop(head, features, pictures):
    """The loss of a head, and its derivative by logits and offsets [picture, anchor, 7], by a loop over anchors."""
    anchors, number = detection_head.all_anchors(), sum(map(len, pictures))
    outputs = (features.astype(np.float64) @ head).reshape(len(pictures), len(anchors), 7)
    loss, gradient = 0, np.zeros_like(outputs)
    for picture, objects in enumerate(pictures):
        matched = {detection_head.nearest_anchor(item, anchors)[0]: item for item in objects}
        entropies = []
        for at, (*logits, _, _, _, _) in enumerate(outputs[picture]):
            wanted = np.array([at in matched and matched[at].name == name for name in detection_head.CLASSES])
            signs = np.where(wanted, -1, 1)
            entropies.append((np.log1p(np.exp(signs * logits)).sum(), at, signs / (1 + np.exp(-signs * logits))))
        others = [entropy for entropy in entropies if entropy[1] not in matched]
        hardest = sorted(others, key=lambda entropy: -entropy[0])[: detection_head.HARDEST]
        for entropy, at, slope in [*hardest, *(entropies[at] for at in matched)]:
            loss += entropy / number
            gradient[picture, at, :3] = slope / number
        for at, item in matched.items():
            error = outputs[picture, at, 3:] - detection_head.nearest_anchor(item, anchors)[1]
            loss += (error**2).sum() / number
            gradient[picture, at, 3:] = 2 * error / number
    return loss, gradient


def test_detection_head_counts_objects_and_the_hardest_others():
    rng = np.random.default_rng(2)
    head, pictures = detection_head.new_head(rng), detection_head.OBJECTS
    features = rng.normal(size=(2, 8, 8, 16)).astype(np.float32)
    value, new_head = detection_head.trained_once(head, features, detection_head.targets_of(pictures))
    loss, gradient = loss_of_loop(head, features, pictures)
    np.testing.assert_allclose(value, loss, rtol=1e-5)
    of_head = features.reshape(-1, 16).T @ gradient.reshape(-1, 14)
    np.testing.assert_allclose(head - np.asarray(new_head), detection_head.RATE * of_head, rtol=1e-3, atol=1e-6)


def test_detection_head_learns_the_planted_objects():
    text = printed(detection_head, "--steps", 300)
    start, end = numbers(r"loss: ([\d.]+) at the start, ([\d.]+) in step 300", text)
    assert end < 0.02 * start
    rows = [line.split() for line in text.splitlines()[3:]]
    objects = [(at, item) for at, picture in enumerate(detection_head.OBJECTS) for item in picture]
    assert len(rows) == len(objects)
    for picture, item in objects:
        (box,) = [
            row[3:] for row in rows if row[:2] == [str(picture), item.name] and abs(float(row[3]) - item.box[0]) < 4
        ]
        np.testing.assert_allclose([float(edge) for edge in box], item.box, atol=4)
