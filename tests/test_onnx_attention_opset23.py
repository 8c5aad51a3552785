"""ONNX's Attention (opsets 23 on) and its gradients: beside NumPy in float64, torch, jax.nn and ONNX Runtime."""

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_oracle import attended, merged, seen_keys
from checks import sampled
from microsoft_nodes import Draw
from onnx_building import helper, model, one_node, onnx, runtime, with_changes

from dml_jax import DataTypeError
from dml_jax.onnx import OnnxError, to_jax

Q, K, V, MASK, PAST_KEY, PAST_VALUE, LENGTHS = range(7)
NEWEST = onnx.defs.get_schema("Attention").since_version


@dataclass
class Case:
    """A node, its inputs, all its keys and values in heads, and what its queries see."""

    inputs: list
    attributes: dict
    opset: int
    heads: tuple
    seen: np.ndarray
    numbers: dict = field(default_factory=dict)  # of the oracle

    @property
    def sizes(self):
        """(batch, heads, queries), and the number of keys."""
        query, key, _ = self.heads
        return query.shape[:3], key.shape[2]

    def wanted(self, cotangent=None):
        return attended(*self.heads, self.seen, cotangent, **self.numbers)


def drawn(seed, dtype=np.float32, newest=NEWEST):
    """A random node: every layout, mask and cache, with sizes of 1 and 0 among them."""
    draw = Draw(seed)
    cache = ("none", "past", "lengths")[seed % 3]
    opset = draw.one_of(23, 24, newest) if cache != "lengths" else draw.one_of(24, newest)
    (query, *keys), past = drawn_heads(draw, dtype, has_past=cache == "past")
    inputs = [query, *(x[:, :, past:] for x in keys), None, None, None, None]
    case = Case(inputs, {}, opset, (query, *keys), None, {"scale": query.shape[3] ** -0.5})
    if draw.one_of(True, False):
        inputs[:3] = map(merged, inputs[:3])
        case.attributes |= {"q_num_heads": query.shape[1], "kv_num_heads": keys[0].shape[1]}
    if cache == "past":
        inputs[PAST_KEY:LENGTHS] = (x[:, :, :past] for x in keys)
    draw_seen_keys(draw, case, past, has_lengths=cache == "lengths")
    draw_mask(draw, case, dtype)
    if draw.one_of(True, False):
        case.attributes["softcap"] = case.numbers["softcap"] = 0.75
    if draw.one_of(True, False):
        case.attributes["scale"] = case.numbers["scale"] = 0.5
    return case


def drawn_heads(draw, dtype, has_past):
    """Queries, all keys and all values in heads, and how many of the keys are of the past."""
    batch, shared, group, size, value_size = (draw.below(1, most) for most in (3, 2, 3, 5, 4))
    rows, new, past = draw.below(1, 4), draw.below(1, 5), draw.below(0, 3) if has_past else 0
    if draw.below(0, 9) == 0:
        rows, new = draw.one_of((0, new), (rows, 0), (1, 1))
    of_queries, of_keys = (batch, shared * group, rows), (batch, shared, past + new)
    shapes = (*of_queries, size), (*of_keys, size), (*of_keys, value_size)
    return [draw(*shape).astype(dtype) for shape in shapes], past


def draw_seen_keys(draw, case, past, has_lengths):
    """Lengths, a window and causality: what queries see, but for a mask."""
    (batch, _, rows), keys = case.sizes
    lengths, starts, window = np.full(batch, keys), np.full(batch, past), [None, None]
    if has_lengths:
        lengths = draw.rng.integers(0, keys + 1, batch)
        case.inputs[LENGTHS], starts = lengths.astype(np.int64), lengths - rows
    if case.opset > 24 and draw.one_of(True, False):
        window = [draw.one_of(None, 0, 2), draw.one_of(None, 0, 1)]
        names = ("left_window_size", "right_window_size")
        case.attributes |= {name: n for name, n in zip(names, window, strict=True) if n is not None}
    if draw.one_of(True, False):
        case.attributes["is_causal"], window[1] = 1, 0
    case.seen = seen_keys(rows, lengths, keys, starts, *window)


