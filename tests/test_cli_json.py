"""The command's output as JSON."""

import dataclasses
import json
import re

import jax
import pytest
from documented_models import PAGE, copy_models, dml_jax_command, printed_json

from dml_jax.bench.results import Results
from dml_jax.bench.timing import Measured
from dml_jax.catalogue import DESCS
from dml_jax.core.tensors.tensor_desc import TENSOR

models = pytest.fixture(copy_models)


def test_ops_as_json_has_every_rule_field_and_level():
    printed = printed_json("ops")
    assert printed.keys() == {"feature_level", "operators", "tensor_rules"}
    assert printed["feature_level"] == "6_4"
    assert [rule["name"] for rule in printed["tensor_rules"]] == [rule.name for rule in TENSOR]
    for operator, cls in zip(printed["operators"], DESCS, strict=True):
        assert operator.keys() == {"operator", "summary", "function", "fields", "rules", "feature_levels"}
        assert operator["operator"] == cls.operator_type
        assert operator["summary"].endswith(".")
        assert re.search(r"\b(dml_jax|jax)\.\w", operator["function"])
        assert [field["name"] for field in operator["fields"]] == list(cls.directml_names().values())
        assert [field["tensor"] for field in operator["fields"]] == [n in cls.tensor_names() for n in cls.field_names()]
        assert {rule["name"]: rule["text"] for rule in operator["rules"]} == cls.wordings()


def test_ops_as_json_of_one_operator_at_one_level():
    (operator,) = printed_json("ops", "gather", "--feature-level", "2_1")["operators"]
    assert "InputTensor.DimensionCount must be 4 at feature level 2_1" in [rule["text"] for rule in operator["rules"]]
    assert operator["feature_levels"][-1] == {
        "since": "1_0",
        "dimension_counts": [4],
        "tensors": [
            {"name": "InputTensor", "data_types": ["FLOAT32", "FLOAT16"]},
            {"name": "IndicesTensor", "data_types": ["UINT32"]},
        ],
    }
    (missing,) = printed_json("ops", "GATHER_ND1", "--feature-level", "1_0")["operators"]
    assert missing["rules"][-1] == {"name": "available", "text": "the operator must exist at feature level 1_0"}


def test_check_as_json_lists_every_fault_of_every_file(models):
    text = (models / "gather_nd.json").read_text()
    (models / "gather_nd.json").write_text(text.replace('"type": "print"', '"type": "show"'))
    names = ("gather.json", "gather_nd.json", "missing.json")
    printed = printed_json("check", *(models / name for name in names), status=1)
    assert printed.keys() == {"feature_level", "files"}
    valid, faulty, missing = printed["files"]
    assert valid == {
        "path": str(models / "gather.json"),
        "valid": True,
        "operators": [{"where": f"dispatchable 'example {i}'", "operator": "GATHER"} for i in range(1, 6)],
        "faults": [],
    }
    assert (faulty["valid"], faulty["operators"]) == (False, [])
    assert faulty["faults"][0] == {
        "where": "command 1 (show)",
        "line": 36,
        "what": "'type' must be one of dispatch, print, writeFile, but it is 'show'",
    }
    assert missing["faults"] == [{"where": "", "line": None, "what": "cannot be read: No such file or directory"}]
    shown = dml_jax_command("check", *(models / name for name in names)).stderr.splitlines()
    faults = [(file["path"], fault) for file in printed["files"] for fault in file["faults"]]
    assert shown == [
        f"error: {':'.join(map(str, filter(None, (path, fault['line']))))}: "
        f"{': '.join(filter(None, (fault['where'], fault['what'])))}"
        for path, fault in faults
    ]


def test_devices_as_json():
    listed = printed_json("run", "--show-devices")["devices"]
    assert [device["label"] for device in listed] == dml_jax_command("run", "-s").output.splitlines()
    first = jax.devices()[0]
    assert listed[0] == {
        "label": f"{first.device_kind} ({first.platform}:{first.id})",
        "kind": first.device_kind,
        "platform": first.platform,
        "id": first.id,
    }


def keys(value):
    """Every key of every object."""
    if isinstance(value, list):
        return set().union(*map(keys, value))
    return set(value).union(*map(keys, value.values())) if isinstance(value, dict) else set()


def test_every_key_is_documented(models):
    (models / "gather_nd.json").write_text("{")
    printed = [
        printed_json("ops"),
        printed_json("check", models / "gather.json", models / "gather_nd.json", status=1),
        printed_json("run", "--show-devices"),
        json.loads(dml_jax_command("run", models / "gather.json", "--json").stdout),
        json.loads(Results.now("a device", {}, []).json()),
        dict.fromkeys(field.name for field in dataclasses.fields(Measured)),
    ]
    pages = PAGE.read_text() + (PAGE.parent / "benchmarks" / "measuring.md").read_text()
    marked = re.findall(r"`([\w.\[\]]+)`", pages)
    documented = {name for path in marked for name in re.findall(r"\w+", path)}
    assert keys(printed) <= documented


def test_the_times_of_a_run_as_json(models):
    options = ("-i", "5", "-w", "2")
    as_json = dml_jax_command("run", models / "gather.json", *options, "--json")
    printed = json.loads(as_json.stdout)
    assert printed["device"] == dml_jax_command("run", "-s").output.splitlines()[0]
    said = dml_jax_command("run", models / "gather.json", *options)
    names = re.findall(r"Dispatch '([^']+)': 5 iterations", said.stdout)
    assert [d["dispatchable"] for d in printed["dispatches"]] == names
    assert len(names) == 5
    for dispatch in printed["dispatches"]:
        assert len(dispatch["milliseconds"]) == 5
        assert min(dispatch["milliseconds"]) > 0
        assert dispatch["warmup"] == 2
    assert not said.stderr
    assert re.sub(r"[\d.]+ ms", "", as_json.stderr) == re.sub(r"[\d.]+ ms", "", said.stdout)


def test_a_run_that_fails_prints_no_json(models):
    (models / "gather_nd.json").write_text("{")
    result = dml_jax_command("run", models / "gather_nd.json", "--json")
    assert result.exit_code == 1
    assert not result.stdout
    assert "not JSON" in result.stderr
