"""The benchmark of several devices: counted bytes, compiled programs, agreement of results, and reasons."""

import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from commands import bench as run
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import dml_jax
from dml_jax.bench import device_transfers, mesh_scaling, results, sharded_batches, suites
from dml_jax.bench.collectives import collectives
from dml_jax.bench.parallel_efficiency import Looped
from dml_jax.bench.section import Job, Section
from dml_jax.bench.timing import Effort, Measured
from dml_jax.command import bench as command
from dml_jax.command import bench_run
from dml_jax.command.devices import measured_kind

CASES = {case.name: case for case in sharded_batches.cases(2**16, 8)}
EFFORT = Effort(1, 0)  # each sample is a call


def mesh_of(*kinds, axes=(8,)):
    return jax.make_mesh(axes, ("a", "b")[: len(axes)], axis_types=kinds, devices=jax.devices("cpu"))


# The reader of programs.

ACROSS = {
    "all-reduce": (lambda x: lax.psum(x[0], "a"), P(), 4 * 8),
    "all-gather": (lambda x: lax.all_gather(x, "a", tiled=True), P(), 4 * 8 * 64),
    "reduce-scatter": (lambda x: lax.psum_scatter(x, "a", scatter_dimension=1, tiled=True), P("a"), 4 * 8 * 1),
    "all-to-all": (lambda x: lax.all_to_all(x, "a", 1, 0, tiled=True), P("a"), 4 * 8 * 8),
    "collective-permute": (lambda x: lax.ppermute(x, "a", [(k, (k + 1) % 8) for k in range(8)]), P("a"), 4 * 8 * 8),
}


@pytest.mark.parametrize("name", ACROSS)
def test_collectives_of_known_programs_and_their_bytes(name):
    """Of each device's 8 x 8 numbers of 4 bytes."""
    local, after, size = ACROSS[name]
    mapped = jax.shard_map(local, mesh=mesh_of(AxisType.Auto), in_specs=P("a"), out_specs=after, check_vma=False)
    text = jax.jit(mapped).lower(jax.ShapeDtypeStruct((64, 8), jnp.float32)).compile().as_text()
    assert collectives(text) == {name: (1, size)}


ASYNCHRONOUS = """
  %all-gather-start.1 = (bf16[2,4]{1,0}, bf16[8,4]{1,0}) all-gather-start(%p.0), channel_id=1, dimensions={0}
  %all-gather-done.1 = bf16[8,4]{1,0} all-gather-done(%all-gather-start.1)
  %all-reduce-start = f32[5]{0} all-reduce-start(%p.1), channel_id=2, to_apply=%add
  %all-reduce-start.2 = (f32[5]{0}, u8[3]{0}) all-reduce-start(%p.1, %p.2), channel_id=3, to_apply=%add
  %collective-permute-start = (f32[6]{0}, f32[6]{0}, u32[], u32[]) collective-permute-start(%p.3), channel_id=4
  %all-to-all-start = ((f32[8]{0}, pred[8]{0}), (f32[8]{0}, pred[8]{0})) all-to-all-start(%p.4, %p.5), channel_id=5
  %reduce-scatter-start = ((f8e4m3fn[16]{0}), f8e4m3fn[4]{0}) reduce-scatter-start(%p.6), channel_id=6
  %reduce-scatter-done = f8e4m3fn[4]{0} reduce-scatter-done(%reduce-scatter-start)
  ROOT %fusion = f32[8]{0} fusion(%all-reduce-start), kind=kLoop, calls=%all-gather-like
"""


def test_asynchronous_collectives_count_where_they_start():
    assert collectives(ASYNCHRONOUS) == {
        "all-gather": (1, 2 * 8 * 4),
        "all-reduce": (2, 4 * 5 + 4 * 5 + 3),
        "collective-permute": (1, 4 * 6),
        "all-to-all": (1, 4 * 8 + 8),
        "reduce-scatter": (1, 4),
    }


# Loops.


