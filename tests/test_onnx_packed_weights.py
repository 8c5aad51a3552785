"""Weights of few bits stay packed: in the compiled program, for few rows and many, under every transformation."""

import re
from math import prod

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import sampled
from onnx import numpy_helper
from onnx_building import helper, model

from dml_jax import use_form
from dml_jax.lowering.cpu import packed_weights as cpu
from dml_jax.onnx import to_jax
from dml_jax.operations.packed_product import multiply_packed
from dml_jax.operations.programs.variant_selection import watch_choices

# Weights of 4 MiB and more in float32, whose products with many rows run a variant on a CPU.
K, N, BLOCK = 1120, 1040, 32
FEW, MANY = 2, 5


class Weights:
    """Integers in blocks along their first axis, (K, N), and the numbers that they stand for."""

    def __init__(self, seed, dtype, k=K, n=N, block=BLOCK, *, has_zero_points=True):
        rng = np.random.default_rng(seed)
        limits, sizes = ml_dtypes.iinfo(dtype), (-(-k // block), n)
        self.dtype, self.block = np.dtype(dtype), block
        self.q = rng.integers(limits.min, int(limits.max) + 1, (k, n)).astype(dtype)
        self.scales = rng.uniform(0.5, 1.5, sizes).astype(np.float32)
        self.zeros = rng.integers(limits.min, int(limits.max) + 1, sizes).astype(dtype) if has_zero_points else None

    def floats(self):
        by_element = lambda x: np.repeat(x.astype(np.float64), self.block, 0)[: len(self.q)]  # noqa: E731
        shifted = self.q.astype(np.float64) - (0 if self.zeros is None else by_element(self.zeros))
        return shifted * by_element(self.scales)


def rows(count, k=K, seed=0):
    return np.random.default_rng(seed).standard_normal((count, k)).astype(np.float32)


def assert_near(actual, x, w, step=2.0**-23):
    """Within the rounding of a float32 sum of these products, and of the result."""
    exact, bound = x.astype(np.float64) @ w, abs(x.astype(np.float64)) @ abs(w)
    assert (abs(np.asarray(actual, np.float64) - exact) <= 2.0**-19 * bound + step * abs(exact)).all()


def of_n_bits(weights, count):
    """A MatMulNBits of these weights, for some rows."""
    bits, half = 4, 8
    q, zeros = (x.astype(np.int32).T for x in (weights.q, weights.zeros))
    q = np.pad(q, [(0, 0), (0, -q.shape[1] % weights.block)]).reshape(q.shape[0], -1, weights.block // 2, 2)
    packed = (q[..., 0] | q[..., 1] << 4).astype(np.uint8)
    zeros = np.pad(zeros, [(0, 0), (0, zeros.shape[1] % 2)], constant_values=half)
    constants = {"b": packed, "s": weights.scales.T.copy(), "z": (zeros[:, ::2] | zeros[:, 1::2] << 4).astype(np.uint8)}
    k, n = weights.q.shape
    sizes = {"K": k, "N": n, "bits": bits, "block_size": weights.block}
    node = helper.make_node("MatMulNBits", ["x", "b", "s", "z"], ["y"], domain="com.microsoft", **sizes)
    return model([node], {"x": rows(count, k)}, ["y"], constants)


def of_dequantize_linear(weights, count, way="MatMul"):
    """DequantizeLinear, and a product of some rows by what it returns."""
    transposed = way in ("Gemm", "Transpose")
    turned = lambda x: np.ascontiguousarray(x.T if transposed else x)  # noqa: E731
    constants = {"q": turned(weights.q), "s": turned(weights.scales)}
    if weights.zeros is not None:
        constants["z"] = turned(weights.zeros)
    attributes = {"axis": int(transposed), "block_size": weights.block}
    nodes = [helper.make_node("DequantizeLinear", [*constants], ["w"], **attributes)]
    if way == "Gemm":
        nodes.append(helper.make_node("Gemm", ["x", "w"], ["y"], transB=1, alpha=0.5))
    elif way == "Transpose":
        nodes += [
            helper.make_node("Transpose", ["w"], ["v"], perm=[1, 0]),
            helper.make_node("MatMul", ["x", "v"], ["y"]),
        ]
    else:
        nodes.append(helper.make_node("MatMul", ["x", "w"], ["y"]))
    return model(nodes, {"x": rows(count, len(weights.q))}, ["y"], constants, opset=25)


TYPES = ("int4", "uint4", "int8", "uint8", "int2", "uint2")


@pytest.mark.parametrize("dtype", sampled(TYPES, ["int4", "uint8"]))
@pytest.mark.parametrize("way", sampled(["MatMul", "Gemm", "Transpose"], ["Gemm"]))
@pytest.mark.parametrize("has_zero_points", sampled([True, False], [True]))
def test_a_product_by_dequantized_blocks(dtype, way, has_zero_points):
    """Of any number of rows, and of weights whose last block is incomplete."""
    weights = Weights(1, getattr(ml_dtypes, dtype, dtype), 90, 37, 16, has_zero_points=has_zero_points)
    for count in (1, 3):
        function, x = to_jax(of_dequantize_linear(weights, count, way)), rows(count, 90)
        assert_near(jax.jit(function)(x), x, weights.floats() * (0.5 if way == "Gemm" else 1))


@pytest.mark.parametrize("dtype", sampled(TYPES, ["int4", "uint8"]))
@pytest.mark.parametrize("way", sampled(["MatMul", "Gemm", "Transpose"], ["MatMul", "Gemm"]))
@pytest.mark.parametrize("data", sampled(["z", "s", "sz"], ["z", "sz"]))
def test_zero_points_and_scales_that_are_inputs(dtype, way, data):
    """Beside constant integers, under jit and vmap."""
    weights = Weights(6, getattr(ml_dtypes, dtype, dtype), 10, 6, 4)
    proto, x, given = of_dequantize_linear(weights, 3, way), rows(3, 10), {}
    for constant in list(proto.graph.initializer):
        if constant.name in data:
            given[constant.name] = numpy_helper.to_array(constant)
            proto.graph.initializer.remove(constant)
            sizes = helper.make_tensor_value_info(constant.name, constant.data_type, constant.dims)
            proto.graph.input.append(sizes)
    function, expected = to_jax(proto), weights.floats() * (0.5 if way == "Gemm" else 1)
    many = jax.tree.map(lambda array: np.stack([array, array]), (x, given))
    for y in (jax.jit(function)(x, **given), *jax.vmap(lambda x, given: function(x, **given))(*many)):
        assert_near(y, x, expected)


# What is compiled.

PARTS = {"s4": 0.5, "u4": 0.5, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "f32": 4, "s32": 4, "u32": 4, "pred": 1}


def constant_bytes(function, *arrays):
    """The bytes of all constants in a compiled program."""
    text = jax.jit(function).lower(*arrays).compile().as_text()
    found = re.findall(r"= (\w+)\[([\d,]*)\]\S* constant\(", text)
    return sum(PARTS.get(kind, 8) * prod(int(n) for n in sizes.split(",") if n) for kind, sizes in found)


MODELS = {"MatMulNBits": of_n_bits, "DequantizeLinear": of_dequantize_linear}


@pytest.mark.device
@pytest.mark.thinned
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("count", [1, MANY])
def test_constants_stay_packed(kind, count):
    weights = Weights(2, ml_dtypes.uint4)
    function = to_jax(MODELS[kind](weights, count))
    packed = weights.q.size // 2 + 2 * weights.scales.nbytes
    assert packed // 2 < constant_bytes(function, rows(count)) < 1.5 * packed


@pytest.mark.device
def test_a_table_of_blocks_stays_packed():
    """In which a GatherBlockQuantized looks rows up, along blocks or across them."""
    rng = np.random.default_rng(0)
    for axis in (0, 1):
        q = rng.integers(0, 16, (256, 2048)).astype(ml_dtypes.uint4)
        scales = rng.random((256 // 16, 2048) if axis == 0 else (256, 2048 // 16)).astype(np.float32)
        names, attributes = ["q", "at", "s"], {"gather_axis": 0, "quantize_axis": axis, "block_size": 16}
        node = helper.make_node("GatherBlockQuantized", names, ["y"], domain="com.microsoft", **attributes)
        at = np.int32([3, 200])
        function = to_jax(model([node], {"at": at}, ["y"], {"q": q, "s": scales}, opset=23))
        assert constant_bytes(function, at) < q.size + 2 * scales.nbytes


# The variants of a CPU, and plain.


@pytest.mark.parametrize(
    ("count", "n", "chosen"), [(FEW, 256, {"packed_weights"}), (MANY, 256, set()), (MANY, N, {"packed_weights"})]
)
def test_few_rows_are_multiplied_in_one_pass(count, n, chosen):
    """By constants, on CPUs; many rows where the weights are 4 MiB of float32 and more."""
    packed, scales, zeros = operands(Weights(6, ml_dtypes.uint4, n=n))
    with watch_choices() as seen:
        traced = jax.jit(lambda x: multiply_packed(x, packed, scales, zeros, bits=4)).trace(rows(count))
        traced.lower(lowering_platforms=("cpu",))
    assert {choice.name for choice in seen} - {"plain"} == chosen


def operands(weights):
    """Of `multiply_packed`: of 4 bits."""
    q = weights.q.astype(np.uint8).T
    q = np.pad(q, [(0, 0), (0, -q.shape[1] % weights.block)]).reshape(len(q), -1, weights.block // 2, 2)
    return q[..., 0] | q[..., 1] << 4, weights.scales.T.copy(), weights.zeros.astype(np.float32).T


@pytest.mark.device
@pytest.mark.thinned
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize("form", ["plain", "packed_weights"])
def test_transformations(form, count, is_known, monkeypatch):
    """Values, a batch of rows, gradients by rows and scales, and a call without jax.jit are near float64."""
    for name, small in (("TILE_COLUMNS", 16), ("TILE_BYTES", 2**13)):  # the last of several tiles overlaps with another
        monkeypatch.setattr(cpu, name, small)
    weights = Weights(3, ml_dtypes.uint4, 150, 44)
    packed, scales, zeros = operands(weights)
    x, w = rows(count, 150), weights.floats()
    cotangent = rows(count, 44, 1)

    def multiply(x, *data):
        return multiply_packed(x, *(data or (packed, scales, zeros)), bits=4)

    def each(x, *data):
        return multiply(x, *data), jax.vmap(lambda row: multiply(row[None], *data))(x)[:, 0], back(x, *data)

    def back(x, *data):
        of_scales = (lambda x, s: multiply(x, data[0], s, data[2])) if data else lambda x: multiply(x)
        return jax.vjp(of_scales, x, *data[1:2])[1](cotangent)

    data = () if is_known else tuple(map(jnp.asarray, (packed, scales, zeros)))
    with use_form(form):
        one, batched, gradients = jax.jit(each)(x, *data)
        for value in (one, batched, multiply(x, *data)):
            assert_near(value, x, w)
    assert_near(gradients[0], cotangent, w.T)
    if not is_known:
        by_element = (cotangent.astype(np.float64).T @ x) * (w / np.repeat(weights.scales, BLOCK, 0)[:150]).T
        expected = np.pad(by_element, [(0, 0), (0, 10)]).reshape(44, -1, BLOCK).sum(-1)
        np.testing.assert_allclose(gradients[1], expected, rtol=0, atol=1e-5 * abs(by_element).max() * BLOCK)


@pytest.mark.device
@pytest.mark.parametrize("dtype", sampled([np.float16, jnp.bfloat16], [jnp.bfloat16]))
@pytest.mark.parametrize("count", sampled([FEW, MANY], [FEW]))
def test_narrow_rows(dtype, count):
    """Sums of float32, rounded once; weights are rounded at most once."""
    weights = Weights(5, ml_dtypes.uint4)
    packed, scales, zeros = operands(weights)
    x = rows(count).astype(dtype)
    made = jax.jit(lambda x: multiply_packed(x, packed, scales, zeros, bits=4))(x)
    exact, step = x.astype(np.float64) @ weights.floats(), float(jnp.finfo(dtype).eps)
    bound = abs(x.astype(np.float64)) @ abs(weights.floats())
    assert (abs(np.asarray(made, np.float64) - exact) <= (1e-5 + (0.51 * step if count > FEW else 0)) * bound).all()