def draw_mask(draw, case, dtype):
    """A mask or none, of any rank; from opset 24 on it may be one key short, which nobody sees then."""
    kind = draw.one_of("none", "flags", "numbers", "excluding numbers")
    if kind == "none":
        return
    of_queries, keys = case.sizes
    sizes = [draw.one_of(1, n) for n in of_queries][3 - draw.below(0, 3) :]
    covered = keys - draw.below(0, min(keys, 1)) if case.opset > 23 else keys
    flags, terms = draw.rng.random((*sizes, covered)) < 0.6, draw(*sizes, covered).astype(dtype)
    if kind == "excluding numbers":
        terms[~flags] = -np.inf
    fill = [(0, 0)] * len(sizes) + [(0, keys - covered)]
    if kind == "flags":
        case.inputs[MASK], case.seen = flags, case.seen & np.pad(flags, fill)
    else:
        case.inputs[MASK] = terms
        case.numbers["bias"] = np.pad(terms.astype(np.float64), fill, constant_values=-np.inf)


def function_of(case, outputs=1, **attributes):
    """A function of the arrays of a node, by its inputs that are there."""
    inputs = case.inputs[: 6 if case.opset == 23 else 7]
    proto, named = one_node("Attention", inputs, outputs, opset=case.opset, **case.attributes | attributes)
    return to_jax(proto), named


def assert_near(actual, expected, dtype=np.float32):
    off = {2: 4e-3, 4: 4e-6, 8: 1e-7}[np.dtype(dtype).itemsize] * (8 if dtype == jnp.bfloat16 else 1)
    np.testing.assert_allclose(np.asarray(actual, np.float64), expected, rtol=off, atol=off)


TYPES = [np.float32, np.float16, jnp.bfloat16, np.float64]


@pytest.mark.thinned(25)
@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("dtype", sampled(TYPES, [np.float32]))
def test_outputs_and_gradients(seed, dtype):
    """Of queries that see no key both are 0."""
    case = drawn(seed, dtype)
    wanted = case.wanted()
    with jax.enable_x64(True):
        function, named = function_of(case, 4, qk_matmul_output_mode=3)
        floats = [name for name in ("x0", "x1", "x2", "x4", "x5") if name in named]

        def total(given):
            output, *others = function(**named | given)
            return output.astype(np.float64).sum(), (output, *others)

        slopes, made = jax.jit(jax.grad(total, has_aux=True))({name: named[name] for name in floats})
    output, key, value, weights = made
    is_flat = case.inputs[Q].ndim == 3
    assert {x.dtype for x in (output, key, value, weights)} == {np.dtype(dtype)}
    assert_near(output, merged(wanted.output) if is_flat else wanted.output, dtype)
    assert_near(weights, wanted.weights, dtype)
    for actual, expected in ((key, case.heads[1]), (value, case.heads[2])):
        np.testing.assert_array_equal(actual, expected)
    past = case.heads[1].shape[2] - case.inputs[K].shape[-2]
    expected = {"x0": wanted.of_query, "x1": wanted.of_key[:, :, past:], "x2": wanted.of_value[:, :, past:]}
    expected = {name: merged(x) if is_flat else x for name, x in expected.items()}
    expected |= {"x4": wanted.of_key[:, :, :past], "x5": wanted.of_value[:, :, :past]}
    for name in floats:
        assert_near(slopes[name], expected[name], dtype)


MODES = {0: "products", 1: "capped", 2: "scores", 3: "weights"}


