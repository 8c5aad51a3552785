"""RandomNormal, RandomUniform, Bernoulli, Multinomial and Dropout in training: their keys and their distributions."""

import math

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from checks import sampled
from onnx_building import TensorProto, helper, model

from dml_jax.onnx import Backend, OnnxError, run_node, to_jax

make, KEY = helper.make_node, jax.random.key(7)
FLOATS = {"float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16, "float32": TensorProto.FLOAT}
FLOATS |= {"float64": TensorProto.DOUBLE}
X = np.zeros((2, 3), np.float32)


def drawn(kind, inputs=(), key=KEY, opset=22, outputs=1, **attributes):
    names = [f"x{i}" for i in range(len(inputs))]
    node = make(kind, names, [f"y{i}" for i in range(outputs)], **attributes)
    with jax.enable_x64(True):
        results = run_node(node, list(map(np.asarray, inputs)), opset=opset, key=key)
    return np.asarray(results[0]) if outputs == 1 else tuple(map(np.asarray, results))


def assert_all_differ(numbers):
    """Normal numbers of different keys never agree; equal ones come of one key."""
    flat = np.ravel(numbers)
    assert len(np.unique(flat)) == flat.size


# Distributions: means of a fixed key, within five standard deviations of the mean.


def assert_mean(numbers, mean, deviation):
    numbers = np.asarray(numbers, np.float64)
    assert abs(numbers.mean() - mean) <= 5 * deviation / math.sqrt(numbers.size)


SIZE = 2**15
KINDS = [(name, is_like) for name in FLOATS for is_like in (False, True)]
# Rounding widens a distribution by so much.
EPS = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 0, "float64": 0}


@pytest.mark.parametrize("kind", sampled(KINDS, KINDS[1:3]))
def test_normal(kind):
    """Mean, variance, skewness and kurtosis are 3, 4, 0 and 3."""
    name, is_like = kind
    how = {"mean": 3.0, "scale": 2.0, "dtype": FLOATS[name]}
    y = (
        drawn("RandomNormalLike", [np.zeros(SIZE, bool)], **how)
        if is_like
        else drawn("RandomNormal", **how, shape=[SIZE])
    )
    assert y.dtype.name == name
    z = (y.astype(np.float64) - 3) / 2
    for power, moment, deviation in ((1, 0, 1), (2, 1, math.sqrt(2)), (3, 0, math.sqrt(15)), (4, 3, math.sqrt(96))):
        assert_mean(z**power, moment, deviation * (1 + EPS[name]))


@pytest.mark.parametrize("kind", sampled(KINDS, KINDS[3:5]))
def test_uniform(kind):
    """Mean, variance and skewness are those of [-1, 3)."""
    name, is_like = kind
    how = {"low": -1.0, "high": 3.0, "dtype": FLOATS[name]}
    y = (
        drawn("RandomUniformLike", [np.zeros(SIZE, np.int8)], **how)
        if is_like
        else drawn("RandomUniform", **how, shape=[SIZE])
    )
    assert y.dtype.name == name
    u = (y.astype(np.float64) + 1) / 4
    assert u.min() >= 0
    assert u.max() < 1
    for power in (1, 2, 3):
        deviation = math.sqrt(1 / (2 * power + 1) - 1 / (power + 1) ** 2)
        assert_mean(u**power, 1 / (power + 1), deviation * (1 + 2 * EPS[name]))


ENDS = [(1.0, 1.015625), (-1.015625, -1.0), (0.1, 0.3), (-3e38, 3e38), (0.0, 1e-4), (2.5, 2.5)]


@pytest.mark.parametrize("name", sampled(FLOATS, ["bfloat16"]))
@pytest.mark.parametrize("ends", sampled(ENDS, ENDS[:4]))
def test_uniform_numbers_are_at_least_low_and_less_than_high(name, ends):
    """Also where rounding to few bits would give `high`, or less than `low`."""
    low, high = map(float, np.float32(ends))
    y = drawn("RandomUniform", shape=[2000], low=low, high=high, dtype=FLOATS[name]).astype(np.float64)
    assert np.isfinite(y).all()
    assert (y >= low).all()
    assert (y < high).all() or low == high


