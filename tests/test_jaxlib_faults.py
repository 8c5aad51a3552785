"""Faults of XLA by release of jaxlib: which of them the installed release has, and that dml_jax is right beside them.

Each fault is a row of a table of docs/stability.md. A test shows as "xfail" the faults that the installed release has.
It fails if a release has a fault that the table does not list for it.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import jaxlib.version
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import dml_jax

RELEASE = tuple(map(int, jaxlib.version.__version__.split(".")[:2]))
PAGE = Path(__file__).parent.parent / "docs" / "stability.md"
ON_A_CPU = jax.default_backend() == "cpu"


def runs(code, **environment):
    """Whether a program ends well, in a process of its own."""
    program = f"import jax, jax.numpy as jnp\n{code}"
    arguments = [sys.executable, "-c", program]
    return subprocess.run(arguments, env={**os.environ, **environment}, capture_output=True).returncode == 0


# The sums of the columns of `matrix` times the transpose of `points`; small integers, so that float32 is exact.
MATRIX, POINTS = (np.random.default_rng(0).integers(-3, 4, size).astype(np.float32) for size in ((3, 3), (33_000, 3)))
SUMS = (POINTS.astype(np.int64) @ MATRIX.T.astype(np.int64)).sum(1)


def columns_are_right():
    return np.array_equal(jax.jit(jax.vmap(lambda point: (MATRIX @ point).sum()))(POINTS), SUMS)


def products_with_ones_are_right():
    return np.array_equal(jax.jit(lambda points: (points @ jnp.ones((3, 3))).sum(1))(POINTS), 3 * POINTS.sum(1))


def nan_is_the_maximum():
    x = np.zeros(2**20, np.float32)
    x[5] = np.nan
    return bool(jnp.isnan(jax.jit(jnp.max)(x)))


X = np.float32([[0, 1, 2, 3], [-np.inf] * 4, [4, 5, 6, 7]])


def exponentials_keep_nan():
    def exponentials(x):
        top = x.max(1, keepdims=True)
        return jnp.exp(jnp.where(top == -jnp.inf, top - top, x))

    return bool(np.isnan(jax.jit(exponentials)(X)[1]).all())


def bits_are_kept(dtype):
    bits = np.arange(2 ** (8 * np.dtype(dtype).itemsize)).astype(f"uint{8 * np.dtype(dtype).itemsize}")
    padded = np.asarray(jax.jit(lambda x: jnp.pad(x, 1))(bits.view(dtype)))
    return np.array_equal(padded.view(bits.dtype), np.pad(bits, 1))


def bits_beside_a_number_are_kept(join=lambda *arrays: jnp.concatenate(arrays)):
    x = np.arange(2**16, dtype=np.uint16).reshape(2**13, 8)
    joined = jax.jit(lambda x: join(x, jnp.ones((3, 8), x.dtype)))(x.view(jnp.bfloat16))
    return np.array_equal(np.asarray(joined).view(np.uint16)[:-3], x)


def sharded_convolutions_are_right(convolve=lambda x, w: lax.conv(x, w, (1, 1), "SAME")):
    """The rows of the pictures are sharded over one axis of a mesh, the output's channels over the other one."""
    mesh = jax.make_mesh((4, 2), ("a", "b"), axis_types=(AxisType.Auto,) * 2, devices=jax.devices("cpu"))
    x, w = np.ones((8, 4, 8, 8), np.float32), np.ones((4, 4, 3, 3), np.float32)
    convolve = jax.jit(convolve)
    put = [jax.device_put(one, NamedSharding(mesh, spec)) for one, spec in ((x, P(None, None, "b")), (w, P("a")))]
    return np.array_equal(convolve(*put), convolve(x, w))


BYTES = np.random.default_rng(1).integers(0, 256, (64, 512), np.uint8)