@pytest.mark.parametrize("mode", sampled(MODES, [0, 2]))
@pytest.mark.parametrize("seed", sampled([0, 1, 2, 3, 4, 5], [5]))
def test_steps_to_the_output(mode, seed):
    """The products are those of all keys, masked or not; -inf is added where a key is excluded."""
    case = drawn(3 * seed + 2)
    case.attributes["softcap"] = case.numbers["softcap"] = 0.75
    function, named = function_of(case, 4, qk_matmul_output_mode=mode)
    with jax.enable_x64(True):
        made = jax.jit(function)(**named)[3]
    numbers = {name: x for name, x in case.numbers.items() if name == "scale" or mode}
    everything = {"seen": True, "scale": numbers["scale"], "softcap": numbers.get("softcap", 0.0)}
    wanted = case.wanted() if mode > 1 else attended(*case.heads, **everything)
    assert_near(made, wanted.weights if mode == 3 else wanted.scores)


# Those of the drawn cases with several keys that ONNX Runtime 1.32 takes.
@pytest.mark.parametrize("seed", sampled([9, 27, 42, 44, 50, 51, 53, 54], [51]))
def test_onnxruntime_computes_the_same(seed):
    case = drawn(seed, newest=24)
    proto, named = one_node(
        "Attention", case.inputs[: 6 if case.opset == 23 else 7], opset=case.opset, **case.attributes
    )
    with jax.enable_x64(True):
        assert_near(jax.jit(to_jax(proto))(**named), *runtime(proto, named))


# A query that sees no key: [[1, 1, 1], [0, 0, 0], [1, 0, 1]].
FLAGS = np.array([[1, 1, 1], [0, 0, 0], [1, 0, 1]], bool)


def unseen(seed=0):
    draw = Draw(seed)
    return draw(1, 2, 3, 4), draw(1, 2, 3, 4), draw(1, 2, 3, 4), draw(1, 2, 3, 4)


def attention_of(mask, dtype=np.float32, **attributes):
    proto, _ = one_node("Attention", [np.zeros((1, 2, 3, 4), dtype)] * 3 + [mask], opset=23, **attributes)
    return jax.jit(lambda q, k, v: to_jax(proto)(q, k, v, mask))


def test_torch_has_the_same_gradients():
    torch = pytest.importorskip("torch")
    q, k, v, cotangent = unseen()
    function = attention_of(FLAGS)
    slopes = jax.jit(jax.grad(lambda *x: (function(*x) * cotangent).sum(), argnums=range(3)))(q, k, v)
    tensors = [torch.tensor(x, requires_grad=True) for x in (q, k, v)]
    output = torch.nn.functional.scaled_dot_product_attention(*tensors, attn_mask=torch.tensor(FLAGS))
    (output * torch.tensor(cotangent)).sum().backward()
    assert_near(function(q, k, v), output.detach().numpy())
    for slope, tensor in zip(slopes, tensors, strict=True):
        assert_near(slope, tensor.grad.numpy())


@pytest.mark.exhaustive
def test_jax_has_the_same_gradients_where_every_query_sees_a_key():
    q, k, v, cotangent = unseen()
    flags = FLAGS | np.eye(3, dtype=bool)
    ours = attention_of(flags, is_causal=1)

    def theirs(*arrays):
        by_row = (jnp.swapaxes(x, 1, 2) for x in arrays)
        return jnp.swapaxes(jax.nn.dot_product_attention(*by_row, mask=flags[None, None], is_causal=True), 1, 2)

    results = [jax.vjp(jax.jit(function), q, k, v) for function in (ours, theirs)]
    for actual, expected in zip(*((y, *back(jnp.asarray(cotangent))) for y, back in results), strict=True):
        assert_near(actual, expected)


# What exporters write instead of Attention: scores of -inf, and 0 where a weight is NaN.
EXCLUDE = {
    "Add": [helper.make_node("Add", ["scaled", "terms"], ["scores"])],
    "Where": [helper.make_node("Where", ["flags", "scaled", "least"], ["scores"])],
}
WEIGH = {
    "Softmax": [helper.make_node("Softmax", ["scores"], ["weights"], axis=-1)],
    "LogSoftmax": [
        helper.make_node("LogSoftmax", ["scores"], ["logs"], axis=-1),
        helper.make_node("Exp", ["logs"], ["weights"]),
    ],
}


