"""The ten descriptors: every rule broken once, every feature level's table, padded ranks, documented examples."""

import copy
import pickle
from dataclasses import FrozenInstanceError, replace

import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits, assert_scattered
from descriptor_cases import CASES, f32, u32
from oracles import scatter_elements

import dml_jax
from dml_jax import ConstraintError, DataType, DataTypeError, FeatureLevel, TensorDesc
from dml_jax.catalogue import DESCS

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def test_every_struct_has_a_case():
    assert set(CASES) == {cls.operator_type for cls in DESCS}
    assert len(DESCS) == 10
    assert dml_jax.ScatterDesc is dml_jax.ScatterElementsDesc


@every_case
def test_every_rule_is_broken_once(case):
    desc = case.desc
    wordings = desc.wordings()
    assert sorted(case.breaks) == sorted(wordings)
    for rule, change in case.breaks.items():
        if change is None:  # no value that a TensorDesc can hold breaks it at the newest level: see the level tests
            continue
        errors = [str(e).split("\n") for e in desc.faults({**desc.operands(), **change})]
        found = [lines for lines in errors if lines[0].startswith(f"{desc.operator_type}: {wordings[rule]}, but ")]
        assert len(found) == 1, (rule, errors)
        for name in desc.field_names():
            assert f"{desc.directml_names()[name]}=" in found[0][1]
        with pytest.raises(ConstraintError):
            replace(desc, **change)


@every_case
def test_frozen_hashable_equal_copied(case):
    desc = case.desc
    with pytest.raises(FrozenInstanceError):
        desc.output = desc.input
    assert {desc: 1}[replace(desc)] == 1
    assert pickle.loads(pickle.dumps(desc)) == copy.deepcopy(desc) == desc
    with pytest.raises(DataTypeError, match="OutputTensor must be a TensorDesc, but it is tuple"):
        replace(desc, output=(1, 2))


# Feature levels. The tables are restated here from DirectML's reference, newest row first.

FLOATS = {"FLOAT32", "FLOAT16"}
T32 = FLOATS | {"INT32", "INT16", "INT8", "UINT32", "UINT16", "UINT8"}
T64 = T32 | {"FLOAT64", "INT64", "UINT64"}
IDX = {"INT64", "INT32", "UINT64", "UINT32"}
ANY, FOUR = set(range(1, 9)), {4}
SINCE_3_0 = [("4_1", ANY, T64, IDX), ("3_0", ANY, T32, IDX)]
SINCE_2_1 = [*SINCE_3_0, ("2_1", FOUR, T32, {"UINT32"})]
BLOCKS_2_1 = [("5_0", FOUR, T64, set()), ("2_1", FOUR, T32, set())]
TABLES = {
    "GATHER": [*SINCE_2_1, ("1_0", FOUR, FLOATS, {"UINT32"})],
    "GATHER_ELEMENTS": SINCE_2_1,
    "GATHER_ND": SINCE_2_1,
    "GATHER_ND1": SINCE_3_0,
    "SCATTER": [*SINCE_2_1, ("2_0", FOUR, FLOATS, {"UINT32"})],
    "SCATTER_ND": SINCE_2_1,
    "DEPTH_TO_SPACE": [*BLOCKS_2_1, ("1_0", FOUR, FLOATS, set())],
    "DEPTH_TO_SPACE1": BLOCKS_2_1,
    "SPACE_TO_DEPTH": [*BLOCKS_2_1, ("1_0", FOUR, FLOATS, set())],
    "SPACE_TO_DEPTH1": BLOCKS_2_1,
}


def at_rank(desc, rank, data="FLOAT32", indices="UINT32"):
    """The descriptor padded to a rank, with other types."""
    return replace(desc, **padded(desc, rank, data, indices))


def padded(desc, rank, data="FLOAT32", indices="UINT32"):
    """The fields of the descriptor padded to a rank, with other types."""
    changes = desc.operands()
    for name in desc.tensor_names():
        real = [n for n in getattr(desc, name).sizes if n > 1]
        if name == "indices" and desc.operator_type == "SCATTER_ND":
            real = [*real, 1]
        changes[name] = TensorDesc(indices if name == "indices" else data, (*(1,) * (rank - len(real)), *real))
    shift = rank - len(desc.input.sizes)
    if "axis" in desc.field_names():
        changes["axis"] = desc.axis + shift
    return changes


