"""Small arrays, enough of them to tell every known mistake apart."""

import itertools

import jax
import ml_dtypes
import numpy as np
import pytest
from checks import sampled
from jax.sharding import AxisType, NamedSharding, PartitionSpec

SHAPES = [shape for rank in (1, 2, 3) for shape in itertools.product((1, 2, 3), repeat=rank)]
# Where sizes of 1, sizes that differ, and every position of the largest one occur.
FEW = [(1,), (3,), (2, 3), (1, 3, 2), (3, 2, 2)]
every_small_shape = pytest.mark.parametrize(
    "shapes", [pytest.param(FEW, id="few"), pytest.param(SHAPES, id="all", marks=pytest.mark.exhaustive)]
)


def numbered(shape, dtype=np.float32):
    """1, 2, 3, ...: every element is different, none is 0."""
    return np.arange(1, 1 + np.prod(shape, dtype=int), dtype=dtype).reshape(shape)


def indices_around(rng, size, shape, dtype=np.int32):
    """Indices in range, negative, and just out of range on both sides."""
    return rng.integers(-size - 2, size + 2, shape).astype(dtype)


def tuples_around(rng, sizes, shape, dtype=np.int32):
    """Index tuples, a column for each of the sizes."""
    return np.stack([indices_around(rng, n, shape, dtype) for n in sizes], axis=-1)


# Index types, and the values that overflow, wrap or truncate in a careless implementation.

INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
SIX = np.arange(10, 16, dtype=np.float32)


def telling_indices(dtype):
    """In range of six elements, just out of range, and far out of it."""
    limits = np.iinfo(dtype)
    values = {0, 1, 5, 6, 7, -1, -6, -7, limits.min, limits.max, limits.max - 1}
    values |= {2**7, 2**8, 2**15, 2**16, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 2, 2**32, 2**32 + 1, 2**63, -(2**32) + 1}
    return np.array(sorted(v for v in values if limits.min <= v <= limits.max), dtype)


# Types whose bits careless implementations change: they compute with wider floats.

NARROW = ["bfloat16", *(name for name in dir(ml_dtypes) if name.startswith("float8_"))]
# By default beside bfloat16 one with infinities, one whose NaN has the bits of -0.0, and one without signs and zeros.
NARROW_SAMPLE = {"bfloat16", "float8_e5m2", "float8_e4m3fnuz", "float8_e8m0fnu"}


def narrow_floats(*without):
    """Parameters: those in the sample always run, the others with --exhaustive only."""
    types = {name: np.dtype(getattr(ml_dtypes, name)) for name in NARROW if name not in without}
    return sampled([*types.values()], [of for name, of in types.items() if name in NARROW_SAMPLE])


every_narrow_float = pytest.mark.parametrize("dtype", narrow_floats(), ids=str)

OTHER_TYPES = ["bool", "complex64", "float32", "float16", "int4"]


def every_other_type(test):
    return pytest.mark.thinned(2)(pytest.mark.parametrize("name", OTHER_TYPES)(test))


def telling_bits(name):
    """3 x 4 elements: any bits, and -0.0, NaN, infinity and a subnormal number if there are such."""
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    if name in ("bool", "int4"):
        return np.arange(12).reshape(3, 4).astype(dtype)
    x = np.random.default_rng(1).integers(0, 256, (3, 4 * dtype.itemsize), dtype=np.uint8).view(dtype)
    x[0] = np.array([-0.0, np.nan, np.inf, 1e-45]).astype(dtype)
    return x


# Keys.


def random_keys(*shape):
    """Keys that differ, made without the compilation that jax.random.split needs."""
    return jax.random.wrap_key_data(numbered((*shape, 2), np.uint32))


# Meshes.


def on_explicit_mesh(array, *spec):
    """The array on an Explicit mesh of two devices, ("d",), its dimensions sharded so."""
    mesh = jax.make_mesh((2,), ("d",), devices=jax.devices("cpu")[:2], axis_types=(AxisType.Explicit,))
    return jax.device_put(array, NamedSharding(mesh, PartitionSpec(*spec)))
