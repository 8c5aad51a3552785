"""NonZero and Compress of data, up to a stated maximum: masks as indices, as torch exports them, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits, sampled
from onnx_building import helper, model

from dml_jax.onnx import Backend, NotConstantError, OnnxError, to_jax

make = helper.make_node
X = np.float32([[3, -1, 0], [-2, 5, np.nan]])
MOST = 8


def run(nodes, inputs, outputs, maximum, initializers=None):
    """The outputs eagerly and under `jax.jit`, which must agree, with x64 on and off."""
    function = to_jax(model(nodes, inputs, outputs, initializers), maximum=maximum)
    with jax.enable_x64(True):
        results = jax.jit(function)(*inputs.values())
        for a, b in zip(jax.tree.leaves(results), jax.tree.leaves(function(*inputs.values())), strict=True):
            assert_same_bits(a, b)
    narrow = jax.jit(function)(*inputs.values())
    for a, b in zip(jax.tree.leaves(results), jax.tree.leaves(narrow), strict=True):
        np.testing.assert_array_equal(a, b)
    return jax.tree.map(np.asarray, results)


# x[mask], as torch exports it.
CHOSEN = [make("NonZero", ["mask"], ["n"]), make("Transpose", ["n"], ["at"])]


@pytest.mark.parametrize("most", sampled([0, 2, 3, MOST], [2, MOST]))
@pytest.mark.parametrize("shape", sampled([(7,), (2, 3), (2, 2, 2)], [(2, 3)]))
def test_columns_after_the_last_are_the_sizes(shape, most):
    x = np.zeros(shape, np.float32)
    x.flat[[1, 4, 5]] = 1, np.nan, -2
    found = np.array(np.nonzero(x))
    after = np.broadcast_to(np.array(shape)[:, None], (len(shape), MOST))
    y = run([make("NonZero", ["x"], ["y"])], {"x": x}, ["y"], {"y": most})
    assert y.dtype == np.int64
    np.testing.assert_array_equal(y, np.concatenate([found, after], 1)[:, :most])


def test_elements_of_a_mask():
    """Beyond the last one the gather reads the last element of x."""
    mask = X > 0
    y = run([*CHOSEN, make("GatherND", ["x", "at"], ["y"])], {"x": X, "mask": mask}, ["y"], {"n": 4})
    np.testing.assert_array_equal(y, [*X[mask], X[-1, -1], X[-1, -1]])
    rows = run(
        [*CHOSEN, make("GatherND", ["x", "at"], ["y"])], {"x": X, "mask": np.array([True, False])}, ["y"], {"n": 2}
    )
    np.testing.assert_array_equal(rows, X[[0, 1]])


@pytest.mark.parametrize("mask", [X < 0, np.zeros_like(X, bool), np.ones_like(X, bool)], ids=["some", "none", "all"])
def test_assignment_through_a_mask(mask):
    """x[mask] = 0.5 writes as many elements as the mask has, whatever the maximum."""
    nodes = [
        *CHOSEN,
        make("Shape", ["at"], ["sizes"], start=0, end=1),
        make("Expand", ["half", "sizes"], ["halves"]),
        make("ScatterND", ["x", "at", "halves"], ["y"]),
    ]
    y = run(nodes, {"x": X, "mask": mask}, ["y"], {"n": MOST}, {"half": np.float32(0.5)})
    np.testing.assert_array_equal(y, np.where(mask, np.float32(0.5), X))
    proto = model(nodes, {"x": X, "mask": mask}, ["y"], {"half": np.float32(0.5)})
    assign = to_jax(proto, maximum={"n": MOST})
    np.testing.assert_array_equal(jax.grad(lambda x: assign(x, mask).sum())(X), ~mask)


def test_numbers_in_a_flat_array():
    """A detector finds flat numbers, of which it makes box and class by division and remainder."""
    nodes = [
        make("Reshape", ["scores", "flat"], ["s"]),
        make("Greater", ["s", "least"], ["mask"]),
        make("NonZero", ["mask"], ["n"]),
        make("Squeeze", ["n", "zero"], ["i"]),
        make("Div", ["i", "classes"], ["box"]),
        make("Mod", ["i", "classes"], ["label"]),
        make("Gather", ["boxes", "box"], ["b"]),
        make("Gather", ["s", "i"], ["score"]),
    ]
    scores, boxes = np.float32([[0.1, 0.9], [0.8, 0.2], [0.7, 0.6]]), np.arange(12, dtype=np.float32).reshape(3, 4)
    known = {"flat": [-1], "zero": [0], "classes": 2}
    constants = {name: np.array(value, np.int64) for name, value in known.items()} | {"least": np.float32(0.5)}
    inputs = {"scores": scores, "boxes": boxes}
    function = to_jax(model(nodes, inputs, ["b", "label", "score"], constants), maximum={"n": 6})
    with jax.enable_x64(True):
        b, label, score = jax.jit(function)(scores, boxes)
    found = np.flatnonzero(scores > 0.5)
    np.testing.assert_array_equal(b, boxes[[*found // 2, 2, 2]])
    np.testing.assert_array_equal(label[:4], found % 2)
    np.testing.assert_array_equal(score, scores.ravel()[[*found, -1, -1]])


@pytest.mark.parametrize("dtype", sampled(["bool", "uint8", "bfloat16", "float16", "int64"], ["bfloat16", "int64"]))
def test_types(dtype):
    """-0.0 is zero, NaN is not; of known data NumPy finds the coordinates."""
    x = np.array([0, 1, -1, -0.0, np.nan, 0] if "float" in dtype else [0, 1, -1, 0, 1, 0]).astype(jnp.dtype(dtype))
    proto = model([make("NonZero", ["x"], ["y"])], {"x": x}, ["y"])
    (y,) = Backend.run_model(proto, [x])
    np.testing.assert_array_equal(y, [[1, 2, 4]])
    with jax.enable_x64(True):
        np.testing.assert_array_equal(jax.jit(to_jax(proto, maximum={"y": 4}))(x), [[1, 2, 4, 6]])


@pytest.mark.parametrize("shape", [(), (0,), (3, 0)])
def test_scalars_and_nothing(shape):
    x = np.ones(shape, np.float32)
    proto = model([make("NonZero", ["x"], ["y"])], {"x": x}, ["y"])
    np.testing.assert_array_equal(to_jax(proto)(x), np.zeros((len(shape), x.size)))
    assert jax.jit(to_jax(proto, maximum={"y": 2}))(x).shape == (len(shape), 2)


@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("most", [1, MOST])
def test_compress(axis, most):
    """0 after the last one; gradients reach what is kept."""
    holds = np.array([True, False, True]) if axis else np.array([False, True])
    how = {} if axis is None else {"axis": axis}
    inputs = {"x": X, "c": holds}
    y = run([make("Compress", ["x", "c"], ["y"], **how)], inputs, ["y"], {"y": most})
    kept = np.compress(holds, X, axis)
    pads = [(0, MOST - n if d == (axis or 0) % kept.ndim else 0) for d, n in enumerate(kept.shape)]
    np.testing.assert_array_equal(y, np.take(np.pad(kept, pads), range(most), axis or 0))
    ids = np.int32([[7, 8], [9, 9]])
    proto = model([make("Compress", ["x", "c"], ["y"], axis=0)], {"x": ids.astype(np.int64), "c": holds[:2]}, ["y"])
    assert jax.jit(to_jax(proto, int32=["x"], maximum={"y": 2}))(ids, holds[:2]).shape == (2, 2)


def test_compress_nothing():
    x, holds = np.zeros((0, 3), np.float32), np.zeros(0, bool)
    proto = model([make("Compress", ["x", "c"], ["y"], axis=0)], {"x": x, "c": holds}, ["y"])
    assert_same_bits(jax.jit(to_jax(proto, maximum={"y": 2}))(x, holds), np.zeros((2, 3), np.float32))


@pytest.mark.parametrize(
    ("node", "inputs", "message"),
    [
        (
            make("NonZero", ["x"], ["y"]),
            {"x": X},
            "NonZero node #0: x must be known under jax.jit, because it decides how many columns there are, but it "
            "depends on the data of an input, or on a parameter that is given; to_jax(model, maximum={'y': 100}) "
            "states 100",
        ),
        (
            make("Compress", ["x", "c"], ["y"]),
            {"x": X, "c": np.array([True])},
            "Compress node #0: condition must be known under jax.jit, because it decides how many elements there are, "
            "but it depends on the data of an input, or on a parameter that is given; to_jax(model, "
            "maximum={'y': 100}) states 100",
        ),
    ],
)
def test_the_error_names_the_output(node, inputs, message):
    with pytest.raises(NotConstantError) as caught:
        jax.jit(to_jax(model([node], inputs, ["y"])))(*inputs.values())
    assert str(caught.value) == message


def test_outputs_of_a_known_size():
    """A maximum counts outside of `jit`, too, and of constants."""
    proto = model([make("NonZero", ["x"], ["y"])], {}, ["y"], {"x": X})
    np.testing.assert_array_equal(to_jax(proto, maximum={"y": 2})(), [[0, 0], [0, 1]])


def test_weights_before_a_mask_are_parameters():
    """If the size is stated: else the data, and so the weights, must be known."""
    nodes = [make("Gemm", ["x", "w"], ["s"]), make("NonZero", ["s"], ["n"]), make("Transpose", ["n"], ["at"])]
    proto = model([*nodes, make("GatherND", ["s", "at"], ["y"])], {"x": X}, ["y"], {"w": np.eye(3, dtype=np.float32)})
    assert not to_jax(proto).parameters
    function = to_jax(proto, maximum={"n": 6})
    assert list(function.parameters) == ["w"]
    assert jax.jit(lambda x, p: function(x, parameters=p))(X, function.parameters).shape == (6,)


SCORES = {"boxes": np.zeros((1, 20_000, 4), np.float32), "scores": np.zeros((1, 2, 20_000), np.float32)}


SIZED = [
    (make("NonZero", ["x"], ["y"]), {"x": X}),
    (make("Compress", ["x", "c"], ["y"]), {"x": X, "c": np.array([True])}),
    (make("Unique", ["x"], ["y", "first", "", "counts"]), {"x": X}),
    (make("NonMaxSuppression", [*SCORES, "most"], ["y"]), {**SCORES, "most": np.array([1000])}),
]
of_any_size = pytest.mark.parametrize(("node", "inputs"), SIZED, ids=lambda case: getattr(case, "op_type", ""))


def with_maximum(node, inputs, most):
    return to_jax(model([node], inputs, [name for name in node.output if name]), maximum={"y": most})


@of_any_size
def test_programs_hold_no_numbers_up_to_the_maximum(node, inputs):
    """A detector has two such nodes for each class, and each may find hundreds of thousands of scores."""
    with jax.enable_x64(True):
        lowered = jax.jit(with_maximum(node, inputs, 100_000)).lower(*inputs.values())
    assert len(lowered.as_text()) < 50_000


@of_any_size
@pytest.mark.parametrize("most", [2**40, 2**62])
def test_a_maximum_that_does_not_fit_in_memory(node, inputs, most):
    function = with_maximum(node, inputs, most)
    for call in (function, jax.jit(function)):
        with jax.enable_x64(True), pytest.raises(OnnxError, match=f"{node.op_type} node #0: the model needs "):
            call(**inputs)