@every_case
@pytest.mark.parametrize("level", FeatureLevel, ids=str)
def test_feature_level_tables(case, level):
    desc = case.desc
    row = next((row for row in TABLES[desc.operator_type] if FeatureLevel.of(row[0]) <= level), None)
    if row is None:
        since = TABLES[desc.operator_type][-1][0]
        with pytest.raises(
            ConstraintError, match=f"must exist at feature level {level}, but .* from feature level {since}"
        ):
            desc.validate(level)
        return
    _, ranks, data, indices = row
    for rank in (4, 5, 8) if "indices" in desc.field_names() else (4,):
        for type_ in DataType:
            accepted = rank in ranks and type_.name in data
            assert is_valid(desc, padded(desc, rank, data=type_), level) == accepted
        for type_ in DataType if indices else []:
            accepted = rank in ranks and type_.name in indices
            assert is_valid(desc, padded(desc, rank, indices=type_), level) == accepted


def is_valid(desc, operands, level):
    errors = list(desc.faults(operands, level))
    assert all(f"at feature level {level}" in str(error) for error in errors)
    return not errors


def test_a_level_error_names_the_level_that_accepts():
    desc = at_rank(CASES["GATHER"].desc, 4, data="FLOAT64")
    with pytest.raises(DataTypeError, match="but it is FLOAT64, which feature level 4_1 accepts"):
        desc.validate("3_0")
    with pytest.raises(ConstraintError, match="must be 4 at feature level 2_1, but it is 3, which feature level 3_0"):
        CASES["GATHER"].desc.validate(FeatureLevel.FL_2_1)


@pytest.mark.parametrize("name", ["3_0", "3.0", "FL_3_0", "DML_FEATURE_LEVEL_3_0", FeatureLevel.FL_3_0])
def test_feature_levels_by_name(name):
    assert FeatureLevel.of(name) is FeatureLevel.FL_3_0


def test_an_unknown_feature_level_is_refused():
    with pytest.raises(ConstraintError, match="feature_level must be one of 1_0, 2_0"):
        FeatureLevel.of("7_0")


# DirectML's documented examples, sizes and all.

U = np.uint32
COUNT = np.arange(12, dtype=np.float32)
EXAMPLES = [
    (dml_jax.GatherDesc(f32(4), u32(5), f32(5), 0, 1), ([11, 12, 13, 14], [3, 1, 3, 0, 2]), [14, 12, 14, 11, 13]),
    (
        dml_jax.GatherDesc(f32(3, 2), u32(1, 4), f32(4, 2), 0, 1),
        ([1, 2, 3, 4, 5, 6], [0, 1, 1, 2]),
        [1, 2, 3, 4, 3, 4, 5, 6],
    ),
    (dml_jax.GatherDesc(f32(3, 2), u32(1, 2), f32(3, 2), 1, 1), ([1, 2, 3, 4, 5, 6], [1, 0]), [2, 1, 4, 3, 6, 5]),
    (
        dml_jax.GatherDesc(f32(1, 3, 3), u32(1, 1, 2), f32(3, 1, 2), 2, 2),
        (range(1, 10), [0, 2]),
        [1, 3, 4, 6, 7, 9],
    ),
    (
        dml_jax.GatherDesc(f32(1, 3, 2), u32(1, 2, 2), f32(2, 2, 2), 1, 2),
        (range(1, 7), [0, 1, 1, 2]),
        [1, 2, 3, 4, 3, 4, 5, 6],
    ),
    (CASES["GATHER_ELEMENTS"].desc, (range(1, 10), [1, 2, 0, 2, 0, 0]), [4, 8, 3, 7, 2, 3]),
    (dml_jax.GatherNDDesc(f32(2, 2), u32(2, 1), f32(2, 2), 2, 2), (range(4), [1, 0]), [2, 3, 0, 1]),
    (CASES["GATHER_ND"].desc, (range(8), [0, 1, 1, 0]), [2, 3, 4, 5]),
    (
        CASES["GATHER_ND1"].desc,
        (range(12), [0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1, 0]),
        [0, 3, 7, 4, 9, 10],
    ),
    (
        CASES["SCATTER"].desc,
        ([0] * 9, [1, 0, 2, 0, 2, 1], [10, 11, 12, 20, 21, 22]),
        [20, 11, 0, 10, 0, 22, 0, 21, 12],
    ),
    (CASES["SCATTER_ND"].desc, (range(1, 9), [4, 3, 1, 7], [9, 10, 11, 12]), [1, 11, 3, 10, 9, 6, 7, 12]),
]


