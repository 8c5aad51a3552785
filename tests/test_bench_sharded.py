"""The benchmark of many devices: every device has its part, all contenders agree, and what is written says how many."""

import jax
import pytest
from click.testing import CliRunner

from dml_jax.bench import measuring, results, sharded
from dml_jax.command import bench as command
from dml_jax.command.devices import measured_kind

CASES = {case.name: case for case in sharded.cases(2**16, 8)}


def run(*arguments):
    return CliRunner().invoke(command.bench, [*map(str, arguments)])


def test_the_cases_are_those_that_move():
    moving = ["copy", *["depth_to_space"] * 2, "space_to_depth", "gather", "gather_elements"]
    assert [case.operator for case in CASES.values()] == [*moving, "scatter_elements", "scatter_nd"]


@pytest.mark.thinned
@pytest.mark.parametrize("name", CASES)
def test_all_contenders_give_the_same_bits_and_every_device_has_its_part(name):
    case, arrays = CASES[name], CASES[name].make()
    runs = {c.name: c.start(case, [arrays, arrays]) for c in sharded.contenders(peers=True)}
    assert [*runs][:2] == ["dml_jax", "one device"]
    assert measuring._compare(runs, 0.0) == dict.fromkeys(runs, True)
    parts = [shard.data.shape for shard in runs["dml_jax"].out.addressable_shards]
    whole = runs["one device"].out.shape
    assert parts == [(whole[0] // 8, *whole[1:])] * 8
    for array, is_split in zip(runs["dml_jax"].turns[0], case.split, strict=True):
        assert {len(shard.data) for shard in array.addressable_shards} == {len(array) // (8 if is_split else 1)}


def test_bytes_are_what_the_arrays_need():
    """A scatter reads its input once, and writes the output once."""
    for case in CASES.values():
        arrays, out = case.make(), case.output(case.make())
        assert case.moved == sum(array.nbytes for array in arrays) + out.size * out.dtype.itemsize


def test_the_ceiling_is_a_copy_on_all_devices():
    case = next(iter(CASES.values()))
    copy = sharded.copied(case, turns=2)
    copy.step(0)
    assert (copy.value(100) == -1).all()
    assert len(copy.out.sharding.device_set) == 8
    assert 8 * copy.out.size == case.moved


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


def test_cases_are_sharded_over_the_devices_that_there_are():
    listed = run("--sharded", "--size", 1, "--list")
    assert listed.output == run("--cpu-devices", 8, "--size", 1, "--list").output


def test_one_device_is_refused(monkeypatch):
    monkeypatch.setattr(command, "local_devices", lambda: 1)
    told = run("--sharded")
    assert told.exit_code == 2
    assert "--sharded needs several devices, but JAX has 1" in " ".join(told.output.split())


def test_the_cases_are_listed_and_other_devices_refused(monkeypatch):
    listed = run("--cpu-devices", 8, "--size", 1, "--list")
    assert [line.split()[0] for line in listed.output.splitlines()] == [case.operator for case in CASES.values()]
    told = run("--cpu-devices", 7)
    assert (told.exit_code, "this process uses 8 already" in told.output) == (2, True)
    monkeypatch.setattr(command, "devices", lambda: [type("Device", (), {"platform": "gpu"})])
    told = run("--cpu-devices", 8)
    assert told.exit_code == 2
    assert "needs JAX to run on a CPU, not on gpu: set JAX_PLATFORMS=cpu" in " ".join(told.output.split())
