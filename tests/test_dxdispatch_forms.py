"""Forms that DxDispatch takes beside the plain ones: each file means what its plain form means."""

import json
import tracemalloc

import numpy as np
import pytest
from model_building import BINDINGS, F4, dispatch, lines_of, model, reverse, show, tensor, zeros

from dml_jax.dxdispatch.buffer_printing import pieces

REVERSED = ["Resource 'y': 4, 3, 2, 1"]


def fields_beside_the_type():
    plain = reverse()
    return {"type": plain["type"], **plain["desc"]}


def two_types():
    """DxDispatch tells by `type` that it is an operator, and reads `Type` for which."""
    return {**reverse(), "type": "DML_OPERATOR_TILE", "Type": "DML_OPERATOR_GATHER"}


@pytest.mark.parametrize(
    "dispatchable",
    [
        fields_beside_the_type(),
        two_types(),
        reverse(InputTensor=tensor(4, Flags=[])),
        reverse(InputTensor=tensor(4, Strides=[])),
        reverse(InputTensor=tensor(4, TotalTensorSizeInBytes=0)),
        {**reverse(), "dmlCompileType": "DmlCompileGraph", "executionFlags": "DML_EXECUTION_FLAG_NONE"},
    ],
    ids=["fields beside the type", "two types", "no flags", "no strides", "no size", "how it is compiled"],
)
def test_operators(tmp_path, dispatchable):
    assert lines_of(tmp_path, model(dispatchable=dispatchable)) == REVERSED


def test_flags_in_a_list(tmp_path):
    owned = reverse(InputTensor=tensor(4, Flags=["OWNED_BY_DML"])) | {"bindings": {"InputTensor": "x"}}
    bindings = {name: buffer for name, buffer in BINDINGS.items() if name != "InputTensor"}
    command = {"type": "dispatch", "dispatchable": "g", "bindings": bindings}
    assert lines_of(tmp_path, model(command, show(), dispatchable=owned)) == REVERSED


@pytest.mark.parametrize(
    "of_input",
    [
        {"elementCount": 2},
        {"format": "R32_FLOAT", "shape": [2, 2], "counter": "x", "counterOffsetBytes": 4, "elementStride": 4},
    ],
    ids=["a count below that of the tensor", "what is for HLSL and ONNX"],
)
def test_bindings(tmp_path, of_input):
    command = dispatch(InputTensor={"name": "x", **of_input}) | {"threadGroupCount": [1, 1, 1]}
    assert lines_of(tmp_path, model(command, show())) == REVERSED


def test_resources(tmp_path):
    odd = {"initialValuesDataType": "FLOAT32", "initialValues": ["NaN", "-INF", "Inf", 1], "type": "buffer"}
    assert lines_of(tmp_path, model(show("x"), x=odd)) == ["Resource 'x': nan, -inf, inf, 1"]


def test_text_behind_the_root_object(tmp_path):
    assert lines_of(tmp_path, json.dumps(model()) + "\n} and what somebody left there") == REVERSED


@pytest.mark.parametrize("verbose", [False, True])
def test_large_buffers_are_printed_in_pieces(verbose, monkeypatch):
    """Four times as many numbers need no more memory."""
    monkeypatch.setattr("dml_jax.dxdispatch.buffer_printing._CHUNK", 256)
    peaks = []
    for count in (2**12, 2**14):
        values = np.arange(100_000, 100_000 + count)
        tracemalloc.start()
        try:
            assert sum(map(len, pieces("x", values, verbose))) > 8 * count
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def test_pieces_make_one_line():
    assert "".join(pieces("x", np.arange(3), False)) == "Resource 'x': 0, 1, 2\n"
    long = "".join(pieces("x", np.zeros(70_000, np.uint8), False))
    assert long == f"Resource 'x': {', '.join(['0'] * 70_000)}\n"
    numbered = "".join(pieces("x", np.uint8([1, 255]), True))
    assert numbered == "Resource 'x':\n[0] 1 (0x01)\n[1] 255 (0xFF)\n"


def test_nothing_of_it_hides_a_mistake(tmp_path):
    """Unknown fields are faults as before, beside the type too."""
    from dml_jax.dxdispatch.faults import ModelError

    with pytest.raises(ModelError, match="unknown field 'Axis_'; did you mean 'Axis'"):
        lines_of(tmp_path, model(dispatchable={**fields_beside_the_type(), "Axis_": 0}))
    with pytest.raises(ModelError, match="'type' must be 'buffer'"):
        lines_of(tmp_path, model(x={**F4, "type": "texture"}, z=zeros(1)))
