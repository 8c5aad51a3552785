"""The benchmark of many devices: what it counts and compiles, that all agree, and what it gives as a reason."""

import json
import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import sampled
from click.testing import CliRunner
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from dml_jax.bench import batch_cases, mesh_programs, plans, results, scaling, sharded, training, transfers
from dml_jax.bench.collectives import collectives
from dml_jax.bench.looped import Looped
from dml_jax.bench.measuring import Effort, Measured
from dml_jax.bench.mesh_calls import mesh_calls
from dml_jax.bench.section import Job, Section
from dml_jax.catalogue import FUNCTIONS
from dml_jax.command import bench as command
from dml_jax.command import bench_run
from dml_jax.command.devices import measured_kind

CASES = {case.name: case for case in batch_cases.cases(2**16, 8)}
EFFORT = Effort(1, 0)  # each sample is a call


def run(*arguments):
    return CliRunner().invoke(command.bench, [*map(str, arguments)])


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
    found = sharded.contenders(peers=True)
    assert [one.name for one in found][:2] == ["dml_jax", "one device"]
    ours, one = (contender.start(case, [arrays]) for contender in found[:2])
    parts = [shard.data.shape for shard in ours.out.addressable_shards]
    whole = one.out.shape
    assert parts == [(whole[0] // 8, *whole[1:])] * 8
    for array, is_split in zip(ours.arrays, case.split, strict=True):
        assert {len(shard.data) for shard in array.addressable_shards} == {len(array) // (8 if is_split else 1)}
    rows = sharded.measured(case, found, EFFORT)
    assert [row.same_bits for row in rows] == [True] * len(found)


def test_bytes_are_what_the_arrays_need():
    """A scatter reads its input once, and writes the output once."""
    for case in CASES.values():
        arrays, out = case.make(), case.output(case.make())
        assert case.moved == sum(array.nbytes for array in arrays) + out.size * out.dtype.itemsize


def test_the_ceiling_is_a_copy_on_all_devices():
    case = next(iter(CASES.values()))
    copy = sharded.copied_by_all(case)
    assert (copy.value(100) == -1).all()
    assert len(copy.out.sharding.device_set) == 8
    assert 8 * copy.out.size == case.moved


def test_the_table_says_how_much_of_linear_scaling_there_is():
    def row(contender, seconds):
        return Measured("a case", "copy", contender, 8, seconds, seconds, seconds, 0.5, True)

    table = sharded.table("t", [row("dml_jax", 0.25), row("one device", 1.0)], ["dml_jax", "one device"])
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
    monkeypatch.setitem(transfers.PEAKS, jax.devices("cpu")[0].device_kind, 1e9)
    section = transfers.section(2**16)
    assert len([job for job in section.jobs if job.name.startswith(transfers.PAIR)]) == 8 * 7
    rows = [row for job in section.jobs[55:] for row in job.measure(EFFORT)]
    assert [row.case for row in rows] == [job.name for job in section.jobs[55:]]
    assert all(row.same_bits and row.moved == 2**16 for row in rows)
    for row in rows[-5:]:
        found, sent = MOVED[row.case.removeprefix("transfer ")]
        assert row.collectives == found
        assert row.of_copy == pytest.approx(sent * 2**16 / row.seconds / 1e9)
    cells = [*transfers.lines(rows)]
    assert [line[0] for line in cells[:3]] == [
        "device to device, the slowest pair",
        "device to device, the median pair",
        "from host to one device",
    ]
    assert float(cells[-1][2]) == pytest.approx(2**16 / rows[-1].seconds / 1e9, rel=0.01)


# Operators on meshes.

PROGRAMS = {one.name: one for one in mesh_programs.programs(8)}


def test_every_function_has_a_call_whose_letters_are_its_dimensions():
    assert [*mesh_calls(8)] == [*FUNCTIONS]
    for call in mesh_calls(8).values():
        shapes = jax.eval_shape(call.leaves, *call.shapes(8))
        assert [len(letters) for letters in call.outputs] == [one.ndim for one in shapes]
        assert call.divided


def test_the_first_programs_are_one_of_each_operator():
    first = [*PROGRAMS.values()][: len(FUNCTIONS)]
    assert [one.operator for one in first] == [*FUNCTIONS]
    backward = {one.operator for one in PROGRAMS.values() if one.is_backward}
    assert {*FUNCTIONS} - backward == {"nonzero_coordinates", "random_bits"}
    assert {one.axes for one in mesh_programs.programs(4)} == {(4,), (2, 2)}
    assert {one.axes for one in mesh_programs.programs(2)} == {(2,)}


@pytest.mark.parametrize("name", sampled([*PROGRAMS], [*PROGRAMS][::62]))
def test_every_program_is_accepted(name):
    """Its first operand, or its output, is sharded as it says. Nothing runs."""
    program = PROGRAMS[name]
    call, n = mesh_programs.sized(program.operator, 1)
    mesh = mesh_of(*(program.kind,) * len(program.axes), axes=program.axes)
    step, arrays = mesh_programs.placed(program, call, n, mesh)
    with jax.set_mesh(mesh):
        outputs = jax.eval_shape(step, None, *arrays)
    if not call.is_made:
        assert arrays[0].sharding.spec == program.spec(call.operands[0].dims)
        assert arrays[0].sharding.num_devices == 8 == arrays[0].size // arrays[0].addressable_shards[0].data.size
    if program.is_backward:
        floats = [one for one in arrays[: len(call.operands)] if one.dtype == jnp.float32]
        assert [one.shape for one in outputs] == [one.shape for one in floats]


@pytest.mark.parametrize("name", sampled([*PROGRAMS], [*PROGRAMS][3::310]))
def test_the_values_of_every_program_are_those_of_one_device(name):
    (row,) = mesh_programs.measured(PROGRAMS[name], 1, EFFORT)
    if name.startswith("convolution backward") and len(PROGRAMS[name].axes) == 2 and not row.same_bits:
        pytest.xfail("a fault of XLA: docs/stability.md")
    assert row.same_bits
    assert row.case == name
    assert row.operator == f"{PROGRAMS[name].operator} on meshes"


def test_collectives_explain_a_program():
    """Every device reads a part of the rows, and all are added up; by batches nothing is sent."""
    (row,) = mesh_programs.measured(PROGRAMS["gather forward, Auto mesh of 8, dimension 1"], 1, EFFORT)
    assert row.collectives == {"all-reduce": (1, 4 * 8 * 512 * 64)}
    assert row.why == "all-reduce of 1.05 MB" or row.of_copy >= scaling.LINEAR
    (row,) = mesh_programs.measured(PROGRAMS["gather backward, Explicit mesh of 8, dimension 0"], 1, EFFORT)
    assert row.collectives == {}


def test_the_table_has_a_line_for_each_operator():
    def row(operator, linear, found, why, same=True):
        return Measured("a", f"{operator} on meshes", "dml_jax", 1, 1, 1, 1, linear, same, None, found, why)

    gathered = {"all-gather": (1, 2), "all-reduce": (3, 4)}
    rows = [row("gather", 0.25, gathered, "all-gather of 2 MB, all-reduce of 3 MB"), row("gather", 1.0, {}, "")]
    rows += [row("pad", 0.5, {}, "short calls of 9 us"), row("pad", 0.5, {}, "", same=False)]
    assert [*mesh_programs.lines(rows)] == [
        ["gather", "0.25", "0.50", "2", "1", "0", "1 all-gather", "all-gather, all-reduce"],
        ["pad", "0.50", "0.50", "2", "2", "1", "1 short calls, 1 unexplained", "-"],
    ]


# Training.

STEPS = {job.name: job for job in training.section(2**20).jobs}


@pytest.mark.parametrize("name", sampled([*STEPS], ["training embedding, adagrad, tokens sharded"]))
def test_steps_of_training_give_what_one_device_gives(name):
    (row,) = STEPS[name].measure(EFFORT)
    assert (row.case, row.operator, row.same_bits) == (name, "training", True)
    if "experts" in name:
        assert {"all-to-all", "all-reduce"} <= row.collectives.keys()
    if "embedding" in name:
        assert "all-reduce" in row.collectives


def test_no_expert_is_left_out():
    """On one device, with room for all, the layer is the sum of what the chosen experts make."""
    rng = np.random.default_rng(0)
    width, experts = 8, training.EXPERTS
    router, up, down = (
        np.float32(rng.normal(size=s)) for s in ((width, experts), (experts, width, 4), (experts, 4, width))
    )
    tokens = np.float32(rng.normal(size=(2, 5, width)))
    made = jax.jit(partial(training.routed, 10, None))((router, up, down), tokens)
    logits = tokens @ router
    weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    for group, token in np.ndindex(2, 5):
        chosen = np.argsort(-logits[group, token])[: training.CHOSEN]
        expected = sum(
            weights[group, token, e] * (np.maximum(tokens[group, token] @ up[e], 0) @ down[e]) for e in chosen
        )
        np.testing.assert_allclose(made[group, token], expected, rtol=1e-4, atol=1e-5)


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
    section = Section("operators", jobs, ["dml_jax"], mesh_programs.table)
    monkeypatch.setattr(plans, "sharded", lambda size, peers: [section])
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
    assert lines[-len(PROGRAMS) :] == [*PROGRAMS]
    assert {line.split()[0] for line in lines[len(CASES) : -len(PROGRAMS)]} == {"transfer", "training"}
    told = run("--cpu-devices", 7)
    assert (told.exit_code, "this process uses 8 already" in told.output) == (2, True)
    monkeypatch.setattr(command, "devices", lambda: [type("Device", (), {"platform": "gpu"})])
    told = run("--cpu-devices", 8)
    assert told.exit_code == 2
    assert "needs JAX to run on a CPU, not on gpu: set JAX_PLATFORMS=cpu" in " ".join(told.output.split())
