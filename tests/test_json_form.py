"""The JSON form of descriptors: without loss both ways, and every kind of bad input refused by name."""

from dataclasses import replace

import pytest
from catalogue_cases import DESCS
from hypothesis import given
from hypothesis import strategies as st

from dml_jax import ConstraintError, DataType, TensorDesc, desc_from_json, desc_to_json
from dml_jax.catalogue import STRUCTS
from dml_jax.desc_json import read_desc
from dml_jax.errors import Faults


@given(
    st.sampled_from([one for one in DataType if one.bits >= 8]),
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 99)), min_size=1, max_size=8),
    st.booleans(),
    st.booleans(),
    st.integers(0, 3),
    st.sampled_from([0, 8, 4096]),
)
def test_every_field_of_a_tensor_survives(data_type, dims, strided, owned, slack, alignment):
    sizes, strides = zip(*dims, strict=True)
    tensor = TensorDesc(
        data_type, sizes, strides if strided else None, "OWNED_BY_DML" if owned else "NONE", None, alignment
    )
    tensor = replace(tensor, total_tensor_size_in_bytes=tensor.total_tensor_size_in_bytes + slack)
    gather = DESCS["GATHER_ELEMENTS"]
    plain = TensorDesc(data_type, sizes)
    indices = TensorDesc("INT32", sizes)
    desc = replace(gather, input=tensor, indices=indices, output=plain, axis=0)
    assert desc_from_json(desc_to_json(desc)) == desc


def form(**changes):
    """A depth-to-space in JSON form, some of its fields replaced; None removes one."""
    tensor, output = {"DataType": "FLOAT32", "Sizes": [1, 4, 1, 1]}, {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 2]}
    desc = {"InputTensor": tensor, "OutputTensor": output, "BlockSize": 2, "Order": "DEPTH_COLUMN_ROW"} | changes
    return {"type": "DML_OPERATOR_DEPTH_TO_SPACE1", "desc": {k: v for k, v in desc.items() if v is not None}}


def test_spellings_that_dxdispatch_takes():
    desc = desc_from_json(form())
    full = {
        "Type": "DML_TENSOR_TYPE_BUFFER",
        "Desc": {
            "DataType": "DML_TENSOR_DATA_TYPE_FLOAT32",
            "Flags": "DML_TENSOR_FLAG_NONE",
            "DimensionCount": 4,
            "Sizes": [1, 4, 1, 1],
            "Strides": None,
            "TotalTensorSizeInBytes": 16,
            "GuaranteedBaseOffsetAlignment": 0,
        },
    }
    assert desc_from_json(form(InputTensor=full, Order="DML_DEPTH_SPACE_ORDER_DEPTH_COLUMN_ROW")) == desc
    capital = {"Type": form()["type"].removeprefix("DML_OPERATOR_"), "Desc": form()["desc"]}
    assert desc_from_json(capital) == desc
    assert STRUCTS["SCATTER_ELEMENTS"] is STRUCTS["SCATTER"]


GOOD = {"DataType": "FLOAT32", "Sizes": [1, 4, 1, 1]}


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ([], "a descriptor must be a JSON object"),
        ({}, '"type" is missing'),
        ({"type": "DML_OPERATOR_GATHR"}, "unknown operator 'GATHR'; did you mean 'GATHER'"),
        ({"type": "DML_OPERATOR_SORT_BY_KEY"}, "unknown operator 'SORT_BY_KEY'; the nearest are "),
        ({**form(), "descr": {}}, "unknown field 'descr'; did you mean 'desc'"),
        ({**form(), "desc": 3}, '"desc" must be a JSON object'),
        (form(inputTensor=GOOD), "unknown field 'inputTensor'; did you mean 'InputTensor'"),
        (form(BlockSize=None), "DEPTH_TO_SPACE1: BlockSize is missing"),
        (form(BlockSize="2"), "BlockSize must be an integer, but it is '2'"),
        (form(BlockSize=2.0), "BlockSize must be an integer, but it is 2.0"),
        (form(Order="DCR"), "Order: its name must be one of DEPTH_COLUMN_ROW, COLUMN_ROW_DEPTH, but it is 'DCR'"),
        (form(Order=1.0), "Order must be an integer, but it is 1.0"),
        (form(Order=2), "Order must be one of"),
        (form(InputTensor=[]), "InputTensor: a tensor must be a JSON object"),
        (form(InputTensor={**GOOD, "sizes": [1]}), "InputTensor: unknown field 'sizes'; did you mean 'Sizes'"),
        (form(InputTensor={"Sizes": [1]}), "InputTensor: DataType is missing"),
        (form(InputTensor={**GOOD, "DataType": "float32x"}), "InputTensor: DataType must be one of"),
        (form(InputTensor={**GOOD, "DataType": 1}), "DataType must be a name such as FLOAT32"),
        (form(InputTensor={**GOOD, "DimensionCount": 3}), "DimensionCount is 3 and Sizes has 4 entries"),
        (form(InputTensor={**GOOD, "Type": "INVALID"}), "Type must be DML_TENSOR_TYPE_BUFFER"),
        (form(InputTensor={"Desc": GOOD, "Flags": "NONE"}), "'Flags' stands beside Desc"),
        (form(InputTensor={**GOOD, "Sizes": [1, 4, 0, 1]}), "dimension 2 has 0"),
        (form(InputTensor={**GOOD, "Sizes": [2**40]}), r"must be in \[1, 2\*\*32 - 1\], but dimension 0 has"),
        (form(BlockSize=3), r"the channels of InputTensor must be a multiple of BlockSize \* BlockSize"),
    ],
)
def test_bad_forms_are_refused_by_name(bad, match):
    with pytest.raises(ConstraintError, match=match):
        desc_from_json(bad)


def find_faults(form, *level):
    faults = Faults()
    assert read_desc(form, faults, *level) is None
    return faults.errors


def test_all_faults_are_found():
    fields = find_faults(form(BlockSize=None, blockSize=2, InputTensor={"Sizes": [1]}))
    assert [str(e).split(";")[0] for e in fields] == [
        "DEPTH_TO_SPACE1: unknown field 'blockSize'",
        "DEPTH_TO_SPACE1: InputTensor: DataType is missing",
        "DEPTH_TO_SPACE1: BlockSize is missing",
    ]
    rules = find_faults(form(BlockSize=0, OutputTensor={"DataType": "INT8", "Sizes": [1, 1, 2, 2]}), "1_0")
    assert [str(e).split(",")[0] for e in rules] == [
        "DEPTH_TO_SPACE1: OutputTensor.DataType must equal InputTensor.DataType",
        "DEPTH_TO_SPACE1: BlockSize must be at least 1",
        "DEPTH_TO_SPACE1: the operator must exist at feature level 1_0",
    ]


def test_keys_that_are_no_strings():
    bad = form()
    bad["desc"][3] = 1
    with pytest.raises(ConstraintError, match="unknown field 3"):
        desc_from_json(bad)