def sums_of_bytes_are_right(cast=lambda x: x.astype(jnp.float32), add=lambda x: x.sum(1)):
    """Of what wraps in 8 bits, or is read as a signed number, and is cast and added up in the same program."""
    as_signed = BYTES.view(np.int8)
    found = jax.jit(
        lambda x: [
            add(cast(one))
            for one in (x + x, x * x, x - np.uint8(9), x.astype(np.int8), -x.astype(np.int8), abs(x.astype(np.int8)))
        ]
    )(BYTES)
    with np.errstate(over="ignore"):
        wanted = [BYTES + BYTES, BYTES * BYTES, BYTES - np.uint8(9), as_signed, -as_signed, abs(as_signed)]
    return all(np.array_equal(x, y.astype(np.int64).sum(1)) for x, y in zip(found, wanted, strict=True))


def angles_are_right(arctan2=jnp.arctan2):
    """Of zeros that LLVM knows and XLA does not, and of subnormal numbers, which are zeros on a CPU."""

    def of_known(shift):
        zeros = lax.bitcast_convert_type(jnp.zeros_like(shift) >> shift, jnp.float32)
        return arctan2(zeros, zeros), arctan2(zeros, -zeros)

    found = np.array(jax.jit(of_known)(jnp.arange(8, dtype=jnp.uint32)))
    subnormal = np.asarray(jax.jit(arctan2)(*np.float32([[1e-40, -1e-40], [2e-40, 2e-40]])))
    return np.array_equal(found, np.float32([[0] * 8, [np.pi] * 8])) and not np.isnan(subnormal).any()


@dataclass(frozen=True)
class Fault:
    """`words` begin its row; `last` is the last minor release that has it, or None: all so far."""

    words: str
    is_right: Callable[[], bool]
    last: tuple[int, int] | None = None


EXCLUDED = (0, 0)  # no release that pyproject.toml allows has it


FAULTS = {
    "columns": Fault("A product of a 2x3 or 3x3 matrix and", columns_are_right, (0, 10)),
    "ones": Fault("A product with a second matrix that is one number everywhere", products_with_ones_are_right),
    "maximum": Fault("`jnp.max` and `jnp.min` of 4,096 floats and more", nan_is_the_maximum),
    "exponentials": Fault("`jnp.exp` of rows that `jnp.where` makes NaN", exponentials_keep_nan),
    "bits of bfloat16": Fault(
        "`jnp.pad`, `jnp.where` and `.at[].set` of bfloat16", partial(bits_are_kept, ml_dtypes.bfloat16), (0, 11)
    ),
    "bits of float8": Fault("The same of float8_e5m2", partial(bits_are_kept, ml_dtypes.float8_e5m2)),
    "bits beside a number": Fault(
        "`jnp.concatenate` of bfloat16 with an array that is one number", bits_beside_a_number_are_kept
    ),
    "int2": Fault(
        "`jnp.concatenate` of int2",
        partial(runs, "x = jnp.ones((2, 8), 'int2')\njax.jit(lambda x: jnp.concatenate([x, x], 1))(x)"),
    ),
    "float16": Fault(
        "On a CPU without the instructions F16C",
        partial(runs, "jax.jit(lambda x: x + 1)(jnp.ones(8, 'float16'))", XLA_FLAGS="--xla_cpu_max_isa=SSE4_2"),
    ),
    "sharded convolution": Fault(
        "On a mesh of two axes, a convolution of pictures whose rows", sharded_convolutions_are_right
    ),
    "bytes": Fault("Sums of float32 that were cast from arithmetic of 8-bit integers", sums_of_bytes_are_right),
    "angles": Fault("`jnp.arctan2` of two subnormal numbers of float32", angles_are_right),
    "chain": Fault(
        "Compiling a program in which more than 20,000 elementwise operations",
        partial(
            runs, "def f(x):\n  for _ in range(24_000): x = jax.lax.add(x, x)\n  return x\njax.jit(f)(jnp.ones(8))"
        ),
        (0, 10),
    ),
    "seven dimensions": Fault(
        "0.10.2, 0.11.0",
        partial(runs, "x = jnp.ones((3, 1, 2, 2, 8, 8, 8))\njax.jit(lambda a, b: (a * b).sum(3))(x, x)"),
        EXCLUDED,
    ),
}


