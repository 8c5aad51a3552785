"""ONNX's NonMaxSuppression against ONNX Runtime."""

import jax
import numpy as np
import pytest
from checks import sampled
from onnx_building import assert_same_values, helper, model, runtime

from dml_jax.onnx import Backend, NotConstantError, OnnxError, to_jax

NAMES = ["boxes", "scores", "most", "overlap", "least"]


def inputs_of(seed, *, batches=2, classes=3, count=20):
    """Boxes that overlap, given by any two corners, and scores some of which are equal."""
    rng = np.random.default_rng(seed)
    return {
        "boxes": rng.random((batches, count, 4), np.float32),
        "scores": rng.integers(0, 12, (batches, classes, count)).astype(np.float32) / 12,
        "most": np.array([5], np.int64),
        "overlap": np.array([0.2], np.float32),
        "least": np.array([0.3], np.float32),
    }


def node_of(count=5, **attributes):
    return helper.make_node("NonMaxSuppression", NAMES[:count], ["y"], **attributes)


@pytest.mark.parametrize("count", [2, 3, 4, 5])
@pytest.mark.parametrize("is_centered", [0, 1])
@pytest.mark.parametrize("seed", sampled(range(5), [0]))
def test_boxes_are_those_of_onnx_runtime(count, is_centered, seed):
    """With all inputs, and without the last ones, of which the number of boxes is 0 by default."""
    inputs = dict(list(inputs_of(seed).items())[:count])
    proto = model([node_of(count, center_point_box=is_centered)], inputs, ["y"], opset=11)
    (wanted,) = runtime(proto, inputs)
    (y,) = Backend.run_model(proto, list(inputs.values()))
    assert_same_values(y, wanted)
    assert (len(y) > 0) == (count > 2)


def test_inputs_must_be_known():
    inputs = inputs_of(0)
    function = to_jax(model([node_of()], inputs, ["y"], opset=11))
    with jax.enable_x64(True), pytest.raises(NotConstantError) as caught:
        jax.jit(function)(*inputs.values())
    assert str(caught.value).endswith(
        "boxes must be known under jax.jit, because it decides how many boxes are kept, but it depends on the data of "
        "an input, or on a parameter that is given; to_jax(model, maximum={'y': 100}) states 100"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": np.zeros((2, 3, 4), np.float32)}, "boxes must be (batches, boxes, 4) and scores"),
        ({"boxes": np.zeros((2, 20, 5), np.float32)}, "boxes must be (batches, boxes, 4) and scores"),
        ({"overlap": np.array([1.5], np.float32)}, "iou_threshold must be in [0, 1], but it is 1.5"),
        ({"least": np.zeros(2, np.float32)}, "score_threshold must be one number, but its shape is (2,)"),
    ],
)
def test_what_does_not_fit(change, message):
    inputs = inputs_of(0) | change
    with pytest.raises(OnnxError) as caught:
        Backend.run_model(model([node_of()], inputs, ["y"], opset=11), list(inputs.values()))
    assert message in str(caught.value)


def kept_by_definition(boxes, scores, most, overlap, least):
    """Each box in turn, unless it overlaps one before it; what is not a number overlaps nothing."""
    kept = []
    for i in np.argsort(-scores, kind="stable"):
        if scores[i] > least and len(kept) < most and not any(ratio(boxes[i], boxes[j]) > overlap for j in kept):
            kept.append(i)
    return kept


def ratio(a, b):
    low, high = np.maximum(a[:2], b[:2]), np.minimum(a[2:], b[2:])
    if not (high > low).all():
        return np.float32(0)
    common = np.prod(high - low)
    return common / (np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - common)


@pytest.mark.parametrize("seed", sampled(range(40), range(4)))
def test_boxes_of_any_numbers(seed):
    """Also infinite ones and those that are none, of all sizes, and moved apart by class as torchvision moves them."""
    rng = np.random.default_rng(seed)
    corners = (rng.standard_normal((60, 2, 2)) * 10.0 ** rng.integers(-9, 19)).astype(np.float32)
    if seed % 2:
        corners = (rng.random((60, 2, 2)) + 1000 * rng.integers(0, 9, (60, 1, 1))).astype(np.float32)
    if seed % 4 > 1:
        corners.flat[rng.integers(0, corners.size, 5)] = np.float32([np.nan, np.inf, -np.inf, 1e30, -1e-30])
    boxes = np.concatenate([corners.min(1), corners.max(1)], 1)
    scores = (rng.integers(0, 20, 60) / 20).astype(np.float32)
    overlap = np.float32(rng.choice([0, 0.2, 0.5]))
    limits = {"most": np.int64([40]), "overlap": np.float32([overlap]), "least": np.float32([0.1])}
    given = {"boxes": boxes[None], "scores": scores[None, None]} | limits
    y = to_jax(model([node_of()], given, ["y"], opset=11))(**given)
    with np.errstate(all="ignore"):
        expected = kept_by_definition(boxes, scores, 40, overlap, np.float32(0.1))
    np.testing.assert_array_equal(np.asarray(y)[:, 2], expected)


# Up to a stated number of boxes.


@pytest.mark.thinned(2)
@pytest.mark.parametrize("count", [3, 5])
@pytest.mark.parametrize("rows", sampled([1, 7, 40], [7]))
@pytest.mark.parametrize("seed", sampled(range(5), [0]))
def test_a_maximum_makes_the_size_known(seed, rows, count):
    """Of data: the first boxes that are kept, then -1."""
    inputs = dict(list(inputs_of(seed).items())[:count])
    (wanted,) = runtime(model([node_of(count)], inputs, ["y"], opset=11), inputs)
    expected = np.concatenate([wanted, np.full((rows, 3), -1)])[:rows]
    proto = model([node_of(count)], inputs, ["y"], opset=11)
    with jax.enable_x64(True):
        assert_same_values(jax.jit(to_jax(proto, maximum={"y": rows}))(*inputs.values()), expected)
    limit = {"most": inputs.pop("most")}  # known: fewer steps
    narrow = jax.jit(to_jax(proto, static=limit, maximum={"y": rows}))(*inputs.values())
    assert_same_values(narrow, expected.astype(np.int32))


@pytest.mark.exhaustive
@pytest.mark.parametrize("is_centered", [0, 1])
def test_a_maximum_of_nothing_and_of_centers(is_centered):
    """Without a limit no box is kept, as by default in ONNX."""
    inputs = dict(list(inputs_of(1).items())[:3])
    (wanted,) = runtime(model([node_of(3, center_point_box=is_centered)], inputs, ["y"], opset=11), inputs)
    for given, rows, kept in ((inputs, len(wanted), wanted), (dict(list(inputs.items())[:2]), 3, np.full((3, 3), -1))):
        proto = model([node_of(len(given), center_point_box=is_centered)], given, ["y"], opset=11)
        with jax.enable_x64(True):
            assert_same_values(to_jax(proto, maximum={"y": rows})(*given.values()), kept)
