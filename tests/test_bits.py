"""Every data type arrives bit for bit: NaN payloads, signed zeros, subnormals and every integer."""

import platform
import subprocess
import sys
from functools import partial
from itertools import islice

import jax
import jax.numpy as jnp
import matrix_moves
import ml_dtypes
import numpy as np
import pytest
from batch_jobs import environment
from checks import assert_same_bits, sampled, spread, together
from matrix_moves import FILLING, MOVES, WAYS, can_follow, every_number, wrong
from small_arrays import random_keys

import dml_jax

pytestmark = pytest.mark.device

DIRECTML = ["float32", "float16", "uint32", "uint16", "uint8", "int32", "int16", "int8", "float64", "uint64", "int64"]
FLOAT8 = [name for name in dir(ml_dtypes) if name.startswith("float8_")]
OTHERS = ["bool", "complex64", "complex128", "bfloat16", *FLOAT8]
SAMPLE = ["bool", "uint8", "float8_e5m2", "float16", "bfloat16", "float32", "int64", "complex64"]  # each size and kind
COUNT = 1 << 16


def type_named(name):
    """A type, and a context in which JAX has it."""
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    return dtype, jax.enable_x64(dtype.itemsize >= 8 and name != "complex64")


def moves(x):
    """(what to call, its arrays, what NumPy makes of them) for every operator."""
    order = np.random.default_rng(6).permutation(COUNT).astype(np.int32)
    shuffled, square, rows = x[order], x.reshape(256, 256), order[:256] % 256
    for mode in ("clip", "fill", "promise_in_bounds"):
        how = {"mode": mode, "fill_value": 1 if mode == "fill" else None}
        yield partial(dml_jax.gather, axis=0, **how), (x, order), shuffled
        yield partial(dml_jax.gather_elements, axis=0, **how), (x, order), shuffled
        yield partial(dml_jax.gather_nd, **how), (x, order[:, None]), shuffled
        yield partial(dml_jax.gather, axis=0, **how), (square, rows), square[rows]
    blank = np.roll(x, 1)
    half, kept = order[: COUNT // 2], blank.copy()
    kept[half] = x[half]
    for mode in ("drop", "clip", "promise_in_bounds"):
        yield partial(dml_jax.scatter_elements, axis=0, mode=mode), (blank, half, x[half]), kept
        yield partial(dml_jax.scatter_nd, mode=mode), (blank, half[:, None], x[half]), kept
    depth = x.reshape(1, 4, 2, 2, 64, 64)
    for name, axes in (("CRD", (0, 1, 4, 2, 5, 3)), ("DCR", (0, 3, 4, 1, 5, 2))):
        shape = (1, 4, 2, 2, 64, 64) if name == "CRD" else (1, 2, 2, 4, 64, 64)
        space = depth.reshape(shape).transpose(axes).reshape(1, 4, 128, 128)
        depths = x.reshape(1, 16, 64, 64)
        yield partial(dml_jax.depth_to_space, block_size=2, order=name), (depths,), space
        yield partial(dml_jax.space_to_depth, block_size=2, order=name), (space,), depths


@pytest.mark.thinned(12)
@pytest.mark.parametrize("name", sampled(DIRECTML + OTHERS, SAMPLE))
def test_every_operator_moves_bits(name):
    """Called one by one, and all in one program, where XLA fuses more."""
    dtype, has_type = type_named(name)
    with has_type:
        calls = list(moves(every_number(dtype).ravel()))
        results = together([(function, *arrays) for function, arrays, _ in calls])
        for result, (function, arrays, expected) in zip(results, calls, strict=True):
            assert_same_bits(result, expected)
            if function.keywords.get("mode") in (None, "clip", "drop"):
                assert_same_bits(function(*arrays), expected)


# The moves of every operator.


# Each runs a quarter of the moves by default: four types of a byte run all of them, and four of other kinds again.
OFTEN = ["float8_e5m2", "float8_e4m3fnuz", "float8_e4m3fn", "float8_e3m4", "float32", "complex64", "bool", "int64"]


AS_INTEGERS = [name for name in DIRECTML + OTHERS if name != "complex128"]  # as wide as no integer


@pytest.mark.parametrize("way", sampled(["argument", "constant"], ["argument"]))
@pytest.mark.parametrize(("name", "part"), spread([*AS_INTEGERS, "int4"], [*OFTEN, "int4", "float8_e8m0fnu"], 4))
def test_each_move_of_every_type(name, part, way):
    """NaN payloads, subnormals and -0.0, alone and where the same move follows in the program: XLA fuses them."""
    dtype, has_type = type_named(name)
    moves = [move for move in MOVES if move not in FILLING or name != "float8_e8m0fnu"][part]  # which has no zero
    with has_type:
        assert wrong([chain for move in moves for chain in ([move], [move] * 2) if can_follow(chain)], dtype, way) == {}


# All numbers of 16 bits, whose NaNs a detour through float32 would change.


@pytest.mark.parametrize("dtype", sampled(["bfloat16", "float16"], ["bfloat16"]))
@pytest.mark.parametrize(("way", "part"), spread(WAYS, WAYS, 3))
def test_each_move(dtype, way, part):
    assert wrong([[name] for name in [*MOVES][part]], jnp.dtype(dtype), way) == {}


@pytest.mark.parametrize("way", ["argument", "constant"])
@pytest.mark.parametrize("first", sampled(MOVES, []))
def test_each_move_after_another(first, way):
    """In one program: XLA fuses them."""
    assert wrong([[first, name] for name in MOVES], jnp.bfloat16, way, at_once=8) == {}


@pytest.mark.parametrize("seed", sampled(range(60), [0]))
def test_three_moves(seed):
    chains = filter(can_follow, np.random.default_rng(seed).choice([*MOVES], (40, 3)).tolist())
    assert wrong([*islice(chains, 4)], jnp.bfloat16, "argument") == {}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the other instructions are those of x86-64")
@pytest.mark.parametrize("devices", sampled([1, 4, 8], [4]))
def test_moves_with_fewer_instructions(devices, exhaustive):
    """On CPUs of AVX2 alone, with as many devices as XLA divides loops among."""
    names = MOVES if exhaustive else ["as_strided overlapping", "fill_diagonals", "gather columns", "pad", "unfold"]
    command = [sys.executable, matrix_moves.__file__, str(devices), *names]
    flags = {"XLA_FLAGS": "--xla_cpu_max_isa=AVX2"}
    run = subprocess.run(command, env={**environment(), **flags}, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def beside_one_number(x, number):
    """(function of x, what NumPy makes of it) for moves of x and of an array that is one number everywhere."""
    like = partial(np.full, fill_value=number, dtype=x.dtype)
    some, mask = np.arange(0, len(x), 2, dtype=np.int32), np.arange(x.size).reshape(x.shape) % 3 > 0
    back = np.arange(len(x), dtype=np.int32)[::-1]
    for axis in range(x.ndim):
        border = like([3 if d == axis else n for d, n in enumerate(x.shape)])
        yield lambda x, border=border, axis=axis: dml_jax.join([border, x], axis), np.concatenate([border, x], axis)
        made = lambda border=border: jnp.full(border.shape, number, border.dtype)  # noqa: E731
        yield lambda x, made=made, axis=axis: dml_jax.join([x, made()], axis), np.concatenate([x, border], axis)
    rows = x.copy()
    rows[::2] = like(x[::2].shape)
    yield lambda x: dml_jax.scatter_nd(x, some[:, None], like(x[::2].shape)), rows
    yield lambda x: dml_jax.scatter_nd(like(x.shape), back[:, None], x), x[::-1]
    yield lambda x: dml_jax.select(mask, x, like(x.shape)), np.where(mask, x, like(x.shape))
    around = [(1, 2)] * x.ndim
    yield (
        lambda x: dml_jax.pad(x, (1,) * x.ndim, (2,) * x.ndim, value=number),
        np.pad(x, around, constant_values=like(())),
    )


@pytest.mark.parametrize("dtype", sampled(["bfloat16", "float16"], ["bfloat16"]))
@pytest.mark.parametrize("number", sampled([0, 1, -2.5], [1]))
@pytest.mark.parametrize("shape", sampled([(2**16,), (256, 256), (2**13, 8), (2, 2**12, 8)], [(2**13, 8)]), ids=str)
def test_beside_one_number(shape, number, dtype):
    """LLVM chooses between an element and a number that it knows as floats."""
    x = np.arange(2**16, dtype=np.uint16).view(jnp.dtype(dtype)).reshape(shape)
    for function, expected in beside_one_number(x, number):
        assert_same_bits(jax.jit(function)(x), expected)


# Less than a byte.


@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2"])
def test_four_and_two_bit_integers(name):
    dtype = np.dtype(getattr(ml_dtypes, name))
    x = np.arange(4).astype(dtype)
    back = np.int32([3, 2, 1, 0])
    assert_same_bits(dml_jax.gather(x, back, 0), x[::-1])
    assert_same_bits(dml_jax.gather_elements(x, back, 0, mode="fill"), x[::-1])
    assert_same_bits(dml_jax.scatter_nd(x, back[:, None], x), x[::-1])


@pytest.mark.thinned(4)
@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2"])
@pytest.mark.parametrize("size", [3, 300])
def test_four_and_two_bit_integers_beside_each_other(name, size):
    """XLA:CPU ends the process where it concatenates integers of two bits; of large arrays other forms do so."""
    x = (np.arange(size * size) % 4).reshape(size, size).astype(getattr(ml_dtypes, name))
    assert_same_bits(dml_jax.join([x, x[:2]], 0), np.concatenate([x, x[:2]], 0))
    assert_same_bits(dml_jax.join([x, x[:, :2]], 1), np.concatenate([x, x[:, :2]], 1))
    assert_same_bits(dml_jax.tile(x, (2, 3)), np.tile(x, (2, 3)))
    for mode, of_numpy in {"edge": "edge", "wrap": "wrap", "reflection": "reflect", "symmetric": "symmetric"}.items():
        padded = dml_jax.pad(x, (1, 2), (2, 0), mode=mode)
        assert_same_bits(padded, np.pad(x, ((1, 2), (2, 0)), mode=of_numpy))
    assert_same_bits(dml_jax.pad(x, (1, 2), (2, 0), value=1), np.pad(x, ((1, 2), (2, 0)), constant_values=1))


# Keys, which hold no number.

# What operators make of four keys, and of the numbers of the keys, 0 to 3.
OF_KEYS = {
    "gather": (lambda keys: dml_jax.gather(keys, np.int32([2]), 0), [2]),
    "identity": (dml_jax.identity, [0, 1, 2, 3]),
    "join": (lambda keys: dml_jax.join([keys[2:], keys[:1]], 0), [2, 3, 0]),
    "one_hot": (lambda keys: dml_jax.one_hot(np.int32([[1], [7]]), keys[:2], 2, 1), [[0, 1], [0, 0]]),
    "pad": (lambda keys: dml_jax.pad(keys, (2,), (1,), mode="symmetric"), [1, 0, 0, 1, 2, 3, 3]),
    "resample": (lambda keys: dml_jax.resample(keys, (6,), (1.5,)), [0, 1, 1, 2, 3, 3]),
    "reverse_subsequences": (lambda keys: dml_jax.reverse_subsequences(keys, np.int32([3]), 0), [2, 1, 0, 3]),
    "select": (lambda keys: dml_jax.select(np.array([True, False]), keys[:2], keys[2:]), [0, 3]),
    "slice": (lambda keys: dml_jax.slice(keys, (1,), (3,), (-2,)), [3, 1]),
    "split": (lambda keys: dml_jax.split(keys, (1, 3), 0)[1], [1, 2, 3]),
    "tile": (lambda keys: dml_jax.tile(keys, (2,)), [0, 1, 2, 3, 0, 1, 2, 3]),
    "upsample_2d": (lambda keys: dml_jax.upsample_2d(keys[None], (1, 2)), [[0, 0, 1, 1, 2, 2, 3, 3]]),
}


@pytest.mark.parametrize(("move", "expected"), OF_KEYS.values(), ids=OF_KEYS)
def test_random_keys(move, expected):
    keys = random_keys(4)
    assert_same_bits(jax.random.key_data(move(keys)), np.asarray(jax.random.key_data(keys))[np.array(expected)])
