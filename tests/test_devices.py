"""A form is chosen by the devices of the program, not of the host; and JAX still has the names that tell them."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from dml_jax.operations.programs.primitive import by_target


def times_devices(x):
    """An array times the number of devices that the function is told."""
    return by_target(lambda target: lambda _, x: x * target.devices, lambda _, x: x)(None, x)


def mesh_of(shape, kind=AxisType.Auto):
    names = ("a", "b")[: len(shape)]
    return jax.make_mesh(shape, names, axis_types=(kind,) * len(shape), devices=jax.devices("cpu")[: np.prod(shape)])


ONES = np.ones((8, 4), np.float32)


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap, lambda f: jax.vmap(jax.vmap(f))], ids=["jit", "vmap", "two"])
def test_an_array_on_one_of_eight_devices_is_on_one(transform):
    assert len(jax.devices("cpu")) == 8
    assert_same_bits(transform(times_devices)(ONES), ONES)


def test_without_jit_the_arrays_tell():
    sharded = jax.device_put(ONES, NamedSharding(mesh_of((8,)), P("a")))
    with jax.disable_jit():
        assert_same_bits(times_devices(jnp.asarray(ONES)), ONES)
        assert_same_bits(times_devices(sharded), 8 * ONES)


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("spec", [P(), P("a")])
def test_an_array_on_a_mesh_is_on_all_of_it(kind, spec):
    mesh = mesh_of((8,), kind)
    with jax.set_mesh(mesh):
        x = jax.device_put(ONES, NamedSharding(mesh, spec))
        assert_same_bits(jax.jit(times_devices)(x), 8 * ONES)
        assert_same_bits(jax.jit(lambda x: jax.vmap(times_devices)(x))(x), 8 * ONES)


def test_inside_of_a_shard_map_every_device_is_alone():
    mesh = mesh_of((4, 2))
    alone = jax.shard_map(times_devices, mesh=mesh, in_specs=P(("a", "b")), out_specs=P(("a", "b")))
    assert_same_bits(jax.jit(alone)(ONES), ONES)
    pairs = jax.shard_map(times_devices, mesh=mesh, in_specs=P("a"), out_specs=P("a"), axis_names={"a"})
    assert_same_bits(jax.jit(pairs)(ONES), 2 * ONES)
    sharded = jax.device_put(ONES, NamedSharding(mesh, P()))
    both = jax.jit(lambda x: (alone(x), times_devices(x), alone(x)))(sharded)  # each for itself, in one program
    for found, expected in zip(both, (ONES, 8 * ONES, ONES), strict=True):
        assert_same_bits(found, expected)


def test_an_export_is_for_one_device():
    exported = jax.export.export(jax.jit(times_devices), platforms=["cpu", "cuda", "tpu"])(ONES)
    assert_same_bits(exported.call(ONES), ONES)


EXPORTED = """
import hashlib, jax, jax.numpy as jnp, numpy as np, dml_jax
from functools import partial
x, rows, ids = np.zeros((2, 16, 64, 64), np.uint8), np.zeros((4096, 1024), jnp.bfloat16), np.zeros(16384, np.int32)
table = np.zeros((131072, 512), jnp.bfloat16)
square = np.zeros((16384, 2048), np.float16), np.zeros((16384, 2048), np.int32)
calls = {
    "space_to_depth": (partial(dml_jax.space_to_depth, block_size=2), x),
    "depth_to_space": (partial(dml_jax.depth_to_space, block_size=4, order="CRD"), x),
    "gather": (partial(dml_jax.gather, axis=0), rows, ids),
    "gather_elements": (partial(dml_jax.gather_elements, axis=0), *square),
    "scatter_nd": (dml_jax.scatter_nd, rows, ids[:100, None], rows[:100]),
    "as_strided": (partial(dml_jax.as_strided, sizes=(2000, 64), strides=(68, 1)), np.zeros(136000, np.uint8)),
    "gradient": (jax.grad(lambda t, i: dml_jax.gather(t, i, 0).astype(jnp.float32).sum()), table, ids),
}
print(jax.device_count("cpu"))
for name, (function, *arrays) in calls.items():
    module = jax.export.export(jax.jit(function), platforms=["cuda"])(*arrays).mlir_module()
    plain = None
    with dml_jax.use_form("plain"):
        plain = jax.export.export(jax.jit(lambda *x: function(*x)), platforms=["cuda"])(*arrays).mlir_module()
    text = "".join(line for line in module.splitlines(True) if "#loc" not in line)
    print(name, hashlib.sha256(text.encode()).hexdigest(), module.count("stablehlo.") != plain.count("stablehlo."))
"""


def test_cuda_programs_do_not_depend_on_the_devices_of_the_host(capsys):
    """Every operator with a form of its own, exported where JAX sees one device, and here, where it sees eight."""
    run = [sys.executable, "-c", f"import jax; jax.config.update('jax_num_cpu_devices', 1)\n{EXPORTED}"]
    alone = subprocess.run(run, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1])
    exec(EXPORTED, {})
    printed = {}
    for output in (alone.stdout, capsys.readouterr().out):
        devices, *printed[devices] = output.splitlines()
    assert printed["1"] == printed["8"]
    assert len(printed["1"]) == 7
    for line in printed["1"]:
        assert line.endswith("True"), f"{line}: the program has no form but the plain one"


def test_the_names_of_jax_that_serve_here_are_there():
    """Where none of jax's own namespace serves: a primitive that is told where it is lowered, and one to check with."""
    from jax.core import ShapedArray
    from jax.extend.core import Primitive, jaxpr_as_fun
    from jax.interpreters import ad, batching, mlir

    names = (mlir.LoweringRuleContext, mlir.SPMDAxisContext, mlir.ShardingContext, mlir.lower_fun, jaxpr_as_fun)
    assert all(map(callable, (*names, mlir.register_lowering, Primitive, ShapedArray)))
    assert all(map(callable, (ad.Zero, ad.instantiate_zeros, ad.is_undefined_primal, ad.zeros_like_aval)))
    assert all(isinstance(rules, dict) for rules in (ad.primitive_jvps, ad.primitive_transposes))
    assert hasattr(batching.primitive_batchers, "__setitem__")
    assert {field.name for field in dataclasses.fields(mlir.SPMDAxisContext)} >= {"mesh", "manual_axes"}
    assert "num_devices" in {field.name for field in dataclasses.fields(mlir.ShardingContext)}