def test_bernoulli():
    probabilities = np.float32([0, 0.001, 0.25, 0.9, 1])
    y = drawn("Bernoulli", [np.broadcast_to(probabilities, (SIZE, 5))])
    for column, p in zip(y.T, probabilities, strict=True):
        assert_mean(column, p, math.sqrt(p * (1 - p)))
    assert set(np.unique(y)) == {0, 1}


@pytest.mark.parametrize("dtype", sampled(["bool", "int8", "uint64", "int64", "float16", "float64"], ["bool", "int64"]))
def test_types_of_bernoulli(dtype):
    to = helper.np_dtype_to_tensor_dtype(jnp.dtype(dtype))
    y = drawn("Bernoulli", [np.float32([0, 1, 1])], dtype=to)
    assert y.dtype == jnp.dtype(dtype)
    np.testing.assert_array_equal(y.astype(int), [0, 1, 1])
    assert drawn("Bernoulli", [np.float16([1])]).dtype == np.float16


@pytest.mark.parametrize("dtype", sampled(FLOATS, ["float16"]))
def test_multinomial(dtype):
    """Frequencies are exp(x) / sum(exp(x)), whatever constant is added; -inf is never drawn."""
    p = np.array([[0.5, 0.25, 0, 0.25], [0.125, 0.125, 0.5, 0.25]])
    with np.errstate(divide="ignore"):
        x = (np.log(p) + np.array([[0], [2]])).astype(jnp.dtype(dtype))
    y = drawn("Multinomial", [x], sample_size=SIZE, dtype=TensorProto.INT64)
    assert (y.shape, y.dtype) == ((2, SIZE), np.int64)
    weights = np.exp(x.astype(np.float64))
    for row, of_classes in zip(y, weights / weights.sum(1, keepdims=True), strict=True):
        for c, q in enumerate(of_classes):
            assert_mean(row == c, q, math.sqrt(q * (1 - q)))
    assert drawn("Multinomial", [x]).shape == (2, 1)
    assert drawn("Multinomial", [x]).dtype == np.int32


def test_classes_are_int64_while_x64_is_off():
    """They are indices, whose range is known."""
    rows = np.float32([[1, 2], [3, 4], [5, 6]])
    nodes = [
        make("Multinomial", ["x"], ["c"], dtype=TensorProto.INT64, sample_size=4),
        make("Gather", ["r", "c"], ["y"]),
    ]
    x = np.float32([[-np.inf, 0, -np.inf]])
    sample = to_jax(model(nodes, {"x": x}, ["y", "c"], {"r": rows}))
    y, c = jax.jit(sample)(x, key=KEY)
    np.testing.assert_array_equal(y, np.broadcast_to([3, 4], (1, 4, 2)))
    assert c.dtype == np.int32
    noise = model([make("RandomNormalLike", ["i"], ["y"], dtype=1)], {"i": np.zeros(3, np.int64)}, ["y"])
    assert jax.jit(to_jax(noise, int32=["i"]))(np.zeros(3, np.int32), key=KEY).shape == (3,)


# Keys.

TWO = model([make("RandomNormalLike", ["x"], [name]) for name in "ab"], {"x": X}, ["a", "b"])


def test_the_same_key_gives_the_same_numbers():
    """Typed or raw, eager, compiled, exported or for a batch of keys; and no two nodes or keys share one."""
    draw = to_jax(TWO)
    expected = np.stack(draw(X, key=KEY))
    raw = np.asarray(jax.random.key_data(KEY))
    compiled = jax.jit(lambda x, key: draw(x, key=key))
    exported = jax.export.export(compiled)(X, raw)
    for results in (draw(X, key=raw), compiled(X, KEY), exported.call(X, raw)):
        np.testing.assert_array_equal(results, expected)
    keys = jax.random.split(jax.random.key(1), 3)
    many = np.stack(jax.vmap(lambda key: draw(X, key=key))(keys))
    np.testing.assert_array_equal(many[:, 1], draw(X, key=keys[1]))
    assert_all_differ([expected, *np.moveaxis(many, 1, 0)])


