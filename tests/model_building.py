"""Small models for the tests of model files, as Python objects."""

import json

import pytest

from dml_jax.dxdispatch.faults import ModelError
from dml_jax.dxdispatch.model_file import read_model
from dml_jax.dxdispatch.run import run_model

F4 = {"initialValuesDataType": "FLOAT32", "initialValues": [1, 2, 3, 4]}


def zeros(count, data_type="FLOAT32"):
    return {"initialValuesDataType": data_type, "initialValues": {"valueCount": count, "value": 0}}


def tensor(*sizes, data_type="FLOAT32", **fields):
    return {"DataType": data_type, "Sizes": list(sizes), **fields}


def reverse(count=4, data_type="FLOAT32", **tensors):
    """A dispatchable that gathers `count` elements by the indices bound to it."""
    fields = {
        "InputTensor": tensor(count, data_type=data_type),
        "IndicesTensor": tensor(count, data_type="UINT32"),
        "OutputTensor": tensor(count, data_type=data_type),
        **tensors,
    }
    return {"type": "DML_OPERATOR_GATHER", "desc": {**fields, "Axis": 0, "IndexDimensions": 1}}


BACKWARDS = {"initialValuesDataType": "UINT32", "initialValues": {"valueCount": 4, "valueStart": 3, "valueDelta": -1}}
BINDINGS = {"InputTensor": "x", "IndicesTensor": "i", "OutputTensor": "y"}


def dispatch(**bindings):
    return {"type": "dispatch", "dispatchable": "g", "bindings": {**BINDINGS, **bindings}}


def show(name="y", **fields):
    return {"type": "print", "resource": name, **fields}


def write(target, name="y", **fields):
    return {"type": "writeFile", "resource": name, "targetPath": target, **fields}


def model(*commands, dispatchable=None, **resources):
    """Reverses `x` into `y`, with some parts replaced."""
    return {
        "resources": {"x": F4, "i": BACKWARDS, "y": zeros(4), **resources},
        "dispatchables": {"g": dispatchable or reverse()},
        "commands": list(commands) or [dispatch(), show()],
    }


def saved(folder, json_model):
    """The model as a file."""
    path = folder / "model.json"
    path.write_text(json_model if isinstance(json_model, str) else json.dumps(json_model))
    return path


def faults(folder, json_model, **options):
    """Every fault of the model, as text."""
    with pytest.raises(ModelError) as caught:
        read_model(saved(folder, json_model), **options)
    return [str(fault) for fault in caught.value.faults]


def lines_of(folder, json_model, **options):
    """What running the model prints."""
    import jax

    lines = []
    read = read_model(saved(folder, json_model), output=options.get("output"))
    run_model(read, jax.devices()[0], lines.append, **options)
    return [line for line in lines if not line.startswith(("Dispatch", "CPU", "iteration", "The timings"))]
