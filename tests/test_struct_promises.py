"""Properties of every struct of the catalogue: rules, feature levels, JSON, DirectML's examples, any strides.

The descriptors come from the operators' own test files.
"""

import copy
import itertools
import json
import pickle
from collections import Counter
from dataclasses import FrozenInstanceError, replace
from functools import partial

import example_models
import jax
import pytest
from catalogue_cases import SAMPLED, STRUCTS
from checks import assert_agrees, sampled, together
from example_models import flat, model_of, printed
from strided_cases import INPUT_CLASSES, OUTPUT_CLASSES, arrays, call, check, expected, make

import dml_jax
from dml_jax import ConstraintError, DataType, DataTypeError, FeatureLevel, desc_from_json, desc_to_json
from dml_jax.dxdispatch.model_file import read_model
from dml_jax.dxdispatch.run import run_model

pytestmark = pytest.mark.device

every_struct = pytest.mark.parametrize("struct", STRUCTS.values(), ids=STRUCTS)
# Of what takes longer, those that have code of their own; rows of a table share it.
sampled_structs = pytest.mark.parametrize(
    "struct",
    [
        pytest.param(struct, id=name, marks=() if name in SAMPLED else pytest.mark.exhaustive)
        for name, struct in STRUCTS.items()
    ],
)
EXAMPLES = {f"{name} {i + 1}": one for name, struct in STRUCTS.items() for i, one in enumerate(struct.examples)}
every_example = pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
first_examples = pytest.mark.parametrize("name", sampled([*EXAMPLES], [f"{name} 1" for name in SAMPLED]))


# Rules.


@every_struct
def test_every_rule_is_broken_once(struct):
    """But for those that no TensorDesc can break at the newest level: the tables' tests break them at older ones."""
    desc, wordings = struct.desc, struct.desc.wordings()
    assert {*struct.breaks} == {rule.name for rule in desc.constraints}
    breaks = struct.all_breaks()
    assert sorted(breaks) == sorted(wordings)
    for rule, change in breaks.items():
        if change is None:
            assert rule.startswith("supported_")
            continue
        errors = [str(e).split("\n") for e in desc.faults({**desc.operands(), **change})]
        found = [lines for lines in errors if lines[0].startswith(f"{desc.operator_type}: {wordings[rule]}, but ")]
        assert len(found) == 1, (rule, errors)
        for name in desc.field_names():
            assert f"{desc.directml_names()[name]}=" in found[0][1]
        with pytest.raises(ConstraintError):
            replace(desc, **change)


@every_struct
def test_frozen_hashable_equal_copied(struct):
    desc = struct.desc
    first, *_ = desc.field_names()
    with pytest.raises(FrozenInstanceError):
        setattr(desc, first, getattr(desc, first))
    assert {desc: 1}[replace(desc)] == 1
    assert pickle.loads(pickle.dumps(desc)) == copy.deepcopy(desc) == desc
    for name, kind in desc.fields().items():
        if kind.is_tensor:
            with pytest.raises(DataTypeError, match=rf"{kind.directml_name(name)}(\[0\])? must be a"):
                replace(desc, **{name: (1, 2)})


# Feature levels.


@every_struct
def test_the_newest_row_of_the_table_is_first(struct):
    levels = [FeatureLevel.of(row.since) for row in struct.levels]
    assert levels == sorted(levels, reverse=True)
    assert all(row.types.keys() == struct.levels[0].types.keys() for row in struct.levels)


@pytest.mark.thinned(2)
@sampled_structs
def test_feature_level_tables(struct):
    """Every data type of every tensor, at four dimensions, at those that newer levels take, and at its own."""
    desc, oldest = struct.desc, struct.levels[-1].since
    rows = {of: next((row for row in struct.levels if FeatureLevel.of(row.since) <= of), None) for of in FeatureLevel}
    for level in [of for of, row in rows.items() if row is None]:
        match = f"must exist at feature level {level}, but .* from feature level {oldest}"
        with pytest.raises(ConstraintError, match=match):
            desc.validate(level)
    own_rank = len(struct.listed(desc).sizes)
    tensors = [*struct.levels[0].types]
    for rank in {own_rank, 4, 5, 8} - set(range(own_rank)):
        fields = struct.padded(rank)
        for name, data_type in itertools.product(tensors, DataType):
            changed = struct.retyped(fields, name, data_type)
            for level, row in [(of, row) for of, row in rows.items() if row]:
                errors = list(desc.faults(changed, level))
                assert row.of_one_type or not errors or any(f"at feature level {level}" in str(one) for one in errors)
                others = all(types_of(fields[n]) <= row.types[n] for n in tensors if n != name)
                fits = not row.of_one_type or len({of for n in tensors for of in types_of(changed[n])}) == 1
                wanted = rank in row.ranks and data_type.name in row.types[name] and others and fits
                assert (not errors) == wanted, (level, name, rank, data_type)


def types_of(value):
    tensors = value if isinstance(value, tuple) else () if value is None else (value,)
    return {tensor.data_type.name for tensor in tensors}


# JSON.


@every_struct
def test_json_round_trip(struct):
    form = desc_to_json(struct.desc)
    assert desc_from_json(json.loads(json.dumps(form))) == struct.desc
    assert form["type"] == f"DML_OPERATOR_{struct.desc.operator_type}"
    counts = {kind.counted_by for kind in struct.desc.fields().values()}
    names, fields = struct.desc.directml_names(), struct.desc.operands()
    assert [name for name in form["desc"] if name not in counts] == [
        n for f, n in names.items() if fields[f] is not None
    ]


