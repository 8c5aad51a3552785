"""WebNN's public test vectors through descriptors: WebNN was first built on DirectML. data/README.md has the source."""

import json
import re
from pathlib import Path

import jax
import numpy as np
import pytest
from catalogue_cases import ORACLES
from checks import assert_same_bits, assert_scattered
from webnn_vectors import read_cases

import dml_jax
from dml_jax import TensorDesc

FOLDER = Path(__file__).parent / "data"
DATA = json.loads((FOLDER / "webnn.json").read_text(encoding="utf-8"))
CASES, VALIDATION = DATA["cases"], DATA["validation"]


def array(tensor):
    return np.array(tensor["data"], tensor["dtype"]).reshape(tensor["shape"])


def describe(case, output):
    """The DirectML descriptor of a WebNN call: every tensor padded with leading 1s to one rank."""
    op, options, inputs = case["op"], case["options"], case["inputs"]
    shapes = {name: tuple(tensor["shape"]) for name, tensor in inputs.items()} | {"output": tuple(output["shape"])}
    rank = max(1, *map(len, shapes.values()))
    types = {name: tensor["dtype"] for name, tensor in inputs.items()} | {"output": output["dtype"]}
    tensors = {name: TensorDesc(types[name], (*(1,) * (rank - len(s)), *s)) for name, s in shapes.items()}
    axis = options.get("axis", 0) + rank - len(shapes["input"])
    counts = len(shapes["input"]), len(shapes["indices"])
    make = {
        "gather": lambda: dml_jax.GatherDesc(**tensors, axis=axis, index_dimensions=counts[1]),
        "gatherElements": lambda: dml_jax.GatherElementsDesc(**tensors, axis=axis),
        "gatherND": lambda: dml_jax.GatherNDDesc(
            **tensors, input_dimension_count=counts[0], indices_dimension_count=counts[1]
        ),
        "scatterElements": lambda: dml_jax.ScatterElementsDesc(**tensors, axis=axis),
        "scatterND": lambda: dml_jax.ScatterNDDesc(
            **tensors, input_dimension_count=counts[0], indices_dimension_count=counts[1]
        ),
    }
    return make[op]()


# The vectors that are no legal DirectML call, by name; what is tested of them instead stands below.
DUPLICATE = "scatterElements throws error with overlapping indices"
CLAMPED_WRITE = "scatterND 2D int8 tensors with index out of bound"
LEGAL = [case for case in CASES if case["name"] not in (DUPLICATE, CLAMPED_WRITE)]


def named(name):
    (case,) = [case for case in CASES if case["name"] == name]
    return case, {key: array(tensor) for key, tensor in case["inputs"].items()}


def test_nearly_all_vectors_are_legal():
    assert len(CASES) == 155
    assert len(LEGAL) == 153
    assert len(VALIDATION) == 37


def test_the_source_and_the_licence_of_every_vector_are_named():
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    row = r"^\| `([^/]+)/\.\.\.` \| <https://\S+>, .* \| (?:BSD-3-Clause|Apache-2\.0), "
    origins = {case["source"].partition("/")[0] for case in (*CASES, *VALIDATION, *read_cases())}
    assert origins == {*re.findall(row, page, re.MULTILINE)}


@pytest.mark.thinned(2)
@pytest.mark.parametrize("case", LEGAL, ids=[f"{i}: {c['name']}" for i, c in enumerate(LEGAL)])
def test_vector(case):
    arrays = {name: array(tensor) for name, tensor in case["inputs"].items()}
    desc = describe(case, case["expected"])
    shaped = [arrays[name].reshape(getattr(desc, name).sizes) for name in desc.input_names()]
    assert_same_bits(desc.compute(*shaped), array(case["expected"]).reshape(desc.output.sizes))


def test_a_write_out_of_range_is_clamped_on_demand():
    """DirectML leaves it open. WebNN clamps it; so does mode="clip", while the default drops it."""
    case, arrays = named(CLAMPED_WRITE)
    assert_same_bits(dml_jax.scatter_nd(**arrays, mode="clip"), array(case["expected"]))
    assert_scattered(dml_jax.scatter_nd(**arrays), arrays["input"], ORACLES["scatter_nd"](**arrays))


def test_a_duplicate_target_takes_either_update():
    """DirectML calls it invalid; no update is promised to win."""
    case, arrays = named(DUPLICATE)
    axis = case["options"].get("axis", 0)
    actual = dml_jax.scatter_elements(**arrays, axis=axis)
    assert_scattered(actual, arrays["input"], ORACLES["scatter_elements"](**arrays, axis=axis))


FUNCTIONS = {
    "gather": dml_jax.gather,
    "gatherElements": dml_jax.gather_elements,
    "gatherND": dml_jax.gather_nd,
    "scatterElements": dml_jax.scatter_elements,
    "scatterND": dml_jax.scatter_nd,
}


@pytest.mark.parametrize("case", VALIDATION, ids=[f"{c['op']} {c['name']}" for c in VALIDATION])
def test_validation(case):
    shapes = {k: jax.ShapeDtypeStruct(tuple(t["shape"]), t["dtype"]) for k, t in case["inputs"].items()}
    takes_axis = case["op"] in ("gather", "gatherElements", "scatterElements")
    static = {"axis": case["options"].get("axis", 0)} if takes_axis else {}
    with jax.enable_x64(True):
        traced = lambda: jax.eval_shape(lambda x: FUNCTIONS[case["op"]](**x, **static), shapes)  # noqa: E731
        if case["must_throw"] and "VALID in DML" not in case["name"]:
            with pytest.raises(dml_jax.ConstraintError):
                traced()
        elif case["expected"]:
            assert traced().shape == tuple(case["expected"]["shape"])
        else:
            traced()
