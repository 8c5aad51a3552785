"""Sections "On a mesh" of the operators' pages: dimensions that keep their sharding, or need `out_sharding`."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import dml_jax
from dml_jax import Activation

FLOAT, INT = jnp.float32, jnp.int32

# By operator: a call, its operands, and of each operand the dimensions that keep their sharding; None where JAX 0.12
# infers more than older releases.
KEPT = {
    "activate": (lambda x: dml_jax.activate(x, Activation("ACTIVATION_SOFTMAX")), [(4, 4)], [{0, 1}]),
    "cast": (lambda x: dml_jax.cast(x, "int32"), [(4, 4)], [{0, 1}]),
    "clip": (lambda x: dml_jax.clip(x, 0, 1), [(4, 4)], [{0, 1}]),
    "cumulative_product": (lambda x: dml_jax.cumulative_product(x, 1), [(4, 4)], [{0}]),
    "cumulative_summation": (lambda x: dml_jax.cumulative_summation(x, 1), [(4, 4)], [{0}]),
    "fill_diagonals": (lambda x: dml_jax.fill_diagonals(x, begin=0, end=1, value=0), [(4, 4)], [{0, 1}]),
    "fold": (lambda x: dml_jax.fold(x, (4, 4), (2, 2), strides=(2, 2)), [(2, 16, 4)], [{0, 1}]),
    "grid_sample": (dml_jax.grid_sample, [(2, 2, 4, 4), (2, 4, 4, 2)], [{0, 1}, {0, 1, 2}]),
    "identity": (dml_jax.identity, [(4, 4)], [{0, 1}]),
    "join": (lambda x, y: dml_jax.join([x, y], axis=1), [(4, 4), (4, 4)], [{0}, {0}]),
    "max_unpooling": (
        lambda x, i: dml_jax.max_unpooling(x, i, (2, 2, 4, 4)),
        [(2, 2, 2, 2), ((2, 2, 2, 2), INT)],
        [set(), set()],
    ),
    "nonzero_coordinates": (dml_jax.nonzero_coordinates, [(4, 4)], [set()]),
    "one_hot": (lambda i, v: dml_jax.one_hot(i, v, 4, 1), [((4, 1), INT), (2,)], [{0}, None]),
    "pad": (lambda x: dml_jax.pad(x, (0, 1), (0, 1)), [(4, 4)], [{0, 1}]),
    "pad unevenly": (lambda x: dml_jax.pad(x, (0, 1), (0, 0)), [(4, 4)], [{0}]),
    "resample": (lambda x: dml_jax.resample(x, (4, 8, 8), (1, 2, 2)), [(4, 4, 4)], [{0, 1, 2}]),
    "resample linear": (lambda x: dml_jax.resample(x, (4, 8), (1, 2), mode="linear"), [(4, 4)], [{0}]),
    "resample cubic": (lambda x: dml_jax.resample(x, (4, 8), mode="cubic"), [(4, 4)], [{0}]),
    "resample antialiased": (
        lambda x: dml_jax.resample(x, (4, 2), mode="linear", antialias=True),
        [(4, 40)],
        [{0}],
    ),
    "reverse_subsequences": (
        lambda x, n: dml_jax.reverse_subsequences(x, n, 1),
        [(4, 4), ((4, 1), INT)],
        [{0}, {0}],
    ),
    "select": (dml_jax.select, [((4, 4), bool), (4, 4), (4, 4)], [{0, 1}] * 3),
    "slice reversed": (lambda x: dml_jax.slice(x, (0, 0), (4, 4), (1, -1)), [(4, 4)], [{0, 1}]),
    "slice": (lambda x: dml_jax.slice(x, (0, 1), (4, 2), (1, 1)), [(4, 4)], [{0, 1}]),
    "slice_grad": (lambda x: dml_jax.slice_grad(x, (4, 8), (0, 1), (4, 4), (1, 1)), [(4, 4)], [{0, 1}]),
    "split": (lambda x: dml_jax.split(x, (2, 2), axis=1), [(4, 4)], [{0, 1}]),
    "tile": (lambda x: dml_jax.tile(x, (1, 2)), [(4, 4)], [{0}]),
    "top_k": (lambda x: dml_jax.top_k(x, 1, 2), [(4, 4)], [{0}]),
    "unfold": (lambda x: dml_jax.unfold(x, (2, 2)), [(2, 4, 4, 4)], [{0, 1}]),
    "upsample_2d": (lambda x: dml_jax.upsample_2d(x, (2, 2)), [(2, 2, 4, 4)], [{0, 1, 2, 3}]),
    "upsample_2d linear": (lambda x: dml_jax.upsample_2d(x, (2, 2), mode="linear"), [(2, 2, 4, 4)], [{0, 1}]),
    "value_scale_2d": (lambda x: dml_jax.value_scale_2d(x, 2.0, (1.0, 2.0)), [(2, 2, 4, 4)], [{0, 1, 2, 3}]),
}


@pytest.mark.parametrize("name", KEPT)
def test_the_dimensions_that_keep_their_sharding_are_those_of_the_page(name):
    """One dimension after another is sharded; nothing runs."""
    call, operands, kept = KEPT[name]
    mesh = jax.make_mesh((2,), ("d",), axis_types=(AxisType.Explicit,), devices=jax.devices("cpu")[:2])
    with jax.set_mesh(mesh):
        for i, (shape, _) in enumerate(map(described, operands)):
            for dim in range(len(shape)):
                if shape[dim] % 2 == 0 and kept[i] is not None:
                    given = [array(mesh, one, dim if i == j else None) for j, one in enumerate(operands)]
                    assert keeps(call, given) == (dim in kept[i]), (i, dim)


def described(operand):
    """The shape and the type of an operand."""
    return operand if isinstance(operand[0], tuple) else (operand, FLOAT)


def array(mesh, operand, dim):
    """An operand that is sharded along one dimension, or that every device has whole."""
    shape, dtype = described(operand)
    spec = [None] * len(shape) if dim is None else ["d" if d == dim else None for d in range(len(shape))]
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, PartitionSpec(*spec)))


def keeps(call, operands):
    """Whether the output is sharded then; if not, `out_sharding` is asked for."""
    try:
        results = jax.tree.leaves(jax.eval_shape(call, *operands))
    except dml_jax.ConstraintError as error:
        if "out_sharding must say it" in str(error):
            return False
        raise
    assert all("d" in result.sharding.spec for result in results)
    return True