@pytest.mark.parametrize("weigh", sampled(WEIGH, ["Softmax"]))
@pytest.mark.parametrize("exclude", sampled(EXCLUDE, ["Add"]))
@pytest.mark.parametrize("opset", sampled([11, 13, 24], [24]))
def test_nan_of_softmax_that_where_replaces_has_no_gradient(weigh, exclude, opset):
    """Softmax of -inf alone is NaN still."""
    q, k, v, cotangent = unseen(1)
    terms = np.where(FLAGS, np.float32(0), -np.inf)
    nodes = [
        helper.make_node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "t"], ["products"]),
        helper.make_node("Mul", ["products", "half"], ["scaled"]),
        *(*EXCLUDE[exclude], *WEIGH[weigh]),
        helper.make_node("IsNaN", ["weights"], ["is_nan"]),
        helper.make_node("Where", ["is_nan", "zero", "weights"], ["safe"]),
        helper.make_node("MatMul", ["safe", "v"], ["y"]),
    ]
    constants = {"half": np.float32(0.5), "zero": np.float32(0), "least": np.float32(-np.inf)}
    constants |= {"flags": FLAGS, "terms": terms}
    function = to_jax(model(nodes, {"q": q, "k": k, "v": v}, ["y", "weights"], constants, opset=opset))

    def total(*arrays):
        output, weights = function(*arrays)
        return (output * cotangent).sum(), (output, weights)

    slopes, (output, weights) = jax.jit(jax.grad(total, argnums=range(3), has_aux=True))(q, k, v)
    wanted = attended(q, k, v, FLAGS, cotangent, scale=0.5)
    for actual, expected in zip(
        (output, *slopes), (wanted.output, wanted.of_query, wanted.of_key, wanted.of_value), strict=True
    ):
        assert_near(actual, expected)
    np.testing.assert_array_equal(np.isnan(weights[0, 0]), ~FLAGS.any(axis=1, keepdims=True) & np.ones((3, 3), bool))


@pytest.mark.parametrize("is_causal", sampled([0, 1], [1]))
def test_lengths_of_32_bits_without_x64(is_causal):
    """As data under jit; lengths out of range count as the nearest ones."""
    draw = Draw(0)
    q, k, v = draw(4, 2, 2, 4), draw(4, 1, 5, 4), draw(4, 1, 5, 4)
    lengths = np.int32([3, 1, 9, -2])
    inputs = [q, k, v, None, None, None, lengths.astype(np.int64)]
    proto, _ = one_node("Attention", inputs, opset=24, is_causal=is_causal)
    counted = lengths.clip(0, 5)
    seen = seen_keys(2, counted, 5, counted - 2, None, 0 if is_causal else None)
    assert_near(jax.jit(to_jax(proto, int32=["x6"]))(q, k, v, lengths), attended(q, k, v, seen, scale=0.5).output)
    assert_near(
        jax.jit(lambda *x: to_jax(proto)(*x, lengths.astype(np.int64)))(q, k, v),
        attended(q, k, v, seen, scale=0.5).output,
    )


def test_softmax_precision_widens_alone():
    """float64 needs x64; nothing is narrowed to float16."""
    q, k, v, _ = unseen()
    q, k = q * 400, k * 400  # products beyond float16
    function = attention_of(np.ones((3, 3), bool), softmax_precision=10)
    assert_near(function(q, k, v), attended(q, k, v, True, scale=0.5).output)
    function = attention_of(np.ones((3, 3), bool), softmax_precision=11)
    with pytest.raises(DataTypeError, match="softmax_precision float64 must not be narrowed"):
        function(q, k, v)
    with jax.enable_x64(True):
        assert function(q, k, v).dtype == np.float32


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16])
def test_halves_are_multiplied_as_they_are_and_added_in_float32(dtype):
    """GPUs multiply them many times as fast as float32; products beyond float16 stay finite."""
    q, k, v = (x.astype(dtype) for x in unseen()[:3])
    q, k = q * 400, k * 400
    function = attention_of(np.ones((3, 3), bool), dtype)
    short = "bf16" if dtype == jnp.bfloat16 else "f16"
    program = jax.jit(function).lower(q, k, v).as_text()
    products = [line for line in program.splitlines() if "dot_general" in line]
    assert len(products) == 2
    assert all(line.count(f"x{short}>") == 2 and line.rstrip().endswith("xf32>") for line in products)
    assert_near(function(q, k, v), attended(q, k, v, True, scale=0.5).output, dtype)