@pytest.mark.parametrize("kind", [None, AxisType.Auto, AxisType.Explicit])
def test_each_turn_of_a_loop_is_a_call(kind):
    """Steps add up, the arrays keep their bits, and what does not need the step before is not computed before all."""
    numbers = np.float32([-0.0, np.inf, 3, 4, 5, 6, 7, 8])
    array = lambda: jax.device_put(numbers, kind and NamedSharding(mesh_of(kind), P("a")))  # noqa: E731
    counted = Looped(lambda out, x: out + 1, jnp.zeros_like(array()), [array()])
    for _ in range(11):
        counted.step(0)
    counted.finish()
    assert (np.asarray(counted.out) == 12).all()  # one when it began
    assert np.asarray(counted.arrays[0]).tobytes() == numbers.tobytes()

    same = Looped(lambda out, x: jnp.sin(x) * 2, None, [array()])
    assert "sine(" in body_of_the_loop(same._looped(10).as_text())


def test_a_turn_copies_no_array():
    """A read of few rows would take as long as a copy of the table: XLA copies what a slice reads."""
    table, ids = jnp.ones((2**12, 64)), jnp.arange(4)
    looped = Looped(lambda out, table, ids: dml_jax.gather(table, ids, axis=0), None, [table, ids])
    text = body_of_the_loop(looped._looped(10).as_text())
    assert "dynamic-update-slice(" in text
    assert not re.search(r"= f32\S* slice\(", text)