@pytest.mark.skipif(not ON_A_CPU, reason="these are faults of XLA:CPU")
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_the_installed_release_has_no_fault_but_those_of_the_table(fault):
    if fault.is_right():
        return
    assert fault.last is None or fault.last >= RELEASE, f"jaxlib {jaxlib.version.__version__} has it too: {fault.words}"
    pytest.xfail(f"jaxlib {jaxlib.version.__version__} has this fault: {fault.words}")


def test_every_fault_is_a_row_of_the_page():
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    for fault in FAULTS.values():
        (row,) = (row for row in rows if row.startswith(f"| {fault.words}"))
        if fault.last not in (None, EXCLUDED):
            assert f"| up to {fault.last[0]}.{fault.last[1]} |" in row


def of_node(operator, *inputs, **attributes):
    """The output of one node of ONNX."""
    onnx = pytest.importorskip("dml_jax.onnx")
    make_node = pytest.importorskip("onnx.helper").make_node
    (output,) = onnx.run_node(make_node(operator, ["a", "b", "c"][: len(inputs)], ["y"], **attributes), inputs)
    return output


# What this library makes of the same products, in every order of operands that can end in the fused one.
PRODUCTS = {
    "gemm": lambda points: dml_jax.gemm(MATRIX, points, trans_b=True).sum(0),
    "gemm, reduced": lambda points: dml_jax.reduce(dml_jax.gemm(MATRIX, points, trans_b=True), "sum", [0])[0],
    "gemm, mapped": jax.vmap(lambda point: dml_jax.gemm(MATRIX, point[:, None]).sum()),
    "MatMul": lambda points: of_node("MatMul", MATRIX, points.T).sum(0),
    "MatMul, mapped": jax.vmap(lambda point: of_node("MatMul", MATRIX, point).sum()),
    "Einsum": lambda points: of_node("Einsum", MATRIX, points, equation="ij,nj->in").sum(0),
    "convolution": lambda points: dml_jax.convolution(
        points.reshape(1, 1, -1, 3).transpose(0, 3, 1, 2), MATRIX[:, :, None, None]
    ).sum(1)[0, 0],
    "rnn, mapped": jax.vmap(
        lambda point: dml_jax.rnn(
            point[None, None],
            MATRIX[None],
            np.zeros((1, 3, 3), np.float32),
            activations=[dml_jax.Activation("ACTIVATION_IDENTITY")],
        )[0].sum()
    ),
}


@pytest.mark.parametrize("sums", PRODUCTS.values(), ids=PRODUCTS)
def test_products_are_right_before_a_reduction(sums):
    np.testing.assert_array_equal(jax.jit(sums)(POINTS), SUMS)


def test_their_derivatives_are_right_before_a_reduction():
    def squares(point):
        return (dml_jax.gemm(MATRIX, point[:, None]) ** 2).sum()

    found = jax.jit(jax.vmap(lambda point: jax.grad(squares)(point).sum()))(POINTS)
    np.testing.assert_array_equal(found, (2 * POINTS @ MATRIX.T @ MATRIX).sum(1))


def layer(inputs, weights):
    """The outputs of a recurrent layer that multiplies its state by the same weights."""
    return dml_jax.rnn(inputs, weights[None], weights[None])[0]


# Products of two matrices that can be multiplied.
FACTORS = {
    "gemm": dml_jax.gemm,
    "gemm of a transpose": lambda a, b: dml_jax.gemm(a, b.T, trans_b=True),
    "gemm of both": lambda a, b: dml_jax.gemm(a.T, b.T, trans_a=True, trans_b=True),
    "batch": lambda a, b: dml_jax.gemm(jnp.stack([a, a]), jnp.stack([b, b])),
    "MatMul": partial(of_node, "MatMul"),
    "Einsum": partial(of_node, "Einsum", equation="ij,jk->ik"),
    "convolution": lambda a, b: dml_jax.convolution(a.reshape(2, 3, 50, 33), b.T[:, :, None, None]),
    "keys": lambda a, b: of_node("Attention", *(x[None, None] for x in (a, b.T, b.T))),
    "one step": lambda a, b: layer(a[None], b.T),
    "two steps": lambda a, b: layer(jnp.stack([a, a]), b.T),
}


