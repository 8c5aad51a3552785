"""Descriptors in general: feature levels by name, and what computing takes. See test_struct_promises.py too."""

import numpy as np
import pytest
from catalogue_cases import DESCS
from checks import assert_same_bits
from operator_cases import f32, i64, u32

import dml_jax
from dml_jax import ConstraintError, DataTypeError, FeatureLevel, TensorDesc

# Feature levels; test_struct_promises.py has their tables.


def f64(*sizes):
    return TensorDesc("FLOAT64", sizes)


def test_a_level_error_names_the_level_that_accepts():
    desc = dml_jax.GatherDesc(f64(1, 1, 3, 2), u32(1, 1, 2, 2), f64(1, 2, 2, 2), 2, 2)
    with pytest.raises(DataTypeError, match="but it is FLOAT64, which feature level 4_1 accepts"):
        desc.validate("3_0")
    with pytest.raises(ConstraintError, match="must be 4 at feature level 2_1, but it is 3, which feature level 3_0"):
        DESCS["GATHER"].validate(FeatureLevel.FL_2_1)


@pytest.mark.parametrize("name", ["3_0", "3.0", "FL_3_0", "DML_FEATURE_LEVEL_3_0", FeatureLevel.FL_3_0])
def test_feature_levels_by_name(name):
    assert FeatureLevel.of(name) is FeatureLevel.FL_3_0


def test_an_unknown_feature_level_is_refused():
    with pytest.raises(ConstraintError, match="feature_level must be one of 1_0, 2_0"):
        FeatureLevel.of("7_0")


# Computing.


def test_compute_takes_only_what_the_descriptor_describes():
    desc = dml_jax.GatherNDDesc(f32(3, 2), u32(2, 1), f32(2, 2), 2, 2)
    x, indices = np.zeros((3, 2), np.float32), np.uint32([[0], [2]])
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


def test_compute_refuses_64_bit_data_without_x64(x64):
    """Arrays would be narrowed; compiled operators take words instead."""
    desc = dml_jax.DepthToSpaceDesc(i64(1, 4, 1, 1), i64(1, 1, 2, 2), 2)
    data = np.arange(4).reshape(1, 4, 1, 1) + 2**40
    if x64:
        assert_same_bits(desc.compute(data), data.reshape(1, 1, 2, 2))
    else:
        with pytest.raises(DataTypeError, match="needs 64-bit types"):
            desc.compute(data)