# DirectML's documented examples: compiled, computed, and as a model file.


@pytest.mark.thinned(6)
@first_examples
def test_documented_examples(name):
    example = EXAMPLES[name]
    desc, units = example.desc, STRUCTS[example.desc.operator_type].units
    inputs, outputs = flat(example.inputs, desc.input_ports()), flat(example.outputs, desc.output_ports())
    for actual, wanted in zip(jax.tree.leaves(dml_jax.compile_operator(desc)(*inputs)), outputs, strict=True):
        assert_agrees(actual, wanted, units)


def test_documented_examples_of_arrays(exhaustive):
    """As arrays of the tensors' sizes: the first one of every third struct, and with --exhaustive all."""
    first = {name: example for name, example in EXAMPLES.items() if name.endswith(" 1")}
    examples = EXAMPLES if exhaustive else dict([*first.items()][::3])
    calls = [
        (example.desc.compute, *shaped(example.inputs, example.desc.input_ports())) for example in examples.values()
    ]
    for made, (name, example) in zip(together(calls), examples.items(), strict=True):
        outputs = shaped(example.outputs, example.desc.output_ports())
        for actual, wanted in zip(jax.tree.leaves(made), outputs, strict=True):
            try:
                assert_agrees(actual, wanted, STRUCTS[example.desc.operator_type].units)
            except AssertionError as error:
                error.add_note(name)
                raise


def shaped(numbers, ports):
    """What an example says, as arrays of the sizes of its tensors."""
    return [b.reshape(tensor.sizes) for b, tensor in zip(flat(numbers, ports), ports.values(), strict=True)]


@pytest.mark.thinned(18)
@every_example
def test_documented_examples_as_model_files(example, tmp_path):
    path, lines = tmp_path / "model.json", []
    path.write_text(json.dumps(model_of(example)))
    run_model(read_model(path, output=None), jax.devices()[0], lines.append)
    lines_of = dict(line.removeprefix("Resource ").split(": ", 1) for line in lines if line.startswith("Resource "))
    outputs = zip(example.desc.output_ports(), flat(example.outputs, example.desc.output_ports()), strict=True)
    wanted = {repr(port): printed(numbers) for port, numbers in outputs}
    assert {port: numbers.split(", ") for port, numbers in lines_of.items()} == wanted


def test_the_model_files_of_the_documentation_are_those_of_the_examples(tmp_path):
    assert example_models.differing(example_models.FOLDER, example_models.files()) == []
    example_models.main([], tmp_path)
    example_models.main(["--check"], tmp_path)
    (tmp_path / "tile.json").unlink()
    with pytest.raises(SystemExit, match=r"not what would be written: tile\.json"):
        example_models.main(["--check"], tmp_path)


# Random descriptors of every type, rank and class of strides, against NumPy's views and the oracles.

ALL = 250


@pytest.mark.thinned(3)
@sampled_structs
def test_random_descriptors(struct, exhaustive):
    """Every eighth case is called on its own; the others share programs, which compile several times faster.

    By default there is one.
    """
    cases = [make(struct, number) for number in range(ALL if exhaustive else 1)]
    done = 0
    for x64 in (False, True):
        with jax.enable_x64(x64):
            alone = [case for case in cases if case.x64 == x64 and case.number % 8 == 0]
            others = [case for case in cases if case.x64 == x64 and case.number % 8]
            outputs = [call(case, *arrays(case)) for case in alone]
            outputs += together([(partial(call, case), *arrays(case)) for case in others])
            for case, output in zip(alone + others, outputs, strict=True):
                try:
                    check(case, output, expected(struct, case), struct.units)
                except BaseException as error:
                    error.add_note(f"strided_cases.make(STRUCTS[{struct.name!r}], {case.number}) is {case}")
                    raise
                done += 1
    assert done == len(cases) > 0


WIDE = {"INT64", "UINT64", "FLOAT64"}
OF_64_BITS = [name for name, struct in STRUCTS.items() if WIDE & next(iter(struct.levels[0].types.values()))]


@pytest.mark.parametrize("name", sampled(OF_64_BITS, SAMPLED.intersection(OF_64_BITS)))
def test_64_bit_numbers_need_no_x64_in_a_descriptor(name):
    """Buffers hold pairs of words, which are moved one by one or are one number, of which a carry is part."""
    struct = STRUCTS[name]
    cases = (make(struct, number) for number in range(ALL))
    case = next(one for one in cases if not one.x64 and struct.listed(one.desc).data_type.name in WIDE)
    check(case, call(case, *arrays(case)), expected(struct, case), struct.units)


@pytest.mark.thinned(9)
@sampled_structs
def test_the_random_descriptors_cover_everything(struct):
    """Every data type, rank and class of strides, in and out, bound and not, among those of an exhaustive run."""
    found, cls = Counter(), type(struct.desc)
    for number in range(ALL):
        case = make(struct, number)
        first = struct.listed(case.desc)
        found.update({("type", first.data_type.name), ("rank", len(first.sizes)), ("bound", case.bound, case.x64)})
        found.update({(port.partition("[")[0], of_port) for port, of_port in case.classes.items()})
    newest = struct.levels[0]
    wanted = {("type", t.name) for t in DataType if t.name in next(iter(newest.types.values()))}
    wanted |= {("rank", rank) for rank in newest.ranks} | {
        ("bound", b, x) for b in (False, True) for x in (False, True)
    }
    wanted |= {(name, c) for name in cls.output_names() for c in OUTPUT_CLASSES}
    wanted |= {(name, c) for name in cls.input_names() for c in INPUT_CLASSES}
    assert not wanted - set(found)
