"""Batches on one device and on several: same bits, one copy of shared operands, and the number of devices."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from batch_jobs import blocks, blocks_oracle, environment, random_rows, saved
from checks import assert_same_bits, sampled
from commands import batch
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from dml_jax.batch import map_batches
from dml_jax.batch.batch_program import replicated
from dml_jax.command.batch_options import batch_operators

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def script(text, *arguments, **variables):
    """What a process prints that has devices of its own."""
    line = [sys.executable, "-c", text, *map(str, arguments)]
    variables = {**environment(), **variables}
    variables["PYTHONPATH"] += os.pathsep + os.path.dirname(__file__)
    done = subprocess.run(line, env=variables, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# How many devices there are.

# Runs the operators' own calls on eleven items, and keeps what they make: DEVICES FOLDER OPERATOR...
JOBS = """
import sys
from importlib import import_module
import jax
jax.config.update("jax_num_cpu_devices", int(sys.argv[1]))
import numpy as np
from dml_jax.batch import map_batches
assert len(jax.local_devices()) == int(sys.argv[1])
for name in sys.argv[3:]:
    call = import_module(f"operators.test_{name}").CASE
    rows = tuple(np.stack([np.roll(a, i, -1) if a.ndim else a for i in range(11)]) for a in call.leaves)
    with jax.enable_x64(True):
        map_batches(jax.vmap(call), rows, f"{sys.argv[2]}/{name}.npy", batch_size=7)
"""


@pytest.mark.exhaustive
def test_any_number_of_devices_writes_the_same_bits(tmp_path):
    """test_batch_command.py compares them with one call per item."""
    names, written = [*batch_operators()], []
    for count in (1, 2, 3):
        folder = tmp_path / str(count)
        folder.mkdir()
        script(JOBS, count, folder, *names)
        written.append({name: (folder / f"{name}.npy").read_bytes() for name in names})
    for name in names:
        assert written[0][name] == written[1][name] == written[2][name], name


# What the option, or the environment, makes JAX do, before it does anything: each line of TOLD.
ASKED = """
import os
import jax
from dml_jax.command.devices import arrange_cpu_devices
def told(count, **environment):
    jax.config.update("jax_num_cpu_devices", int(environment.pop("JAX_NUM_CPU_DEVICES", -1)))  # as JAX reads it
    os.environ["XLA_FLAGS"] = environment.pop("XLA_FLAGS", "")
    arrange_cpu_devices(count)
    print(jax.config.jax_num_cpu_devices)