@pytest.mark.exhaustive
def test_keys_of_the_backend():
    expected = to_jax(TWO)(X, key=KEY)
    np.testing.assert_array_equal(Backend.run_model(TWO, [X], key=KEY), expected)
    node = make("RandomNormalLike", ["x"], ["a"])
    np.testing.assert_array_equal(Backend.run_node(node, [X], key=KEY), expected[:1])


def test_gradients():
    """Those of the reparametrisation: x + s * noise."""
    nodes = [make("RandomNormalLike", ["x"], ["z"]), make("Mul", ["s", "z"], ["n"]), make("Add", ["x", "n"], ["y"])]
    noisy = to_jax(model([*nodes, make("Identity", ["z"], ["seen"])], {"x": X, "s": X}, ["y", "seen"]))
    slopes = jax.grad(lambda x, s: noisy(x, s, key=KEY)[0].sum(), (0, 1))(X, X)
    np.testing.assert_array_equal(slopes[0], np.ones_like(X))
    np.testing.assert_array_equal(slopes[1], noisy(X, X, key=KEY)[1])
    coin = to_jax(model([make("Bernoulli", ["x"], ["y"])], {"x": X}, ["y"]))
    np.testing.assert_array_equal(jax.grad(lambda x: coin(x, key=KEY).sum())(X + 0.5), X)


@pytest.mark.parametrize("seed", sampled([0.0, 1.0, 1.5], [1.5]))
def test_a_seed_needs_no_key(seed):
    """Whatever the key, the numbers are those of the seed; two nodes with one seed have different ones."""
    nodes = [make("RandomNormalLike", ["x"], [name], seed=seed) for name in "ab"]
    draw = to_jax(model(nodes, {"x": X}, ["a", "b"]))
    results = np.stack(draw(X))
    assert_all_differ([*results, drawn("RandomNormal", shape=[2, 3], seed=seed + 0.25)])
    np.testing.assert_array_equal(jax.jit(draw)(X, key=KEY), results)


def test_without_a_key_or_a_seed():
    noise = make("RandomNormalLike", ["x"], ["y"], name="noise")
    with pytest.raises(OnnxError) as caught:
        to_jax(model([noise], {"x": X}, ["y"]))(X)
    assert str(caught.value) == (
        "RandomNormalLike node 'noise': it draws random numbers, and must have a seed or be given a key, but there is "
        "neither: call the function with key=jax.random.key(0)"
    )


@pytest.mark.parametrize(
    ("key", "fact"),
    [
        (5, "it is 5"),
        (X, "it is float32[2, 3]"),
        (np.uint32([1, 2, 3]), "it is uint32[3]"),
        (jax.random.split(KEY), "it is key<fry>[2]"),
    ],
)
def test_what_is_no_key(key, fact):
    with pytest.raises(TypeError) as caught:
        to_jax(TWO)(X, key=key)
    assert str(caught.value) == f"key must be one key of jax.random, such as jax.random.key(0), but {fact}"


def test_an_input_named_key():
    """By its name it is the input; given in order, the name is free for the key of random numbers."""
    keyed = to_jax(model([make("Add", ["q", "key"], ["y"])], {"q": X, "key": X}, ["y"]))
    np.testing.assert_array_equal(keyed(q=X, key=X + 1), X + 1)
    np.testing.assert_array_equal(keyed(X, key=X + 1), X + 1)
    nodes = [make("RandomNormalLike", ["q"], ["z"]), make("Mul", ["z", "key"], ["y"])]
    noisy = to_jax(model(nodes, {"q": X, "key": X}, ["y"]))
    ones = np.ones_like(X)
    assert_all_differ([noisy(X, ones, key=KEY), noisy(X, ones, key=jax.random.key(0))])
    with pytest.raises(OnnxError, match=r"with key=jax.random.key\(0\), and give the input 'key' in order$"):
        noisy(q=X, key=ones)