@pytest.mark.parametrize(("desc", "buffers", "output"), EXAMPLES)
def test_documented_examples(desc, buffers, output):
    types = [getattr(desc, name).dtype for name in desc.input_names()]
    flat = [np.array(list(b), t) for b, t in zip(buffers, types, strict=True)]
    assert_same_bits(dml_jax.compile_operator(desc)(*flat), np.array(output, desc.output.dtype))
    shaped = [b.reshape(getattr(desc, n).sizes) for b, n in zip(flat, desc.input_names(), strict=True)]
    computed = desc.compute(*map(jnp.asarray, shaped))
    assert_same_bits(computed, np.array(output, desc.output.dtype).reshape(desc.output.sizes))


def test_documented_scatter_example_with_a_duplicate_target():
    """DirectML prints the last update and calls such a call invalid: either update may win."""
    desc = dml_jax.ScatterElementsDesc(f32(5), u32(4), f32(4), f32(5), 0)
    x, indices, updates = COUNT[:5], U([3, 1, 3, 0]), np.float32([5, 6, 7, 8])
    assert_scattered(desc.compute(x, indices, updates), x, scatter_elements(x, indices, updates, 0))


def test_documented_sizes_of_tuples():
    """The page's own sizes, which its printed formula contradicts."""
    sizes = f32(3, 4, 5, 6, 7), u32(1, 1, 1, 2, 3)
    dml_jax.GatherNDDesc(*sizes, f32(1, 1, 2, 6, 7), 5, 3)
    dml_jax.ScatterNDDesc(*sizes, f32(1, 1, 2, 6, 7), sizes[0], 5, 3)
    with pytest.raises(ConstraintError, match=r"\(1, 2, 5, 6, 7\) is not \(1, 1, 2, 6, 7\)"):
        dml_jax.GatherNDDesc(*sizes, f32(1, 2, 5, 6, 7), 5, 3)


def test_a_scalar_index_and_an_8_dimensional_output():
    desc = dml_jax.GatherDesc(f32(3, 3), u32(1, 1), f32(1, 3), 0, 0)
    assert_same_bits(desc.compute(np.arange(9, dtype=np.float32).reshape(3, 3), U([[1]])), np.float32([[3, 4, 5]]))
    wide = dml_jax.GatherNDDesc(f32(1, 1, 1, 1, 1, 1, 2, 3), u32(1, 1, 1, 1, 1, 1, 2, 1), f32(*(1,) * 6, 2, 3), 2, 2)
    x = np.arange(6, dtype=np.float32).reshape(wide.input.sizes)
    assert_same_bits(wide.compute(x, np.zeros(wide.indices.sizes, U)), x[..., [0, 0], :])


def test_compute_takes_only_what_the_descriptor_describes():
    desc = dml_jax.GatherNDDesc(f32(3, 2), u32(2, 1), f32(2, 2), 2, 2)
    x, indices = np.zeros((3, 2), np.float32), U([[0], [2]])
    assert desc.compute(x, indices).shape == (2, 2)
    for arrays, error, match in [
        ((x.T, indices), ConstraintError, r"the array of InputTensor must have its sizes, \(3, 2\), but its shape is"),
        ((x, indices[:1]), ConstraintError, "the array of IndicesTensor must have its sizes"),
        ((x.astype(np.int8), indices), DataTypeError, "InputTensor must have elements of float32, but they are int8"),
        ((x, indices.astype(np.int16)), DataTypeError, "IndicesTensor must have elements of uint32"),
        (([[0.0]], indices), DataTypeError, "InputTensor must be an array"),
        ((x,), ConstraintError, "takes arrays for InputTensor, IndicesTensor, but there are 1"),
    ]:
        with pytest.raises(error, match=match):
            desc.compute(*arrays)


@pytest.mark.parametrize("order", [True, 1.0, np.float32(1), 1 + 0j, np.array([0, 1]), "DCR", None, 2])
def test_orders_that_are_none(order):
    with pytest.raises(ConstraintError, match="Order must be"):
        replace(CASES["DEPTH_TO_SPACE1"].desc, order=order)
    assert replace(CASES["DEPTH_TO_SPACE1"].desc, order=np.int8(0)).order is dml_jax.DepthSpaceOrder.DEPTH_COLUMN_ROW


def test_compute_refuses_64_bit_data_without_x64(x64):
    """Arrays would be narrowed; compiled operators take words instead."""
    desc = dml_jax.DepthToSpaceDesc(TensorDesc("INT64", (1, 4, 1, 1)), TensorDesc("INT64", (1, 1, 2, 2)), 2)
    data = np.arange(4).reshape(1, 4, 1, 1) + 2**40
    if x64:
        assert_same_bits(desc.compute(data), data.reshape(1, 1, 2, 2))
    else:
        with pytest.raises(DataTypeError, match="needs 64-bit types"):
            desc.compute(data)
