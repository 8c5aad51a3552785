"""Weights of few bits in ONNX Runtime's operators, beside ONNX Runtime, and where it lacks them beside a formula."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits, sampled
from onnx_building import helper, model, onnx, runtime

from dml_jax.onnx import OnnxError, to_jax

MICROSOFT = "com.microsoft"
TYPES = {
    name: helper.tensor_dtype_to_np_dtype(getattr(onnx.TensorProto, name))
    for name in ("INT4", "UINT4", "FLOAT8E4M3FN", "FLOAT8E5M2", "FLOAT4E2M1")
}


def one_node(kind, data, weights, opset=21, **attributes):
    """A model of one node: of `data` and `weights`, dicts by position, the latter are initializers."""
    inputs = {f"x{i}": array for i, array in data.items()}
    constants = {f"x{i}": array for i, array in weights.items() if array is not None}
    last = max(int(name[1:]) for name in (*inputs, *constants))
    names = [name if (name := f"x{i}") in inputs or name in constants else "" for i in range(last + 1)]
    node = helper.make_node(kind, names, ["y"], domain=MICROSOFT, **attributes)
    return model([node], inputs, ["y"], constants, opset=opset), inputs


def computed(proto, inputs):
    """Jitted, with the weights as arguments."""
    function = to_jax(proto)
    weights = {one.name: onnx.numpy_helper.to_array(one) for one in proto.graph.initializer}
    return jax.jit(lambda weights, inputs: function(**inputs, parameters=weights))(weights, inputs)


def join_bits(q, bits):
    """Bytes of numbers along the last dimension, the first one in the low bits."""
    count = 8 // bits
    q = np.pad(q, [(0, 0)] * (q.ndim - 1) + [(0, -q.shape[-1] % count)]).reshape(*q.shape[:-1], -1, count)
    return (q << bits * np.arange(count)).sum(-1).astype(np.uint8)


def assert_near(actual, expected, dtype=np.float32):
    """Off by some last places of what is the largest: sums cancel."""
    assert (actual.dtype, actual.shape) == (dtype, expected.shape)
    expected = np.asarray(expected, np.float64)
    off = 16 * float(jnp.finfo(dtype).eps) * max(1, abs(expected).max())
    np.testing.assert_allclose(np.asarray(actual, np.float64), expected, rtol=0, atol=off)


class Weights:
    """Random weights of a MatMulNBits, and the floats that they stand for."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.bits, block = (2, 4, 8)[seed % 3], int(rng.choice([16, 32, 64]))
        n, k = int(rng.integers(1, 9)), int(rng.integers(1, 140))
        blocks = -(-k // block)
        self.q = rng.integers(0, 2**self.bits, (n, blocks, block))
        self.scales = rng.standard_normal((n, blocks)).astype(np.float32)
        kinds = ("none", "packed", "flat", "floats") if self.bits < 8 else ("none", "packed", "flat")
        self.kind = str(rng.choice(kinds))
        self.zeros = np.full((n, blocks), 2.0 ** (self.bits - 1))
        if self.kind == "floats":
            self.zeros = (rng.random((n, blocks)) * 2**self.bits).astype(np.float32)
        elif self.kind != "none":
            self.zeros = rng.integers(0, 2**self.bits, (n, blocks))
        self.bias = rng.standard_normal(n).astype(np.float32) if rng.random() < 0.5 else None
        self.attributes = {"K": k, "N": n, "bits": self.bits, "block_size": block}
        self.rows = rng.standard_normal((*rng.integers(1, 4, int(rng.integers(0, 3))), k)).astype(np.float32)

    def operands(self, dtype=np.float32):
        zeros = {"none": None, "floats": self.zeros.astype(dtype)}.get(self.kind, self.zeros)
        if self.kind in ("packed", "flat"):
            zeros = join_bits(zeros, self.bits)
        scales = self.scales.astype(dtype)
        if self.kind == "flat":
            zeros, scales = zeros.reshape(-1), scales.reshape(-1)
        bias = None if self.bias is None else self.bias.astype(dtype)
        return {1: join_bits(self.q, self.bits), 2: scales, 3: zeros, 5: bias}

    def floats(self, dtype=np.float32, groups=None):
        """The weights, (N, K), in float64, of scales and zero points in a type."""
        k, block = self.attributes["K"], self.attributes["block_size"]
        at = np.arange(k) // block if groups is None else groups
        scales = self.scales.astype(dtype).astype(np.float64)
        return (self.q.reshape(len(self.q), -1)[:, :k] - self.zeros[:, at].astype(dtype)) * scales[:, at]

    def product(self, dtype=np.float32, groups=None):
        product = self.rows.astype(dtype).astype(np.float64) @ self.floats(dtype, groups).T
        return product if self.bias is None else product + self.bias.astype(dtype)


@pytest.mark.thinned(5)
@pytest.mark.parametrize("seed", range(36))
def test_products(seed):
    weights = Weights(seed)
    proto, inputs = one_node("MatMulNBits", {0: weights.rows}, weights.operands(), **weights.attributes)
    made = computed(proto, inputs)
    assert_near(made, runtime(proto, inputs)[0])
    assert_near(made, weights.product())


@pytest.mark.thinned(6)
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("dtype", sampled([np.float16, jnp.bfloat16], [np.float16]))
def test_products_of_narrow_floats(seed, dtype):
    """Sums are rounded once; weights are rounded to the type of the product only where they meet many rows."""
    weights = Weights(seed)
    operands = weights.operands(dtype)
    proto, inputs = one_node("MatMulNBits", {0: weights.rows.astype(dtype)}, operands, **weights.attributes)
    exact = weights.product(dtype)
    rounded = np.asarray(computed(proto, inputs), np.float64)
    bound = abs(weights.rows.astype(np.float64)) @ abs(weights.floats(dtype)).T
    step = float(jnp.finfo(dtype).eps)
    of_weights = 1e-5 if weights.rows.size <= 2 * weights.rows.shape[-1] else 0.51 * step
    assert (abs(rounded - exact) <= 0.51 * step * abs(exact) + of_weights * bound + 1e-6).all()


@pytest.mark.thinned(3)
@pytest.mark.parametrize("seed", range(6))
def test_a_group_index(seed):
    """ONNX Runtime takes it of 4 bits alone, and reads packed zero points by another index than the scales."""
    weights = Weights(3 * seed + 1)
    k, block = weights.attributes["K"], weights.attributes["block_size"]
    groups = np.random.default_rng(seed).integers(0, -(-k // block), k).astype(np.int32)
    proto, inputs = one_node("MatMulNBits", {0: weights.rows}, weights.operands() | {4: groups}, **weights.attributes)
    made = computed(proto, inputs)
    assert_near(made, weights.product(groups=groups))
    if weights.kind in ("none", "floats"):
        assert_near(made, runtime(proto, inputs)[0])


@pytest.mark.parametrize("has_bias", sampled([False, True], [True]))
def test_weights_that_are_left_out(has_bias):
    weights = Weights(1)
    operands = weights.operands()
    operands[5] = np.arange(weights.attributes["N"], dtype=np.float32) if has_bias else None
    operands[1] = operands[1][:0]
    proto, inputs = one_node("MatMulNBits", {0: weights.rows}, operands, **weights.attributes)
    assert_same_bits(computed(proto, inputs), runtime(proto, inputs)[0])


WRONG_PRODUCTS = {
    "block_size must be a power of 2": {"block_size": 24},
    "K and N must be at least 1": {"N": 0},
    r"A: its sizes must be \[\?, 32\]": {0: np.zeros((2, 31), np.float32)},
    r"B: its sizes must be \[3, 2, 8\]": {1: np.zeros((3, 2, 16), np.uint8)},
    r"scales: its sizes must be \[3, 2\]": {2: np.zeros((3, 3), np.float32)},
    r"zero_points: its sizes must be \[3, 1\]": {3: np.zeros((3, 2), np.uint8)},
    r"g_idx.shape must be \(32,\)": {4: np.zeros(31, np.int32)},
    r"bias: its sizes must be \[3\]": {5: np.zeros(2, np.float32)},
}


@pytest.mark.parametrize("message", WRONG_PRODUCTS)
def test_wrong_products_are_refused(message):
    operands = {1: np.zeros((3, 2, 8), np.uint8), 2: np.zeros((3, 2), np.float32)}
    attributes, data = {"K": 32, "N": 3, "block_size": 16}, {0: np.zeros((2, 32), np.float32)}
    for where, value in WRONG_PRODUCTS[message].items():
        if where == 0:
            data[0] = value
        elif isinstance(where, int):
            operands[where] = value
        else:
            attributes[where] = value
    with pytest.raises(OnnxError, match=message):
        computed(*one_node("MatMulNBits", data, operands, **attributes))


# MatMulBnb4.

FP4 = np.array([0, 1 / 192, 2 / 3, 1, 1 / 3, 1 / 2, 1 / 6, 1 / 4])
NF4 = """-1 -0.6961928009986877 -0.5250730514526367 -0.39491748809814453 -0.28444138169288635 -0.18477343022823334
-0.09105003625154495 0 0.07958029955625534 0.16093020141124725 0.24611230194568634 0.33791524171829224
0.44070982933044434 0.5626170039176941 0.7229568362236023 1"""
TABLES = (np.r_[FP4, -FP4], np.array(NF4.split(), float))  # as bitsandbytes and ONNX Runtime have them


def of_table(seed, dtype=np.float32, *, is_transposed=True):
    """Operands, attributes and the product in float64; blocks run over the ends of rows, and the last is shorter."""
    rng = np.random.default_rng(seed)
    kind, block = seed % 2, int(rng.choice([16, 32, 64]))
    n, k = int(rng.integers(1, 9)), int(rng.integers(1, 60))
    q = rng.integers(0, 16, n * k)
    scales = rng.uniform(0.5, 2, -(-n * k // block)).astype(dtype)
    packed = np.append(q, 0)[: -(-n * k // 2) * 2].reshape(-1, 2)
    weights = (TABLES[kind].astype(np.float32)[q] * scales[np.arange(n * k) // block].astype(np.float32)).astype(dtype)
    weights = weights.astype(np.float64).reshape(n, k)
    rows = rng.standard_normal((*rng.integers(1, 4, int(rng.integers(0, 3))), k if is_transposed else n)).astype(dtype)
    attributes = {"K": k, "N": n, "block_size": block, "quant_type": kind} | ({} if is_transposed else {"transB": 0})
    operands = {1: (packed[:, 0] << 4 | packed[:, 1]).astype(np.uint8), 2: scales}
    return ({0: rows}, operands, attributes), rows.astype(np.float64) @ (weights.T if is_transposed else weights)


@pytest.mark.thinned(5)
@pytest.mark.parametrize("seed", range(20))
def test_products_of_fp4_and_nf4(seed):
    (data, operands, attributes), wanted = of_table(seed)
    proto, inputs = one_node("MatMulBnb4", data, operands, **attributes)
    made = computed(proto, inputs)
    assert_near(made, runtime(proto, inputs)[0])
    assert_near(made, wanted)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("seed", range(6))
def test_products_by_weights_that_are_not_transposed(seed):
    """A backward pass has them; ONNX Runtime's CPU provider transposes them all the same."""
    (data, operands, attributes), wanted = of_table(seed, is_transposed=False)
    assert_near(computed(*one_node("MatMulBnb4", data, operands, **attributes)), wanted)


@pytest.mark.parametrize("dtype", sampled([np.float16, jnp.bfloat16], [jnp.bfloat16]))
def test_products_of_narrow_floats_by_a_table(dtype):
    (data, operands, attributes), wanted = of_table(3, dtype)
    made = computed(*one_node("MatMulBnb4", data, operands, **attributes))
    np.testing.assert_allclose(np.asarray(made, np.float64), wanted, rtol=0.51 * float(jnp.finfo(dtype).eps), atol=1e-5)


WRONG_TABLES = {
    "quant_type must be 0 or 1, but it is 2": {"quant_type": 2},
    "block_size must be a power of 2": {"block_size": 24},
    "K and N must be at least 1, but they are 0 and 3": {"K": 0},
    r"A: its sizes must be \[\?, 11\]": {0: np.zeros((2, 12), np.float32)},
    r"B: its sizes must be \[17\]": {1: np.zeros(16, np.uint8)},
    r"absmax: its sizes must be \[3\]": {2: np.zeros(2, np.float32)},
}


@pytest.mark.parametrize("message", WRONG_TABLES)
def test_wrong_products_by_a_table_are_refused(message):
    operands = {1: np.zeros(17, np.uint8), 2: np.zeros(3, np.float32)}
    attributes, data = {"K": 11, "N": 3, "block_size": 16, "quant_type": 1}, {0: np.zeros((2, 11), np.float32)}
    for where, value in WRONG_TABLES[message].items():
        {0: data, 1: operands, 2: operands}.get(where, attributes)[where] = value
    with pytest.raises(OnnxError, match=message):
        computed(*one_node("MatMulBnb4", data, operands, **attributes))


# GatherBlockQuantized.


def lookup(seed):
    """Data, indices, weights and attributes of a node."""
    rng = np.random.default_rng(seed)
    kind = ("bytes", "INT4", "UINT4", "bytes", "FLOAT8E4M3FN", "bytes", "FLOAT4E2M1", "FLOAT8E5M2")[seed % 8]
    rank, bits, block = int(rng.integers(2, 4)), int(rng.choice([2, 4, 8])), int(rng.choice([16, 32]))
    along, blocked = (int(rng.integers(rank)) for _ in range(2))
    if kind == "bytes":
        along, blocked = 0, rank - 1
    sizes = [int(rng.integers(2, 5)) for _ in range(rank)]
    sizes[blocked] = int(rng.choice([24, 40, 48]))
    by_block = [-(-n // block) if d == blocked else n for d, n in enumerate(sizes)]
    attributes = {"gather_axis": along - int(rng.choice([0, rank])), "quantize_axis": blocked, "block_size": block}
    if kind == "bytes":
        q, zeros = (join_bits(rng.integers(0, 2**bits, shape), bits) for shape in (sizes, by_block))
        attributes |= {"bits": bits, "gather_axis": 0}
    else:
        q, zeros = (rng.integers(-8 if kind == "INT4" else 0, 8, s).astype(TYPES[kind]) for s in (sizes, by_block))
    if kind.startswith("FLOAT"):
        zeros = None
        by_block = [int(rng.choice([1, n])) if d != blocked else n for d, n in enumerate(by_block)]
        if rng.random() < 0.5:
            by_block[blocked], attributes["block_size"] = 1, 0
    scales = rng.standard_normal(by_block).astype(np.float32)
    indices = rng.integers(-sizes[along] - 1, sizes[along] + 1, rng.integers(1, 4, int(rng.integers(0, 3))))
    indices = np.asarray(indices, np.int32)
    return {1: indices}, {0: q, 2: scales, 3: zeros if rng.random() < 0.7 else None}, attributes


@pytest.mark.thinned(10)
@pytest.mark.parametrize("seed", range(40))
def test_lookups(seed):
    """The same bits, but the sign of zeros: outside of the table their rows are 0."""
    data, weights, attributes = lookup(seed)
    proto, inputs = one_node("GatherBlockQuantized", data, weights, opset=23, **attributes)
    assert_same_bits(computed(proto, inputs) + np.float32(0), runtime(proto, inputs)[0] + np.float32(0))


def test_a_block_may_be_longer_than_its_dimension_by_far():
    """It has one scale, which is not repeated for the elements that there are not: 4 TiB."""
    attributes = {"block_size": 2**40, "quantize_axis": 1, "gather_axis": 0}
    weights = {0: np.arange(-4, 4).reshape(2, 4).astype(TYPES["INT4"]), 2: np.float32([[2], [3]])}
    looked_up = computed(*one_node("GatherBlockQuantized", {1: np.int32([1, 0])}, weights, opset=23, **attributes))
    np.testing.assert_array_equal(looked_up, np.float32([[0, 3, 6, 9], [-8, -6, -4, -2]]))
    attributes = {"K": 2, "N": 1, "block_size": 2**40, "quant_type": 0}
    operands = {1: np.uint8([0x2F]), 2: np.float32([3])}  # 2/3 and -1/4, times 3
    assert_near(
        computed(*one_node("MatMulBnb4", {0: np.float32([[1, 4]])}, operands, **attributes)), np.float32([[-1]])
    )


WRONG_LOOKUPS = {
    "bits must be 2 or 4 or 8": {"bits": 5},
    "block_size must be a power of 2": {"block_size": 0},
    "gather_axis of uint8 must be 0": {"gather_axis": 1},
    r"gather_axis must be in \[-2, 1\]": {"gather_axis": 2},
    "quantize_axis of 4 bits must not be gather_axis": {"quantize_axis": 0},
    r"scales: its sizes must be \[3, 2\]": {2: np.zeros((3, 1), np.float32)},
    r"zero_points: its sizes must be \[3, 1\]": {3: np.zeros((3, 2), np.uint8)},
}


@pytest.mark.parametrize("message", WRONG_LOOKUPS)
def test_wrong_lookups_are_refused(message):
    weights = {0: np.zeros((3, 16), np.uint8), 2: np.zeros((3, 2), np.float32)}
    attributes = {"block_size": 16}
    for where, value in WRONG_LOOKUPS[message].items():
        (weights if isinstance(where, int) else attributes)[where] = value
    with pytest.raises(OnnxError, match=message):
        computed(*one_node("GatherBlockQuantized", {1: np.int32([0])}, weights, **attributes))


def test_floats_have_no_zero_points():
    floats = np.zeros((2, 16), TYPES["FLOAT8E5M2"])
    weights = {0: floats, 2: np.ones((2, 1), np.float32), 3: np.zeros((2, 1), floats.dtype)}
    with pytest.raises(OnnxError, match="zero_points must be left out"):
        computed(*one_node("GatherBlockQuantized", {1: np.int32([0])}, weights, opset=23, block_size=16))