# Places: no two of them share a key.


def noise(name, shape=(2,)):
    return make("RandomNormal", [], [name], shape=list(shape))


def flag(name):
    return helper.make_tensor_value_info(name, TensorProto.BOOL, [])


def floats(name, shape=None):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def loop(trips, body, state="s"):
    """Iterations that draw two pairs each, as a Loop over the state of one number."""
    nodes = [noise("n"), noise("m"), make("Identity", ["on"], ["go"]), make("Identity", ["a"], ["b"])]
    number = helper.make_tensor_value_info("i", TensorProto.INT64, [])
    inputs = [number, flag("on"), floats("a", [])]
    graph = helper.make_graph([*nodes, *body], "body", inputs, [flag("go"), floats("b"), floats("n"), floats("m")])
    return make("Loop", [trips, "", state], ["e", "ns", "ms"], body=graph)


@pytest.mark.parametrize("count", sampled([3, 12], [12]))
def test_iterations_of_a_loop(count):
    """Unrolled, scanned or as long as data say: the same numbers, all different."""
    scalar, trips = np.float32(0), np.int64(count)
    known = to_jax(model([loop("t", []), noise("o")], {"s": scalar}, ["ns", "ms", "o"], {"t": trips}))
    results = known(scalar, key=KEY)
    assert results[0].shape == (count, 2)
    assert_all_differ(np.concatenate([np.ravel(y) for y in results]))
    proto = model([loop("t", []), noise("o")], {"s": scalar, "t": trips}, ["ns", "ms", "o"])
    stated = to_jax(proto, maximum={"ns": count, "ms": count})
    with jax.enable_x64(True):
        as_data = jax.jit(stated)(scalar, np.asarray(trips), key=KEY)
    for y, expected in zip((*as_data, *jax.jit(known)(scalar, key=KEY)), (*results, *results), strict=True):
        np.testing.assert_array_equal(y, expected)


@pytest.mark.exhaustive
def test_iterations_of_a_loop_in_a_loop():
    inner = helper.make_graph(
        [noise("k"), make("Identity", ["on2"], ["go2"])],
        "inner",
        [helper.make_tensor_value_info("j", TensorProto.INT64, []), flag("on2")],
        [flag("go2"), floats("k")],
    )
    body = [make("Loop", ["t", ""], ["ks"], body=inner)]
    outer = loop("t", body)
    outer.attribute[0].g.output.append(floats("ks"))
    outer.output.append("kss")
    proto = model([outer], {"s": np.float32(0)}, ["ns", "ms", "kss"], {"t": np.int64(9)})
    results = jax.jit(to_jax(proto))(np.float32(0), key=KEY)
    assert results[2].shape == (9, 9, 2)
    assert_all_differ(np.concatenate([np.ravel(y) for y in results]))


@pytest.mark.parametrize("kind", sampled([(8, 2), (8, 11), (22, 2), (22, 11)], [(8, 2), (22, 11)]))
def test_iterations_of_a_scan(kind):
    """Also the examples of a batch, which opset 8 scans."""
    opset, length = kind
    scanned = np.zeros((3, length, 1) if opset == 8 else (length, 1), np.float32)
    nodes = [make("RandomNormalLike", ["r"], ["n"])]
    body = helper.make_graph(nodes, "body", [floats("r", [1])], [floats("n", [1])])
    inputs = ["", "x"] if opset == 8 else ["x"]
    node = make("Scan", inputs, ["y"], body=body, num_scan_inputs=1)
    draw = to_jax(model([node], {"x": scanned}, ["y"], opset=opset))
    results = jax.jit(draw)(scanned, key=KEY)
    assert results.shape == scanned.shape
    assert_all_differ(results)


