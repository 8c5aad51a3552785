"""Eight devices: an untouched dimension that is sharded costs no communication, on Auto and Explicit meshes."""

import re

import jax
import numpy as np
import pytest
from checks import assert_same_bits
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import dml_jax

RNG = np.random.default_rng(7)
X = RNG.standard_normal((8, 16, 24)).astype(np.float32)
GRID = RNG.integers(-16, 16, (8, 4, 24), dtype=np.int32)
UNIQUE = np.argsort(RNG.random((8, 16, 24)), axis=1).astype(np.int32)[:, :4]
IMAGE = RNG.standard_normal((8, 16, 32, 32)).astype(np.float32)
COLLECTIVE = re.compile(r"(all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter)\(")

# (function, arrays, the dimension of each that is sharded; None for one that every device has).
CASES = {
    "gather": (lambda x, i: dml_jax.gather(x, i, 1), (X, np.int32([3, -1])), (0, None)),
    "gather_elements": (lambda x, i: dml_jax.gather_elements(x, i, 1), (X, GRID), (0, 0)),
    "gather_elements fill": (lambda x, i: dml_jax.gather_elements(x, i, 1, mode="fill"), (X, GRID), (2, 2)),
    "gather_nd": (lambda x, i: dml_jax.gather_nd(x, i, batch_dims=1), (X, GRID[..., :1]), (0, 0)),
    "scatter_elements": (lambda x, i: dml_jax.scatter_elements(x, i, -x[:, :4], 1), (X, UNIQUE), (0, 0)),
    "depth_to_space N": (lambda x: dml_jax.depth_to_space(x, 2), (IMAGE,), (0,)),
    "depth_to_space H": (lambda x: dml_jax.depth_to_space(x, 2, order="CRD"), (IMAGE,), (2,)),
    "depth_to_space NHWC": (lambda x: dml_jax.depth_to_space(x, 2, data_format="NHWC"), (IMAGE,), (0,)),
    "space_to_depth N": (lambda x: dml_jax.space_to_depth(x, 2), (IMAGE,), (0,)),
    "space_to_depth H": (lambda x: dml_jax.space_to_depth(x, 2, order="CRD"), (IMAGE,), (2,)),
}


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=["auto", "explicit"])
@pytest.mark.parametrize(("function", "arrays", "dims"), CASES.values(), ids=CASES)
def test_untouched_dimensions_are_sharded_for_free(function, arrays, dims, kind):
    mesh = jax.make_mesh((8,), ("d",), axis_types=(kind,), devices=jax.devices("cpu"))
    with jax.set_mesh(mesh):
        specs = [P() if d is None else P(*[None] * d, "d") for d in dims]
        sharded = [jax.device_put(a, NamedSharding(mesh, s)) for a, s in zip(arrays, specs, strict=True)]
        compiled = jax.jit(function).lower(*sharded).compile()
        assert not COLLECTIVE.findall(compiled.as_text())
        result = compiled(*sharded)
        assert "d" in result.sharding.spec
    assert_same_bits(result, function(*arrays))
