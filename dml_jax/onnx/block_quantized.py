"""ONNX Runtime's MatMulNBits, MatMulBnb4 and GatherBlockQuantized: block-quantised weights, a scale per block.

They become floats, (q - zero point) * scale or a table's number * scale, rounded once to the type of the scales; then
they are as other weights.
"""

from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core.tensors.int4_packing import split_bytes
from ..errors import ConstraintError
from ..operations.packed_product import multiply_packed
from ..operations.values.accumulation_types import narrow_apart
from ..operations.values.bit_exact import hide_constant
from ..operators import gather
from .contrib_schemas import required, schema
from .layout import axis_of
from .matmul import gemm
from .operand_checks import check_shape, check_value, refuse
from .values import Array, Operators, as_wide, on_device

# The numbers of the 16 codes of bitsandbytes' types of 4 bits. In FP4 the highest bit is the sign; NF4 has quantiles of
# the normal distribution.
_FP4 = (0, 1 / 192, 2 / 3, 1, 1 / 3, 1 / 2, 1 / 6, 1 / 4)
_NF4 = (
    *(-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0),
    *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1),
)
_TABLES = (np.array([*_FP4, *(-number for number in _FP4)], np.float32), np.array(_NF4, np.float32))


def mat_mul_n_bits(
    *,
    a: Array,
    b: Array,
    scales: Array,
    zero_points: Array | None = None,
    g_idx: Array | None = None,
    bias: Array | None = None,
    K: int,  # noqa: N803  # as ONNX Runtime calls them
    N: int,  # noqa: N803
    bits: int = 4,  # supported_options.py refuses others than 2, 4 and 8
    block_size: int,
    weight_prepacked: int = 0,  # and others here
    accuracy_level: int = 0,  # the least that will do: here it is the highest
) -> jax.Array:
    """MatMulNBits: a @ dequantised(b).T + bias. Empty weights are zeros; `g_idx` has the block of each of K inputs."""
    _check_block(block_size)
    _check_sizes(N, K)
    check_shape("A", a, (*[None] * (a.ndim - 1), K))
    check_shape("bias", bias, (N,))
    blocks, shape = -(-K // block_size), (*a.shape[:-1], N)
    sizes = (N, blocks, block_size * bits // 8)
    if b.ndim == 3 and not b.size and all(n in (0, m) for n, m in zip(b.shape, sizes, strict=True)):
        return jnp.zeros(shape, a.dtype) if bias is None else jnp.broadcast_to(on_device(bias), shape)
    check_shape("B", b, sizes)
    scale = _of_shape("scales", scales, sizes[:2])
    zero_point = _half(bits) if zero_points is None else _zero_point(zero_points, sizes[:2], bits)
    if g_idx is None:
        product = multiply_packed(on_device(a).reshape(prod(a.shape[:-1]), K), b, scale, zero_point, bits=bits)
        product = product if bias is None else product + as_wide(bias)[None]
        return narrow_apart(product, a.dtype).reshape(shape)
    check_value("g_idx.shape", g_idx.shape, ((K,), (blocks * block_size,)))
    b, scale, zero_point = (_hidden(x, a) for x in (b, scale, zero_point))
    q = split_bytes(b, bits).reshape(N, blocks * block_size)[:, :K]
    scale, zero_point = (gather(x, g_idx[:K], 1) if x.ndim else x for x in (scale, zero_point))
    return _product(a, _dequantize(q, scale, zero_point), c=bias, transB=1)


def mat_mul_bnb4(
    *,
    a: Array,
    b: Array,
    absmax: Array,
    K: int,  # noqa: N803  # as ONNX Runtime calls them
    N: int,  # noqa: N803
    block_size: int,
    quant_type: int,
    training_mode: int = 0,  # what would be saved for a gradient
    transB: int = 1,  # noqa: N803
) -> jax.Array:
    """MatMulBnb4: a @ dequantised(b).T, or without transB a @ dequantised(b), which is [N, K].

    Blocks are of the flat matrix, and run over the ends of its rows. A byte holds two numbers, the first in its high
    bits.
    """
    check_value("quant_type", quant_type, (0, 1))
    _check_block(block_size)
    _check_sizes(N, K)
    check_shape("A", a, (*[None] * (a.ndim - 1), K if transB else N))
    count = N * K
    check_shape("B", b, (-(-count // 2),))
    check_shape("absmax", absmax, (-(-count // block_size),))
    b, absmax = (_hidden(x, a) for x in (b, absmax))
    pairs = split_bytes(b, 4).reshape(-1, 2)
    numbers = gather(on_device(_TABLES[quant_type]), pairs[:, ::-1].reshape(-1)[:count], 0)
    scale = _of_elements(absmax, 0, block_size, count)
    weights = narrow_apart(numbers * scale.astype(np.float32), absmax.dtype).reshape(N, K)
    return _product(a, weights, transB=transB)


def gather_block_quantized(
    *,
    data: Array,
    indices: Array,
    scales: Array,
    zero_points: Array | None = None,
    bits: int = 4,
    block_size: int = 128,
    quantize_axis: int = 1,
    gather_axis: int = 0,
) -> jax.Array:
    """GatherBlockQuantized: gathers, then dequantises. Indices out of range read 0; float data have no zero points."""
    along = axis_of("gather_axis", gather_axis, data.ndim)
    blocked = axis_of("quantize_axis", quantize_axis, data.ndim)
    is_bytes, is_float = data.dtype == np.uint8, jnp.issubdtype(data.dtype, jnp.floating)
    fields = 1
    if is_float:
        refuse(f"data of {data.dtype} have none", zero_points=zero_points)
    if is_bytes:
        check_value("bits", bits, (2, 4, 8))
        check_value("gather_axis of uint8", along, (0,))
        fields = 8 // bits
    if fields > 1 and blocked == along:
        raise ConstraintError(f"quantize_axis of {bits} bits must not be gather_axis, but both are {along}")
    sizes = (*data.shape[:-1], data.shape[-1] * fields)
    block = sizes[blocked] if is_float and block_size == 0 else _check_block(block_size)
    by_block = tuple(-(-n // block) if d == blocked else n for d, n in enumerate(sizes))
    scale, zero_point = on_device(scales), on_device(_zero_point(zero_points, by_block, bits if is_bytes else 0))
    if is_float and scale.ndim == data.ndim and all(n in (1, m) for n, m in zip(scale.shape, by_block, strict=True)):
        scale = jnp.broadcast_to(scale, by_block)
    check_shape("scales", scale, by_block)

    def read(x: jax.Array) -> jax.Array:
        return gather(x, indices, along, mode="fill", fill_value=0)

    q = read(on_device(data))
    q = split_bytes(q, bits) if fields > 1 else q
    if blocked == along:
        scale, zero_point = (read(_of_elements(x, along, block, sizes[along])) for x in (scale, zero_point))
    else:
        at = blocked if blocked < along else blocked + indices.ndim - 1
        scale, zero_point = (_of_elements(read(x), at, block, sizes[blocked]) for x in (scale, zero_point))
    return _dequantize(q, scale, zero_point)


def _product(a: Array, weights: jax.Array, **given: Any) -> jax.Array:
    """Returns the product of the rows of a, of any rank, with a matrix."""
    rows = on_device(a).reshape(prod(a.shape[:-1]), a.shape[-1])
    product = on_device(gemm(a=rows, b=weights, **given))
    return product.reshape(*a.shape[:-1], product.shape[-1])


def _dequantize(q: jax.Array, scale: jax.Array, zero_point: jax.Array) -> jax.Array:
    number, zero, step = (x.astype(np.float32) for x in (_as_bytes(q), _as_bytes(zero_point), scale))
    return narrow_apart((number - zero) * step, scale.dtype)


def _as_bytes(q: jax.Array) -> jax.Array:
    """Converts 4-bit integers to bytes, with which every device computes."""
    return q.astype(np.int8) if q.dtype in (jnp.int4, jnp.uint4) else q


def _of_elements(x: jax.Array, axis: int, block: int, count: int) -> jax.Array:
    """Repeats numbers of blocks for each element along an axis; the last block may end beyond them, by far."""
    return lax.slice_in_dim(jnp.repeat(x, min(block, count), axis), 0, count, axis=axis)


def _zero_point(given: Array | None, sizes: tuple[int, ...], bits: int) -> Array:
    """Returns a zero point per block, unpacked if it has less than 8 bits; by default half the range, or 0."""
    if given is None:
        return np.full(sizes, _half(bits) if bits else 0, np.uint8)
    is_packed = given.dtype == np.uint8 and 0 < bits < 8
    if is_packed:
        stored = (*sizes[:-1], -(-sizes[-1] * bits // 8))
        return split_bytes(_of_shape("zero_points", given, stored), bits)[..., : sizes[-1]]
    return _of_shape("zero_points", given, sizes)


def _half(bits: int) -> np.ndarray:
    """Half the range of integers."""
    return np.array(2 ** (bits - 1), np.uint8)


def _hidden(array: Array, beside: Array) -> jax.Array:
    """Weights that XLA does not unpack while it compiles."""
    return hide_constant(on_device(array), beside)


def _of_shape(name: str, array: Array, sizes: tuple[int, ...]) -> Array:
    """Checks and returns an array in this shape; early versions of MatMulNBits store it flat."""
    if array.shape != (prod(sizes),):
        check_shape(name, array, sizes)
    return array.reshape(sizes)


def _check_sizes(n: int, k: int) -> None:
    if min(n, k) < 1:
        raise ConstraintError(f"K and N must be at least 1, but they are {k} and {n}")


def _check_block(size: int) -> int:
    if size < 16 or size & (size - 1):
        raise ConstraintError(f"block_size must be a power of 2, and at least 16, but it is {size}")
    return size


_FLOATS = "float float16 bfloat16"
OPERATORS: Operators = {
    "com.microsoft::GatherBlockQuantized": {1: gather_block_quantized},
    "com.microsoft::MatMulBnb4": {1: mat_mul_bnb4},
    "com.microsoft::MatMulNBits": {1: mat_mul_n_bits},
}
SCHEMAS = (
    schema(
        "GatherBlockQuantized",
        "data Q, indices I, scales T, zero_points? Q",
        "output T",
        {"bits": 4, "block_size": 128, "gather_axis": 0, "quantize_axis": 1},
        Q="int4 uint4 uint8 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz float4e2m1",
        I="int32 int64",
        T=_FLOATS,
    ),
    schema(
        "MatMulBnb4",
        "A T, B Q, absmax T",
        "Y T",
        {
            "K": required("INT"),
            "N": required("INT"),
            "block_size": required("INT"),
            "quant_type": required("INT"),
            "training_mode": 0,
            "transB": 1,
        },
        T=_FLOATS,
        Q="uint8",
    ),
    schema(
        "MatMulNBits",
        "A T, B Q, scales T, zero_points? Z, g_idx? I, bias? T",
        "Y T",
        {
            "K": required("INT"),
            "N": required("INT"),
            "bits": 4,
            "block_size": required("INT"),
            "accuracy_level": 0,
            "weight_prepacked": 0,
        },
        T=_FLOATS,
        Q="uint8",
        Z=f"uint8 {_FLOATS}",
        I="int32",
    ),
)