def test_elements_of_a_sequence():
    body = helper.make_graph([make("RandomNormalLike", ["e"], ["n"])], "body", [floats("e")], [floats("n")])
    nodes = [make("SplitToSequence", ["x"], ["s"]), make("SequenceMap", ["s"], ["m"], body=body)]
    draw = to_jax(model([*nodes, make("ConcatFromSequence", ["m"], ["y"], axis=0)], {"x": X}, ["y"]))
    assert_all_differ(draw(X, key=KEY))


@pytest.mark.parametrize("is_known", [True, False])
def test_branches(is_known):
    """The branches of a batch of conditions, too."""
    then, other = (helper.make_graph([noise(name)], name, [], [floats(name)]) for name in ("t", "o"))
    node = make("If", ["c"], ["y"], then_branch=then, else_branch=other)
    draw = to_jax(model([node, noise("z")], {"c": np.array(True)}, ["y", "z"]))
    choices = np.array([True, False])
    if is_known:
        results = [draw(choice, key=KEY)[0] for choice in choices]
    else:
        results = jax.vmap(lambda choice: draw(choice, key=KEY))(choices)[0]
    assert_all_differ([*results, draw(choices[0], key=KEY)[1]])


@pytest.mark.parametrize("seed", [None, 3.0])
def test_calls_of_a_function(seed):
    """Of a function that is called twice, also within another."""
    how = {} if seed is None else {"seed": seed}
    draw = make("RandomNormalLike", ["a"], ["b"], **how)
    opset = [helper.make_opsetid("", 22), helper.make_opsetid("own", 1)]
    inner = helper.make_function("own", "Inner", ["a"], ["b"], [draw], opset)
    twice = [make("Inner", ["a"], [name], domain="own") for name in "bc"]
    outer = helper.make_function("own", "Outer", ["a"], ["b", "c"], twice, opset)
    nodes = [make("Outer", ["x"], ["p", "q"], domain="own"), make("Outer", ["x"], ["r", "s"], domain="own")]
    proto = model(nodes, {"x": X}, list("pqrs"), opset=22)
    proto.opset_import.append(helper.make_opsetid("own", 1))
    proto.functions.extend([inner, outer])
    results = to_jax(proto)(X, key=KEY if seed is None else None)
    assert_all_differ(results)
    if seed is None:
        with pytest.raises(OnnxError, match=r"Outer node #0: Inner node #0: RandomNormalLike node #0: it draws random"):
            to_jax(proto)(X)


def test_numbers_that_decide_a_shape():
    """Outside of `jit` they are known, as other data are."""
    nodes = [make("Multinomial", ["x"], ["n"], dtype=7), make("Reshape", ["n", "one"], ["m"])]
    nodes += [make("Expand", ["y", "m"], ["z"])]
    x = np.float32([[-np.inf, -np.inf, -np.inf, 0]])
    draw = to_jax(model(nodes, {"x": x}, ["z"], {"one": np.int64([1]), "y": np.float32([5])}))
    np.testing.assert_array_equal(draw(x, key=KEY), [5, 5, 5])


# Dropout.

BIG = np.random.default_rng(0).uniform(1, 2, (64, 512)).astype(np.float32)
YES, RATIO = np.array(True), np.float32(0.25)


def dropped(x, ratio=RATIO, opset=22, outputs=2, key=KEY, **attributes):
    if opset < 12:
        return drawn("Dropout", [x], key, opset, outputs, ratio=float(ratio), **attributes)
    return drawn("Dropout", [x, np.asarray(ratio), YES], key, opset, outputs, **attributes)