@pytest.mark.exhaustive
def test_vmap_is_a_loop():
    q, k, v, _ = unseen()
    function = attention_of(FLAGS)
    many = jax.jit(jax.vmap(function))(*(np.stack([x, x[..., ::-1]]) for x in (q, k, v)))
    for made, flip in zip(many, (1, -1), strict=True):
        assert_near(made, function(*(x[..., ::flip] for x in (q, k, v))))


WRONG = {
    r"Q must have 3 or 4 dimensions, but it has 2": {Q: np.zeros((2, 4), np.float32)},
    r"K: its sizes must be \[\?, \?, \?, \?\]": {K: np.zeros((1, 3, 8), np.float32)},
    r"K: its sizes must be \[1, \?, \?, 4\]": {K: np.zeros((1, 2, 3, 5), np.float32)},
    r"V: its sizes must be \[1, 2, 3, \?\]": {V: np.zeros((1, 2, 2, 4), np.float32)},
    "heads of Q must be a multiple of those of K, but they are 3 and 2": {Q: np.zeros((1, 3, 3, 4), np.float32)},
    r"attn_mask must broadcast to \(1, 2, 3, 3\)": {MASK: np.zeros((2, 3), bool)},
    "attn_mask must have 1 to 4 dimensions": {MASK: np.zeros((1, 1, 1, 3, 3), bool)},
    "past_key and past_value must be given together": {PAST_KEY: np.zeros((1, 2, 3, 4), np.float32)},
    "nonpad_kv_seqlen must be left out, because there is a past": {
        **dict.fromkeys((PAST_KEY, PAST_VALUE), np.zeros((1, 2, 3, 4), np.float32)),
        LENGTHS: np.int64([3]),
    },
    r"nonpad_kv_seqlen: its sizes must be \[1\]": {LENGTHS: np.int64([3, 3])},
    "qk_matmul_output_mode must be 0 or 1 or 2 or 3, but it is 4": {"qk_matmul_output_mode": 4},
    "softmax_precision must be 1 or 10 or 11 or 16, but it is 7": {"softmax_precision": 7},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_operands_are_refused(message):
    inputs, attributes = with_changes(WRONG[message], [np.zeros((1, 2, 3, 4), np.float32)] * 3 + [None] * 4)
    proto, named = one_node("Attention", inputs, opset=24, **attributes)
    with pytest.raises(OnnxError, match=message):
        to_jax(proto)(**named)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"q_num_heads": 3, "kv_num_heads": 2}, "q_num_heads must be .* divide the 8 columns of Q, .* but it is 3"),
        ({"kv_num_heads": 2}, "q_num_heads must be at least 1 .* which has 3 dimensions, but it is missing"),
        ({"q_num_heads": 2}, "kv_num_heads must be at least 1 and divide the 8 columns of K, .* but it is missing"),
    ],
)
def test_flat_heads_must_have_a_number(numbers, message):
    proto, named = one_node("Attention", [np.zeros((1, 3, 8), np.float32)] * 3, opset=23, **numbers)
    with pytest.raises(OnnxError, match=message):
        to_jax(proto)(**named)


def test_heads_of_size_0_weigh_all_keys_alike():
    q, k, v = np.zeros((1, 1, 2, 0), np.float32), np.zeros((1, 1, 3, 0), np.float32), Draw(0)(1, 1, 3, 4)
    proto, named = one_node("Attention", [q, k, v], opset=23)
    assert_near(jax.jit(to_jax(proto))(**named), np.repeat(v.mean(2, keepdims=True), 2, axis=2))