@pytest.mark.parametrize("ones", [0, 1])
@pytest.mark.parametrize("of", [None, 0, 1], ids=["values", "first gradient", "second gradient"])
@pytest.mark.parametrize("multiply", FACTORS.values(), ids=FACTORS)
def test_products_with_one_number_are_right_before_a_reduction(multiply, of, ones):
    """Of the sums of its rows, in the same program and by NumPy."""

    def result(a, b):
        return multiply(a, b) if of is None else jax.grad(lambda *both: (multiply(*both) ** 2).sum(), of)(a, b)

    factors = POINTS[:3300], MATRIX
    found = jax.jit(lambda *given: result(*(jnp.ones_like(x) if i == ones else x for i, x in enumerate(given))).sum(-1))
    alone = jax.jit(result)(*(np.ones_like(x) if i == ones else x for i, x in enumerate(factors)))
    alone = np.asarray(alone, np.float64)
    np.testing.assert_allclose(found(*factors), alone.sum(-1), rtol=1e-3, atol=1e-4 * abs(alone).sum(-1).max())


def test_the_maximum_of_many_with_a_nan_is_nan():
    x = np.zeros(2**20, np.float32)
    x[5] = np.nan
    assert np.isnan(dml_jax.reduce(x, "max", [0])[0])


def test_the_exponential_of_a_log_softmax_of_nothing_is_nan():
    def weights(x):
        return jnp.exp(dml_jax.activate(x, dml_jax.Activation("ACTIVATION_LOG_SOFTMAX1", ((1,),))))

    np.testing.assert_array_equal(np.isnan(jax.jit(weights)(X)), [[False] * 4, [True] * 4, [False] * 4])


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e5m2])
def test_bits_are_kept_where_xla_changes_them(dtype):
    bits = np.arange(2 ** (8 * np.dtype(dtype).itemsize)).astype(f"uint{8 * np.dtype(dtype).itemsize}")
    padded = np.asarray(dml_jax.pad(bits.view(dtype), [1], [1]))
    np.testing.assert_array_equal(padded.view(bits.dtype), np.pad(bits, 1))


def test_convolutions_are_right_on_meshes_of_two_axes():
    assert sharded_convolutions_are_right(lambda x, w: dml_jax.convolution(x, w, start_padding=1, end_padding=1))


@pytest.mark.parametrize(
    "cast",
    [
        lambda x: dml_jax.cast(x, np.float32),
        lambda x: of_node("Cast", x, to=1),
        lambda x: of_node("DequantizeLinear", x, np.float32(1)),
    ],
    ids=["cast", "Cast", "DequantizeLinear"],
)
@pytest.mark.parametrize(
    "add",
    [
        lambda x: x.sum(1),
        lambda x: dml_jax.reduce(x, "sum", [1])[:, 0],
        lambda x: dml_jax.gemm(x, np.ones((512, 1), np.float32))[:, 0],
        lambda x: dml_jax.average_pooling(x[None, None], (1, 512), strides=(1, 512))[0, 0, :, 0] * 512,
    ],
    ids=["sum", "reduce", "gemm", "average_pooling"],
)
def test_sums_of_bytes_are_right(cast, add):
    assert sums_of_bytes_are_right(cast, add)


def test_angles_are_right():
    """In the four quadrants, too; a subnormal number is 0 there, or itself."""

    def arctan2(a, b):
        tensor = dml_jax.TensorDesc("FLOAT32", a.shape)
        return dml_jax.compile_operator(dml_jax.descs.ElementWiseAtanYxDesc(tensor, tensor, tensor))(a, b).reshape(-1)

    assert angles_are_right(arctan2)
    zeros = np.float32([[0, 0, -0.0, -0.0], [0, -0.0, 0, -0.0]])
    np.testing.assert_array_equal(np.signbit(arctan2(*zeros)), [False, False, True, True])
    np.testing.assert_allclose(np.abs(arctan2(*zeros)), [0, np.pi, 0, np.pi], rtol=1e-6)