@pytest.mark.parametrize(
    "kind",
    sampled(
        [(6, "float32"), (1, "float16"), (12, "float32"), (13, "bfloat16"), (22, "float16"), (22, "float64")],
        [(6, "float32"), (22, "float16")],
    ),
)
def test_dropout_in_training(kind):
    opset, dtype = kind
    x = BIG.astype(jnp.dtype(dtype))
    y, mask = dropped(x, opset=opset)
    assert y.dtype == x.dtype
    assert mask.dtype == (x.dtype if opset < 7 else bool)
    kept = mask.astype(bool)
    assert_mean(kept, 0.75, math.sqrt(0.75 * 0.25))
    eps = float(jnp.finfo(x.dtype).eps)
    expected = np.where(kept, x.astype(np.float64) / 0.75, 0)
    np.testing.assert_allclose(y.astype(np.float64), expected, rtol=eps)
    assert drawn("Dropout", [x], None, max(opset, 7)).tobytes() == x.tobytes()


def test_dropout_drops_nothing_with_a_ratio_of_0():
    """And needs no key then."""
    y, mask = dropped(BIG, np.float32(0), key=None)
    np.testing.assert_array_equal(y, BIG)
    assert mask.all()


def test_gradient_of_dropout():
    nodes = [make("Dropout", ["x", "r", "t"], ["y", "m"])]
    train = to_jax(model(nodes, {"x": BIG, "r": RATIO, "t": YES}, ["y", "m"], opset=13))

    def loss(x, r):
        y, mask = train(x, r, YES, key=KEY)
        return y.sum(), mask

    (by_x, by_ratio), mask = jax.jit(jax.grad(loss, (0, 1), has_aux=True))(BIG, RATIO)
    np.testing.assert_allclose(by_x, np.where(mask, 1 / 0.75, 0), rtol=1e-6)
    assert by_ratio == 0


def test_mode_and_ratio_that_are_data():
    """One program trains and predicts."""
    nodes = [make("Dropout", ["x", "r", "t"], ["y"])]
    step = jax.jit(to_jax(model(nodes, {"x": BIG, "r": RATIO, "t": YES}, ["y"], opset=13)))
    np.testing.assert_array_equal(step(BIG, RATIO, np.array(False), key=KEY), BIG)
    y = np.asarray(step(BIG, RATIO, YES, key=KEY))
    assert_mean(y > 0, 0.75, math.sqrt(0.75 * 0.25))
    np.testing.assert_allclose(y, np.where(y > 0, BIG / 0.75, 0), rtol=1e-6)


REFUSED = {
    "in training the ratio must be in [0, 1), but it is 1.0": ("Dropout", [X, np.float32(1), YES], {}),
    "ratio must be one number, but its shape is (2,)": ("Dropout", [X, np.float32([0, 0]), YES], {}),
    "low must be at most high, but they are 1.0 and 0.0": (
        "RandomUniform",
        [],
        {"shape": [2], "low": 1.0, "high": 0.0},
    ),
    "every size of shape must be at least 0, but it is [-1]": ("RandomNormal", [], {"shape": [-1]}),
    "dtype must be one of float16, bfloat16, float32, float64, but it is int32": (
        *("RandomNormal", []),
        {"shape": [1], "dtype": 6},
    ),
    "dtype, or else the type of the input, must be one of float16, bfloat16, float32, float64, but it is int32": (
        *("RandomNormalLike", [np.int32([1])]),
        {},
    ),
    "dtype must be int32 or int64, but it is float32": ("Multinomial", [X], {"dtype": 1}),
    "input must be (batch, classes), with a class, and sample_size at least 0, but they are (2, 0) and 1": (
        *("Multinomial", [X[:, :0]]),
        {},
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(message):
    kind, inputs, attributes = REFUSED[message]
    with pytest.raises(OnnxError) as caught:
        drawn(kind, inputs, **attributes)
    assert str(caught.value) == f"{kind} node #0: {message}"


def test_doubles_while_x64_is_off():
    with pytest.raises(TypeError, match="float64 must not be narrowed, but jax_enable_x64 is off"):
        run_node(make("RandomNormal", [], ["y"], shape=[2], dtype=TensorProto.DOUBLE), [], key=KEY)
