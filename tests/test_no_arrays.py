"""Operators without array arguments: the device of the result, and JAX's transformations."""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from dml_jax import ConstraintError
from dml_jax.core.arguments.kinds import OutSharding
from dml_jax.core.arguments.operator import operator
from dml_jax.core.rules import at_least
from dml_jax.core.sharding import Dims

pytestmark = pytest.mark.device


@operator(at_least("count", 0), dims=lambda _: Dims({}, ["count"]))
def numbers(count: int, *, out_sharding: OutSharding = None) -> jax.Array:
    """0, 1, 2, ...: `count` of them."""
    return jnp.arange(count, dtype=jnp.int32)


WANTED = np.arange(8, dtype=np.int32)


def mesh_of(kind):
    return jax.make_mesh((2,), ("d",), devices=jax.devices("cpu")[:2], axis_types=(kind,))


def test_it_is_called_jitted_exported_and_constant_under_vmap():
    assert_same_bits(numbers(8), WANTED)
    assert_same_bits(jax.jit(lambda: numbers(8))(), WANTED)
    assert_same_bits(jax.export.export(jax.jit(lambda: numbers(8)))().call(), WANTED)
    assert_same_bits(jax.vmap(lambda x: x + numbers(8))(np.int32([0, 1])), np.stack([WANTED, WANTED + 1]))
    assert_same_bits(jax.vmap(lambda _: numbers(8), out_axes=None)(np.int32([0, 1])), WANTED)
    with pytest.raises(ConstraintError, match=r"^numbers: count must be at least 0, but it is -1"):
        numbers(-1)


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_every_device_of_the_mesh_that_is_set_has_it(kind):
    with jax.set_mesh(mesh_of(kind)):
        for made in (numbers(8), jax.jit(lambda: numbers(8))()):
            assert made.sharding.is_fully_replicated
            assert made.sharding.num_devices == 2
            assert_same_bits(made, WANTED)


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_it_is_sharded_as_asked(kind):
    mesh = mesh_of(kind)
    with jax.set_mesh(mesh):
        for asked in (P("d"), NamedSharding(mesh, P("d"))):
            for made in (numbers(8, out_sharding=asked), jax.jit(lambda a=asked: numbers(8, out_sharding=a))()):
                assert made.sharding.is_equivalent_to(NamedSharding(mesh, P("d")), 1)
                assert_same_bits(made, WANTED)
        with pytest.raises(ConstraintError, match="dimension 0 of the output has size 7, and 'd' has 2 devices"):
            numbers(7, out_sharding=P("d"))


def test_a_sharding_without_its_mesh_set():
    assert numbers(8, out_sharding=NamedSharding(mesh_of(AxisType.Auto), P("d"))).sharding.spec == P("d")
    with pytest.raises(ConstraintError, match="no operand is on its Explicit mesh: put them there, or call under"):
        numbers(8, out_sharding=NamedSharding(mesh_of(AxisType.Explicit), P("d")))
    with pytest.raises(ConstraintError, match="there is no mesh: pass a NamedSharding, or call under"):
        numbers(8, out_sharding=P("d"))