forced = "--xla_cpu_enable_fast_math=false --xla_force_host_platform_device_count=5"
told(None)
told(None, XLA_FLAGS="--xla_cpu_enable_fast_math=false")
told(None, JAX_NUM_CPU_DEVICES="5")
told(None, XLA_FLAGS=forced)
told(3)
told(3, JAX_NUM_CPU_DEVICES="5")
told(3, XLA_FLAGS=forced)
print(len(jax.local_devices()))
"""


def test_the_option_counts_then_the_environment_then_the_cores():
    unsaid, unsaid_too, by_jax, by_xla, *by_option = map(int, script(ASKED).split())
    assert (unsaid, unsaid_too) == (CORES, CORES)
    assert (by_jax, by_xla) == (5, -1)  # -1: JAX leaves it to XLA
    assert by_option == [3, 3, 3, 3]


# The command, and how many devices it had.
COMMAND = """
import sys
from dml_jax.__main__ import main
main()
import jax
print(len(jax.local_devices()))
"""


@pytest.mark.parametrize("count", sampled([1, CORES, 3], [3]))
def test_the_command_makes_the_devices_and_writes_the_same_bits(tmp_path, count):
    array, out, arguments = random_rows(11), tmp_path / "out.npy", [] if count == CORES else ["--cpu-devices", count]
    path = saved(tmp_path / "in.npy", array)
    given = ["batch", "depth_to_space", path, out, "--block-size", 2, "--batch-size", 7, *arguments]
    variables = {"JAX_NUM_CPU_DEVICES": "-1", "XLA_FLAGS": ""}
    assert script(COMMAND, *given, **variables).splitlines()[1:] == [str(count)]
    assert_same_bits(np.load(out), blocks_oracle(array))


@pytest.mark.parametrize(
    ("count", "message"),
    [(0, "0 is not in the range 1<=x<=4096"), ("many", "'many' is not a valid integer"), (3, "uses 8 already; start")],
)
def test_a_number_that_cannot_be_is_refused(tmp_path, count, message):
    """The last one because JAX runs already, in this process."""
    assert len(jax.devices("cpu")) == 8
    path = saved(tmp_path / "in.npy", random_rows(2))
    told = batch("depth_to_space", path, tmp_path / "out.npy", "--block-size", 2, "--cpu-devices", count)
    assert told.exit_code == 2
    assert message in " ".join(told.stderr.split())
    assert not (tmp_path / "out.npy").exists()


USED = """
import jax
from dml_jax.command.devices import arrange_cpu_devices
used = len(jax.devices("cpu"))
arrange_cpu_devices(used)
print(used)
"""


def test_the_number_that_a_process_has_is_accepted():
    assert script(USED).split() == ["1"]


# What they do.


@pytest.mark.parametrize(("rows", "options", "parts"), [(3, {}, 3), (37, {"batch_size": 5}, 5), (37, {}, 8)])
def test_no_more_cpu_devices_work_than_a_batch_has_rows(tmp_path, rows, options, parts):
    array, seen = random_rows(rows), []

    def told(x):
        jax.debug.callback(lambda part: seen.append(len(part)), x)
        return blocks(x)

    map_batches(told, array, tmp_path / "out.npy", **options)
    jax.effects_barrier()
    batch = options.get("batch_size", rows)
    assert seen == [-(-batch // parts)] * parts * -(-rows // batch)
    assert_same_bits(np.load(tmp_path / "out.npy"), blocks_oracle(array))


FUNCTIONS = {
    "a scan that begins with zeros": (
        lambda x: lax.scan(lambda total, part: (total + part, None), jnp.zeros(x.shape[:1]), x.T)[0],
        lambda x: x.sum(1),
    ),
    "a function of NumPy": (
        lambda x: jax.pure_callback(np.flip, jax.ShapeDtypeStruct(x.shape, x.dtype), x, 1),
        lambda x: x[:, ::-1],
    ),
    "as many steps as each row needs": (
        jax.vmap(lambda x: lax.while_loop(lambda x: x.sum() < 100, lambda x: x + 1, x)),
        lambda x: x + np.maximum(0, np.ceil((100 - x.sum(1, keepdims=True)) / 4)),
    ),
    "constants": (lambda x: np.ones((x.shape[0], 2), np.int8), lambda x: np.ones((len(x), 2), np.int8)),
}


@pytest.mark.parametrize(("fn", "oracle"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_functions_run_on_every_device_by_themselves(tmp_path, fn, oracle):
    x = np.random.default_rng(0).integers(0, 50, (37, 4)).astype(np.float32)
    map_batches(fn, x, tmp_path / "out.npy", batch_size=16)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), oracle(x))


@pytest.mark.parametrize("start", [0, 4])
@pytest.mark.parametrize("shape", [(), (0, 3), (1000, 7)])
def test_cpu_devices_share_one_copy_of_what_is_shared(shape, start):
    memory = np.empty(2**16, np.uint8)
    at = -memory.ctypes.data % 64 + start
    array = memory[at : at + 4 * int(np.prod(shape))].view(np.float32).reshape(shape)
    array[...] = np.random.default_rng(1).random(shape)
    mesh = Mesh(np.array(jax.devices("cpu")), ("batch",), axis_types=(AxisType.Auto,))
    placed = replicated(array, NamedSharding(mesh, PartitionSpec()))
    assert len(placed.addressable_shards) == 8
    for shard in placed.addressable_shards:
        assert_same_bits(shard.data, array)
    assert not array.size or len({shard.data.unsafe_buffer_pointer() for shard in placed.addressable_shards}) == 1


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_a_mesh_of_the_caller_is_not_the_functions(tmp_path, kind):
    rows, result = np.arange(20, dtype=np.float32), tmp_path / "result.npy"
    with jax.set_mesh(jax.make_mesh((len(jax.devices()),), ("model",), axis_types=(kind,))):
        map_batches(lambda x: 2 * x, rows, result, batch_size=8)
    assert_same_bits(np.load(result), 2 * rows)


def test_a_default_device_has_every_batch_whole(tmp_path):
    seen = set()

    def twice(x):
        jax.debug.callback(lambda part: seen.add(len(part)), x)
        return 2 * x

    rows = np.arange(20, dtype=np.float32)
    with jax.default_device(jax.devices()[3]):
        map_batches(twice, rows, tmp_path / "one.npy", batch_size=8)
    jax.effects_barrier()
    assert seen == {8}
    map_batches(twice, rows, tmp_path / "all.npy", batch_size=8)
    jax.effects_barrier()
    assert seen == {8, 1}
    assert_same_bits(np.load(tmp_path / "one.npy"), 2 * rows)
