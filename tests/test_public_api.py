"""The package as a whole: its namespace, its modules, its errors. test_promises.py has what every operator promises."""

import enum
import importlib
import pkgutil
from importlib.util import find_spec

import numpy as np
import pytest

import dml_jax
import dml_jax.descs
from dml_jax.catalogue import DESCS, FUNCTIONS

X = np.arange(1, 25, dtype=np.float32).reshape(4, 6)


def test_the_namespace_is_what_all_says():
    """And `dir` shows nothing else, whatever was imported."""
    assert sorted({*dml_jax.__all__, "__version__", "batch", "descs", "layers", "onnx"}) == dir(dml_jax)
    assert {*FUNCTIONS} <= {*dml_jax.__all__}
    assert all(getattr(dml_jax, name) is not None for name in dml_jax.__all__)
    with pytest.raises(AttributeError, match="module 'dml_jax' has no attribute 'gathr'"):
        dml_jax.gathr  # noqa: B018


def test_descs_has_every_struct_and_the_namespace_those_of_its_functions():
    """And no other names; a few structs have two."""
    assert {getattr(dml_jax.descs, name) for name in dir(dml_jax.descs)} == {*DESCS}
    assert dml_jax.descs.__all__ == dir(dml_jax.descs)
    here = {getattr(dml_jax, name) for name in {*dir(dml_jax)} & {*dir(dml_jax.descs)}}
    assert here <= {*DESCS}
    assert len(here) >= 74
    with pytest.raises(AttributeError, match=r"module 'dml_jax\.descs' has no attribute 'GathrDesc'"):
        dml_jax.descs.GathrDesc  # noqa: B018


def test_the_namespace_has_every_enumeration_of_structs():
    taken = {cls for cls in enum.IntEnum.__subclasses__() if (cls.__doc__ or "").startswith("DML_")}
    assert len(taken) >= 15
    assert {getattr(dml_jax, cls.__name__) for cls in taken} == taken
    assert {cls.__name__ for cls in taken} <= {*dml_jax.__all__}


def test_every_module_is_imported():
    """Doctests pass over a module that cannot be."""
    missing = () if find_spec("onnx") else ("dml_jax.onnx",)
    names = [found.name for found in pkgutil.walk_packages(dml_jax.__path__, "dml_jax.", onerror=lambda name: None)]
    assert len(names) > 50
    for name in names:
        if not name.startswith(missing or "-"):
            importlib.import_module(name)


def test_a_new_fill_value_compiles_nothing(compilations):
    for value in (0.0, np.nan, np.nan):
        with compilations() as compiled:
            dml_jax.gather(X, np.int32([3, 0, 9]), 0, mode="fill", fill_value=value)
    assert not compiled


# Errors.


def test_the_message_names_operator_rule_fact_and_operands():
    with pytest.raises(dml_jax.ConstraintError) as caught:
        dml_jax.gather_elements(np.zeros((3, 3), np.float32), np.zeros((2, 2), np.int32), 0)
    assert str(caught.value) == (
        "gather_elements: indices.sizes must equal input.sizes except along axis, "
        "but (2, 2) and (3, 3) differ in dimension 1.\n"
        "  got input=float32[3,3], indices=int32[2,2], axis=0, mode='clip'"
    )


def test_errors_are_the_exceptions_people_expect():
    assert issubclass(dml_jax.ConstraintError, ValueError)
    assert issubclass(dml_jax.DataTypeError, dml_jax.ConstraintError)
    assert issubclass(dml_jax.DataTypeError, TypeError)