def body_of_the_loop(text):
    """That of the first loop of a program, with all that it calls; empty without a loop."""
    computations = dict(re.findall(r"^%?([\w.-]+) \(.*?\{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL))
    bodies = [found[1] for found in re.finditer(r"body=%?([\w.-]+)", text)][:1]
    for name in bodies:
        bodies += re.findall(r"(?:calls|to_apply)=%?([\w.-]+)", computations[name])
    return "\n".join(computations[name] for name in bodies)


# Batches.


def test_the_cases_are_those_that_move():
    moving = ["copy", *["depth_to_space"] * 2, "space_to_depth", "gather", "gather_elements"]
    assert [case.operator for case in CASES.values()] == [*moving, "scatter_elements", "scatter_nd"]


@pytest.mark.thinned
@pytest.mark.parametrize("name", CASES)
def test_all_contenders_give_the_same_bits_and_every_device_has_its_part(name):
    case, arrays = CASES[name], CASES[name].make()
    found = sharded_batches.implementations(peers=True)
    assert [one.name for one in found][:2] == ["dml_jax", "one device"]
    ours, one = (implementation.start(case, [arrays]) for implementation in found[:2])
    parts = [shard.data.shape for shard in ours.out.addressable_shards]
    whole = one.out.shape
    assert parts == [(whole[0] // 8, *whole[1:])] * 8
    for array, is_split in zip(ours.arrays, case.split, strict=True):
        assert {len(shard.data) for shard in array.addressable_shards} == {len(array) // (8 if is_split else 1)}
    rows = sharded_batches.measured(case, found, EFFORT)
    assert [row.same_bits for row in rows] == [True] * len(found)
    assert all(np.median(row.samples) == row.seconds for row in rows)


def test_bytes_are_what_the_arrays_need():
    """A scatter reads its input once, and writes the output once."""
    for case in CASES.values():
        assert case.moved == sum(array.nbytes for array in (*case.make(), case.output))


def test_the_ceiling_is_a_copy_on_all_devices():
    case = next(iter(CASES.values()))
    copy = sharded_batches.copied_by_all(case)
    assert (copy.value(100) == -1).all()
    assert len(copy.out.sharding.device_set) == 8
    assert 8 * copy.out.size == case.moved


def test_the_table_says_how_much_of_linear_scaling_there_is():
    def row(implementation, seconds):
        return Measured("a case", "copy", implementation, 8, seconds, seconds, seconds, 0.5, True)

    table = sharded_batches.table("t", [row("dml_jax", 0.25), row("one device", 1.0)], ["dml_jax", "one device"], None)
    assert [[*column.cells] for column in table.columns] == [
        ["a case"],
        ["0.50"],
        ["0.50"],
        ["4.00"],
        ["250 ms a call"],
    ]


# Transfers.

# By name: the bytes of the result on each device, of 8 of 64 KiB; and how much of 64 KiB each has to send.
MOVED = {
    "rows to columns (all-to-all)": ({"all-to-all": (1, 2**16)}, 7 / 8),
    "sharded to replicated (all-gather)": ({"all-gather": (1, 2**16)}, 7 / 8),
    "sum to replicated (all-reduce)": ({"all-reduce": (1, 2**16)}, 14 / 8),
    "sum to sharded (reduce-scatter)": ({"reduce-scatter": (1, 2**13)}, 7 / 8),
    "to the next of a ring (collective-permute)": ({"collective-permute": (1, 2**16)}, 1),
}


def test_transfers_move_what_they_say(monkeypatch):
    monkeypatch.setitem(device_transfers.PEAKS, jax.devices("cpu")[0].device_kind, 1e9)
    section = device_transfers.section(2**16)
    assert len([job for job in section.jobs if job.name.startswith(device_transfers.PAIR)]) == 8 * 7
    rows = [row for job in section.jobs[55:] for row in job.measure(EFFORT)]
    assert [row.case for row in rows] == [job.name for job in section.jobs[55:]]
    assert all(row.same_bits and row.moved == 2**16 and np.median(row.samples) == row.seconds for row in rows)
    for row in rows[-5:]:
        found, sent = MOVED[row.case.removeprefix("transfer ")]
        assert row.collectives == found
        assert row.of_copy == pytest.approx(sent * 2**16 / row.seconds / 1e9)
    cells = [*device_transfers.lines(rows)]
    assert [line[0] for line in cells[:3]] == [
        "device to device, the slowest pair",
        "device to device, the median pair",
        "from host to one device",
    ]
    assert float(cells[-1][2]) == pytest.approx(2**16 / rows[-1].seconds / 1e9, rel=0.01)


# The command.


def test_the_command_measures_them_and_says_how_many_devices_there_were(tmp_path):
    jax.devices()
    path = tmp_path / "r.json"
    done = run("--cpu-devices", 8, "--size", 1, "--rounds", 1, "--no-peers", "-k", "gather rows", "--json", path)
    assert done.exit_code == 0, done.output
    assert "x one device" in done.output
    read = results.Results.read(path)
    assert read.device.startswith(f"{measured_kind()}, 8 devices on ")
    assert [(row.operator, row.contender, row.same_bits) for row in read.rows] == [
        ("gather", "dml_jax", True),
        ("gather", "one device", True),
    ]


def test_a_run_that_is_killed_has_written_what_it_measured(tmp_path, monkeypatch):
    row = Measured("a", "pad on meshes", "dml_jax", 1, 1, 1, 1, 0.5, True, None, {"all-gather": (1, 2)}, "")
    path = tmp_path / "r.json"

    def killed(effort):
        assert [one["case"] for one in json.loads(path.read_text())["rows"]] == ["a", "a"]
        raise KeyboardInterrupt

    jobs = [Job("a", lambda effort: [row])] * 2 + [Job("b", killed)]
    section = Section("operators", jobs, ["dml_jax"], mesh_scaling.table)
    monkeypatch.setattr(suites, "sharded_suite", lambda size, peers: [section])
    monkeypatch.setattr(bench_run, "KEEPING", 0)
    assert isinstance(run("--cpu-devices", 8, "--json", path).exception, SystemExit)
    assert results.Results.read(path).rows[0].collectives == {"all-gather": [1, 2]}


def test_cases_are_sharded_over_the_devices_that_there_are():
    listed = run("--sharded", "--size", 1, "--list")
    assert listed.output == run("--cpu-devices", 8, "--size", 1, "--list").output


def test_one_device_is_refused(monkeypatch):
    monkeypatch.setattr(command, "local_devices", lambda: 1)
    told = run("--sharded")
    assert told.exit_code == 2
    assert "--sharded needs several devices, but JAX has 1" in " ".join(told.output.split())


def test_the_cases_are_listed_and_other_devices_refused(monkeypatch):
    lines = run("--cpu-devices", 8, "--size", 1, "--list").output.splitlines()
    assert [line.split()[0] for line in lines[: len(CASES)]] == [case.operator for case in CASES.values()]
    programs = [one.name for one in mesh_scaling.programs(8)]
    assert lines[-len(programs) :] == programs
    assert {line.split()[0] for line in lines[len(CASES) : -len(programs)]} == {"transfer", "training"}
    told = run("--cpu-devices", 7)
    assert (told.exit_code, "this process uses 8 already" in told.output) == (2, True)
    monkeypatch.setattr(command, "devices", lambda: [type("Device", (), {"platform": "gpu"})])
    told = run("--cpu-devices", 8)
    assert told.exit_code == 2
    assert "needs JAX to run on a CPU, not on gpu: set JAX_PLATFORMS=cpu" in " ".join(told.output.split())
