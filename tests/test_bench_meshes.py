"""The benchmark of operators on meshes and of training: every program is accepted, and gives what one device gives."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import sampled

from dml_jax.bench import mesh_scaling, parallel_efficiency, sharded_training
from dml_jax.bench.mesh_call_table import mesh_calls
from dml_jax.bench.timing import Effort, Measured
from dml_jax.catalogue import FUNCTIONS

EFFORT = Effort(1, 0)  # each sample is a call


def mesh_of(program):
    kinds, names = (program.kind,) * len(program.axes), ("a", "b")[: len(program.axes)]
    return jax.make_mesh(program.axes, names, axis_types=kinds, devices=jax.devices("cpu"))


# Operators on meshes.

PROGRAMS = {one.name: one for one in mesh_scaling.programs(8)}


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
    assert {one.axes for one in mesh_scaling.programs(4)} == {(4,), (2, 2)}
    assert {one.axes for one in mesh_scaling.programs(2)} == {(2,)}


def test_every_program_is_accepted(exhaustive):
    """Its first operand, or its output, is sharded as it says. Nothing runs."""
    for program in [*PROGRAMS.values()][:: 1 if exhaustive else 124]:
        call, n = mesh_scaling.sized(program.operator, 1)
        mesh = mesh_of(program)
        step, arrays = mesh_scaling.placed(program, call, n, mesh)
        with jax.set_mesh(mesh):
            outputs = jax.eval_shape(step, None, *arrays)
        if not call.is_made:
            assert arrays[0].sharding.spec == program.spec(call.operands[0].dims)
            assert arrays[0].sharding.num_devices == 8 == arrays[0].size // arrays[0].addressable_shards[0].data.size
        if program.is_backward:
            floats = [one for one in arrays[: len(call.operands)] if one.dtype == jnp.float32]
            assert [one.shape for one in outputs] == [one.shape for one in floats]


# A fault of XLA on meshes of two axes: docs/stability.md.
WRONG = {name for name, one in PROGRAMS.items() if name.startswith("convolution backward") and len(one.axes) == 2}


@pytest.mark.parametrize("part", sampled(range(12), [0]))
def test_the_values_of_every_program_are_those_of_one_device(part, exhaustive):
    differ = set()
    for program in [*PROGRAMS.values()][part :: 12 if exhaustive else 412]:
        (row,) = mesh_scaling.measured(program, 1, EFFORT)
        assert (row.case, row.operator) == (program.name, f"{program.operator} on meshes")
        if not row.same_bits:
            differ.add(program.name)
    assert differ <= WRONG


def test_a_program_that_xla_cannot_run_is_left_out(monkeypatch):
    def failed(*_):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory")

    monkeypatch.setattr(mesh_scaling, "Looped", failed)
    with pytest.warns(UserWarning, match="pad forward, Auto mesh of 8, dimension 0 is left out: RESOURCE_EXHAUSTED"):
        assert mesh_scaling.measured(PROGRAMS["pad forward, Auto mesh of 8, dimension 0"], 8, EFFORT) == []


def test_collectives_explain_a_program():
    """Every device reads a part of the rows, and all are added up; by batches nothing is sent."""
    (row,) = mesh_scaling.measured(PROGRAMS["gather forward, Auto mesh of 8, dimension 1"], 1, EFFORT)
    assert row.collectives == {"all-reduce": (1, 4 * 8 * 512 * 64)}
    assert row.why == "all-reduce of 1.05 MB" or row.of_copy >= parallel_efficiency.LINEAR
    (row,) = mesh_scaling.measured(PROGRAMS["gather backward, Explicit mesh of 8, dimension 0"], 1, EFFORT)
    assert row.collectives == {}


def test_the_table_has_a_line_for_each_operator():
    def row(operator, linear, found, why, same=True):
        return Measured("a", f"{operator} on meshes", "dml_jax", 1, 1, 1, 1, linear, same, None, found, why)

    gathered = {"all-gather": (1, 2), "all-reduce": (3, 4)}
    rows = [row("gather", 0.25, gathered, "all-gather of 2 MB, all-reduce of 3 MB"), row("gather", 1.0, {}, "")]
    rows += [row("pad", 0.5, {}, "short calls of 9 us"), row("pad", 0.5, {}, "", same=False)]
    assert [*mesh_scaling.lines(rows)] == [
        ["gather", "0.25", "0.50", "2", "1", "0", "1 all-gather", "all-gather, all-reduce"],
        ["pad", "0.50", "0.50", "2", "2", "1", "1 short calls, 1 unexplained", "-"],
    ]


# Training.

STEPS = {job.name: job for job in sharded_training.section(2**20).jobs}


@pytest.mark.parametrize("is_looped", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("name", sampled([*STEPS], ["training table of 256 columns, Zipf ids, Adagrad"]))
def test_steps_of_training_give_what_one_device_gives(name, is_looped, monkeypatch):
    """By calls, and by the loops that many calls are."""
    if is_looped:
        monkeypatch.setattr(parallel_efficiency, "FEW", 0)
    row, *others = STEPS[name].measure(EFFORT)
    assert {(one.case, one.operator, one.same_bits) for one in (row, *others)} == {(name, "training", True)}
    assert all(np.median(one.samples) == one.seconds for one in (row, *others))
    if "experts" in name:
        assert {"all-to-all", "all-reduce"} <= row.collectives.keys()
    assert [one.contender for one in others] == (["jax.numpy", "all-to-all"] if "table" in name else [])
    if others:
        assert row.collectives["all-gather"][1] == 4 * 2**20 // (4 * int(name.split()[3]))  # the ids alone


def test_the_table_of_training_has_jax_numpy_and_the_floor_beside_it():
    def row(contender, seconds):
        return Measured("training a step", "training", contender, 1, seconds, 1, 1, 0.25, True)

    assert [*sharded_training.lines([row("dml_jax", 0.004), row("jax.numpy", 0.006), row("all-to-all", 0.001)])] == [
        ["a step", "4", "0.25", "1.50", "1", "-"]
    ]
    assert [*sharded_training.lines([row("dml_jax", 0.004)])] == [["a step", "4", "0.25", "-", "-", "-"]]


def test_no_expert_is_left_out():
    """On one device, with room for all, the layer is the sum of what the chosen experts make."""
    rng = np.random.default_rng(0)
    width, experts = 8, sharded_training.EXPERTS
    router, up, down = (
        np.float32(rng.normal(size=s)) for s in ((width, experts), (experts, width, 4), (experts, 4, width))
    )
    tokens = np.float32(rng.normal(size=(2, 5, width)))
    made = jax.jit(partial(sharded_training.routed, 10, None))((router, up, down), tokens)
    logits = tokens @ router
    weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    for group, token in np.ndindex(2, 5):
        chosen = np.argsort(-logits[group, token])[: sharded_training.CHOSEN]
        expected = sum(
            weights[group, token, e] * (np.maximum(tokens[group, token] @ up[e], 0) @ down[e]) for e in chosen
        )
        np.testing.assert_allclose(made[group, token], expected, rtol=1e-4, atol=1e-5)
