"""Every kind of field of DirectML's schema, in two made-up structs: read, as JSON, compiled, bound, run, listed."""

import json
from dataclasses import replace
from typing import Annotated

import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits

from dml_jax import (
    AxisDirection,
    CompiledOperator,
    ConstraintError,
    DataType,
    DataTypeError,
    OperatorDesc,
    TensorDesc,
    compile_operator,
    desc_from_json,
    desc_to_json,
)
from dml_jax.catalogue import STRUCTS
from dml_jax.command.ops import _as_json
from dml_jax.core.structs.activation import Activation
from dml_jax.core.structs.activation_fusion import Fused
from dml_jax.core.structs.enumerations import FieldDirection
from dml_jax.core.structs.feature_level import NEWEST
from dml_jax.core.structs.feature_level_tables import ALL_TYPES, RANKS_1_TO_8, levels
from dml_jax.core.structs.fields import (
    FLOAT,
    INT,
    Bool,
    Input,
    Inputs,
    OptionalInput,
    OptionalOutput,
    Output,
    UInt,
    counted_by,
    named,
)
from dml_jax.core.structs.scalar import Scalar, ScalarType, scalar_of, truncated
from dml_jax.core.structs.size_and_scale_bias import ScaleAndBias, ScaleBias, Size, Size2D
from dml_jax.desc_json import read_desc
from dml_jax.dxdispatch.faults import ModelError
from dml_jax.dxdispatch.model_file import read_model
from dml_jax.dxdispatch.run import run_model
from dml_jax.errors import Faults


class MixDesc(OperatorDesc):
    """DML_MIX_OPERATOR_DESC: adds up what it has; made up for these tests.

    Args:
      others: the sizes of `input`.
      bias: the sizes of `input`, or None.
      output: the sizes of `input`.
      copy: the sizes of `input`, or None.
      times: how often `input` counts.
      shift: a number that is added.
      factor: without effect.
      steps: without effect.
      weights: without effect.
      has_factor: without effect.
      scale_size: without effect.
    """

    input: Input
    others: Inputs
    bias: OptionalInput
    output: Output
    copy: OptionalOutput
    times: UInt
    shift: Annotated[int, INT]
    factor: Annotated[float, FLOAT]
    steps: Annotated[tuple[int, ...], counted_by("StepCount", INT)]
    weights: Annotated[tuple[float, ...], counted_by("WeightCount", FLOAT)]
    kind: Annotated[DataType, named(DataType, "DML_TENSOR_DATA_TYPE_")]
    direction: FieldDirection
    has_factor: Bool
    scale_size: Size2D
    scale_bias: ScaleBias
    fused_activation: Fused

    support = levels(("1_0", RANKS_1_TO_8, ALL_TYPES))

    def compute_checked(self, input, others, bias):
        total = sum(others, input * self.times + self.shift)
        total = total if bias is None else total + bias
        return total if self.copy is None else (total, total)


class FillDesc(OperatorDesc):
    """DML_FILL_OPERATOR_DESC: has no input; made up for these tests."""

    output: Output
    value_data_type: ScalarType
    value: Scalar

    support = levels(("2_1", RANKS_1_TO_8, ALL_TYPES), of="output")

    def compute_checked(self):
        return jnp.full(self.output.sizes, scalar_of(self.value, self.value_data_type))


ROW = TensorDesc("INT32", (3,))
MIX = MixDesc(
    input=ROW,
    others=(ROW, TensorDesc("INT32", (3,), strides=(2,))),
    bias=None,
    output=ROW,
    copy=None,
    times=2,
    shift=-1,
    factor=0.5,
    steps=(-1, 2),
    weights=(0.25, float("inf")),
    kind="FLOAT16",
    direction="DML_AXIS_DIRECTION_DECREASING",
    has_factor=1,
    scale_size=Size(3, 4),
    scale_bias=ScaleAndBias(2, 10),
    fused_activation=Activation("ACTIVATION_ELU", (0.5,)),
)
FULL = replace(MIX, bias=ROW, copy=TensorDesc("INT32", (3,), strides=(2,)), scale_bias=None, fused_activation=None)
FILL = FillDesc(TensorDesc("FLOAT16", (2, 2)), "FLOAT16", 1.5)
X, A, B = np.int32([1, 2, 3]), np.int32([10, 20, 30]), np.int32([100, -1, 200, -1, 300])
MIXED = np.int32([111, 223, 335])

every_desc = pytest.mark.parametrize("desc", [MIX, FULL, FILL], ids=["left out", "given", "no input"])


@pytest.fixture(autouse=True)
def known(monkeypatch):
    """Both operators, as if they were in the catalogue."""
    for cls in (MixDesc, FillDesc):
        monkeypatch.setitem(STRUCTS, cls.operator_type, cls)


# Reading.


def test_fields_are_kept_in_one_form():
    assert MIX.kind is DataType.FLOAT16
    assert MIX.direction is AxisDirection.DECREASING
    assert MIX.has_factor is True
    assert replace(MIX, has_factor=np.int8(0)).has_factor is False
    assert MIX.scale_bias == ScaleAndBias(2.0, 10.0)
    assert replace(MIX, steps=[np.int8(-1), 2], scale_size=(3, 4), scale_bias=[2, 10], kind=2, direction=1) == MIX
    assert replace(MIX, has_factor=np.True_) == MIX
    assert replace(MIX, factor=jnp.dtype("bfloat16").type(0.5)) == replace(MIX, factor=0.5)
    assert replace(MIX, steps=jnp.int32([-1, 2])) == replace(MIX, steps=iter([-1, 2])) == MIX
    assert hash(replace(MIX)) == hash(MIX)
    for number in (3.4028235e38, -float("inf"), 0.1, 1e-300):  # 32 bits are meant, and rounding waits
        assert replace(MIX, factor=number).factor == number


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"others": ()}, ConstraintError, "MIX: OtherTensors must hold a tensor, but it is empty"),
        ({"others": ROW}, DataTypeError, "OtherTensors must be a sequence of TensorDesc, but it is"),
        ({"others": (ROW, 3)}, DataTypeError, r"OtherTensors\[1\] must be a TensorDesc, but it is int"),
        ({"input": None}, DataTypeError, "InputTensor must be a TensorDesc, but it is NoneType"),
        ({"bias": (3,)}, DataTypeError, "BiasTensor must be a TensorDesc"),
        (
            {"others": (ROW, TensorDesc("INT32", (1, 3)))},
            ConstraintError,
            "OtherTensors.DimensionCount must equal InputTensor.DimensionCount, but they are 2 and 1",
        ),
        ({"bias": TensorDesc("INT8", (3,))}, DataTypeError, "BiasTensor.DataType must equal InputTensor.DataType"),
        ({"copy": TensorDesc("INT32", (3,), (0,))}, ConstraintError, "CopyTensor.Strides must give every coordinate"),
        ({"times": -1}, ConstraintError, r"Times must be in \[0, 2\*\*32 - 1\], but it is -1"),
        ({"times": 2**32}, ConstraintError, r"Times must be in \[0, 2\*\*32 - 1\]"),
        ({"times": 1.0}, DataTypeError, "Times must be an integer"),
        ({"shift": -(2**31) - 1}, ConstraintError, r"Shift must be in \[-2\*\*31, 2\*\*31 - 1\]"),
        ({"factor": "1"}, DataTypeError, "Factor must be a real number"),
        ({"factor": True}, DataTypeError, "Factor must be a real number"),
        ({"factor": 10**400}, DataTypeError, "Factor must be a real number"),
        ({"factor": 1e300}, ConstraintError, r"MIX: Factor must be a number that float32 holds, but it is 1e\+300"),
        ({"factor": 3.4028236e38}, ConstraintError, "Factor must be a number that float32 holds"),
        ({"weights": (1, -1e39)}, ConstraintError, r"Weights\[1\] must be a number that float32 holds"),
        ({"scale_bias": (1, 1e39)}, ConstraintError, r"ScaleBias.Bias must be a number that float32 holds"),
        ({"steps": (1, 2.5)}, DataTypeError, r"Steps\[1\] must be an integer"),
        ({"steps": "12"}, DataTypeError, "Steps must be a sequence of integers"),
        ({"steps": {1, 2}}, DataTypeError, "Steps must be a sequence of integers"),
        ({"weights": (1, None)}, DataTypeError, r"Weights\[1\] must be a real number"),
        ({"direction": 2}, ConstraintError, "Direction must be one of INCREASING, DECREASING, but it is 2"),
        ({"has_factor": 2}, DataTypeError, "HasFactor must be True or False, but it is 2"),
        ({"has_factor": 1.0}, DataTypeError, "HasFactor must be True or False, but it is 1.0"),
        ({"has_factor": "true"}, DataTypeError, "HasFactor must be True or False, but it is 'true'"),
        ({"has_factor": None}, DataTypeError, "HasFactor must be True or False"),
        ({"kind": "HALF"}, ConstraintError, "Kind must be one of FLOAT32, FLOAT16"),
        ({"scale_size": 3}, DataTypeError, "ScaleSize must be a Size of width and height"),
        ({"scale_size": (1, -1)}, ConstraintError, "ScaleSize.Height must be in"),
        ({"scale_bias": (1, 2, 3)}, DataTypeError, "ScaleBias must be a ScaleAndBias of scale and bias"),
        ({"fused_activation": "ELU"}, DataTypeError, "FusedActivation must be an Activation"),
    ],
)
def test_what_a_field_cannot_hold_is_refused(change, error, match):
    with pytest.raises(error, match=match):
        replace(MIX, **change)


# JSON.


@every_desc
def test_json_and_back(desc):
    form = json.loads(json.dumps(desc_to_json(desc)))
    assert desc_from_json(form) == desc


def test_the_json_of_every_kind():
    form = desc_to_json(MIX)["desc"]
    assert list(form)[:4] == ["InputTensor", "InputCount", "OtherTensors", "OutputTensor"]
    assert form["StepCount"] == 2
    assert (form["Steps"], form["Weights"], form["Shift"], form["Factor"]) == ([-1, 2], [0.25, "inf"], -1, 0.5)
    assert form["ScaleSize"] == {"Width": 3, "Height": 4}
    assert form["ScaleBias"] == {"Scale": 2.0, "Bias": 10.0}
    assert form["FusedActivation"] == {"Type": "ACTIVATION_ELU", "Alpha": 0.5}
    assert form["Kind"] == "FLOAT16"
    assert form["Direction"] == "DECREASING"
    assert form["HasFactor"] is True
    assert desc_from_json({"type": "MIX", "desc": form | {"HasFactor": 0}}) == replace(MIX, has_factor=False)
    assert "BiasTensor" not in form


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"StepCount": 3}, "MIX: StepCount is 3 and Steps has 2 entries"),
        ({"Steps": 3}, "Steps must be a sequence of integers"),
        ({"OtherTensors": [{"Sizes": [3]}]}, r"MIX: OtherTensors\[0\]: DataType is missing"),
        ({"ScaleSize": {"Width": 3}}, "MIX: ScaleSize: Height is missing"),
        ({"ScaleSize": {"Width": 3, "Hight": 4}}, "MIX: ScaleSize: unknown field 'Hight'; did you mean 'Height'"),
        ({"FusedActivation": {"Type": "ELU"}}, "MIX: FusedActivation: unknown activation 'ELU'"),
        ({"FusedActivation": {"Type": "ACTIVATION_ELU", "Beta": 1}}, "MIX: FusedActivation: ACTIVATION_ELU: the param"),
        ({"Times": None}, "MIX: Times is null, which only an optional field may be"),
        ({"InputTensor": None}, "MIX: InputTensor is null, which only an optional field may be"),
        ({"OtherTensors": [None]}, r"MIX: OtherTensors\[0\]: a tensor must be a JSON object, but it is null"),
    ],
)
def test_json_that_is_refused(change, match):
    form = desc_to_json(MIX)
    form["desc"] |= change
    with pytest.raises(ConstraintError, match=match):
        desc_from_json(form)


def test_every_fault_of_an_array_names_its_element():
    form = desc_to_json(MIX)
    form["desc"]["OtherTensors"] = [
        {"Sizes": [3]},
        {"DataType": "INT32", "Sizes": [3]},
        {"DataType": "FOO", "Sizes": [3]},
    ]
    faults = Faults()
    assert read_desc(form, faults) is None
    assert [str(error).split(" must")[0] for error in faults.errors] == [
        "MIX: OtherTensors[0]: DataType is missing",
        "MIX: OtherTensors[2]: DataType",
    ]
    with pytest.raises(ConstraintError, match=r"OtherTensors\.DimensionCount must equal"):
        replace(MIX, others=(ROW, TensorDesc("INT32", (1, 3))))


def test_optional_fields_may_be_null_and_counts_left_out():
    form = desc_to_json(replace(MIX, scale_bias=None))
    form["desc"] |= {"BiasTensor": None, "ScaleBias": None}
    for count in ("StepCount", "WeightCount", "InputCount"):
        form["desc"].pop(count, None)
    assert desc_from_json(form) == replace(MIX, scale_bias=None)


@pytest.mark.parametrize(
    ("json_value", "data_type", "expected"),
    [
        (1.5, "FLOAT16", np.float16(1.5)),
        ("inf", "FLOAT32", np.float32(np.inf)),
        ({"UInt16": 15872}, "FLOAT16", np.float16(1.5)),  # the union has no half: its bits
        ({"Float32": 2.5}, "FLOAT32", np.float32(2.5)),
        (-2, "INT8", np.int8(-2)),
        ({"UInt8": 254}, "INT8", np.int8(-2)),
        (2**64 - 1, "UINT64", np.uint64(2**64 - 1)),
        (2**70, "FLOAT64", np.float64(2**70)),
        ("-inf", "FLOAT16", np.float16("-inf")),
    ],
)
def test_a_scalar_union_is_a_number_or_bits(json_value, data_type, expected):
    form = desc_to_json(replace(FILL, output=TensorDesc(data_type, (2, 2)), value_data_type=data_type))
    form["desc"]["Value"] = json_value
    desc = desc_from_json(form)
    found = scalar_of(desc.value, desc.value_data_type)
    assert (found.dtype, found.tobytes()) == (expected.dtype, expected.tobytes())
    assert desc_from_json(json.loads(json.dumps(desc_to_json(desc)))) == desc


@pytest.mark.parametrize(
    ("value", "data_type"),
    [
        (300, "UINT8"),
        (-1, "UINT32"),
        (0.5, "INT32"),
        (2**64, "UINT64"),
        (65520, "FLOAT16"),
        (1e39, "FLOAT32"),
        (10**400, "FLOAT64"),
    ],
)
def test_a_scalar_that_the_type_does_not_hold(value, data_type):
    with pytest.raises(DataTypeError, match=f"a scalar of {data_type} must be a number that it holds"):
        scalar_of(value, DataType[data_type])


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (2.9, np.uint8(2)),
        (-2.9, np.int8(-2)),
        (-0.5, np.uint64(0)),
        (300, np.uint8(255)),
        (-float("inf"), np.int64(-(2**63))),
        (1e30, np.uint64(2**64 - 1)),
        (float("nan"), np.int32(0)),
        (2**31 - 1, np.int32(2**31 - 1)),
        (1e300, np.float64("inf")),
        (0.1, np.float64(np.float32(0.1))),
        (65520, np.float16("inf")),
        (-0.0, np.float16(-0.0)),
    ],
)
def test_a_float_is_truncated_to_the_type(value, wanted):
    """It is one of 32 bits before."""
    assert_same_bits(truncated(value, DataType.of(wanted.dtype)), wanted)


@pytest.mark.parametrize(
    "bad", [{"UInt8": 300}, {"UInt8": -1}, {"Int8": "nan"}, {"Float32": "foo"}, {"Int8": None}, {"Int8": 0.5}]
)
def test_a_member_of_the_union_holds_its_number(bad):
    form = desc_to_json(FILL)
    form["desc"]["Value"] = bad
    with pytest.raises(ConstraintError, match=r"FILL: Value: U?(Int8|Float32) must be a number that it holds"):
        desc_from_json(form)


@pytest.mark.parametrize("bad", [{"Half": 1}, {"Int8": 1, "UInt8": 1}, {}])
def test_no_member_of_the_union(bad):
    form = desc_to_json(FILL)
    form["desc"]["Value"] = bad
    with pytest.raises(ConstraintError, match="a scalar must be a number, or an object with one of Int8, UInt8"):
        desc_from_json(form)


@pytest.mark.parametrize(
    "kind", ["FLOAT16", "DML_TENSOR_DATA_TYPE_FLOAT16", 2, np.float16, jnp.float16, np.dtype("f2")]
)
def test_every_way_to_name_the_type_of_a_scalar_union(kind):
    assert replace(FILL, value_data_type=kind) == FILL


@pytest.mark.parametrize("kind", ["float7", np.bool_, object, 99])
def test_what_is_no_type_of_a_scalar_union(kind):
    with pytest.raises(ConstraintError, match="FILL: ValueDataType must be one of FLOAT32, FLOAT16"):
        replace(FILL, value_data_type=kind)


# Running.


def test_ports_are_the_tensors_one_by_one():
    assert list(MIX.ports()) == ["input", "others[0]", "others[1]", "output"]
    assert list(FULL.ports()) == ["input", "others[0]", "others[1]", "bias", "output", "copy"]
    assert (MixDesc.input_names(), MixDesc.output_names()) == (("input", "others", "bias"), ("output", "copy"))
    assert (list(FILL.input_ports()), FILL.shown("output")) == ([], "OutputTensor")
    assert FULL.shown("others[1]") == "OtherTensors[1]"


def test_compute():
    assert_same_bits(MIX.compute(X, A, np.ascontiguousarray(B[::2])), MIXED)
    total, copy = FULL.compute(X, A, np.ascontiguousarray(B[::2]), X)
    assert_same_bits(total, MIXED + X)
    assert_same_bits(copy, MIXED + X)
    assert_same_bits(FILL.compute(), np.full((2, 2), 1.5, np.float16))
    with pytest.raises(ConstraintError, match=r"takes arrays for InputTensor, OtherTensors\[0\], OtherTensors"):
        MIX.compute(X, A)
    with pytest.raises(ConstraintError, match="FILL: takes arrays for nothing, but there are 1"):
        FILL.compute(X)


def test_compiled_with_strides_and_restored():
    pytest.importorskip("flatbuffers")
    for run in (compile_operator(MIX), CompiledOperator.deserialize(compile_operator(MIX).serialize())):
        assert_same_bits(run(X, A, B), MIXED)
    for run in (compile_operator(FULL), CompiledOperator.deserialize(compile_operator(FULL).serialize())):
        total, copy = run(X, A, B, X)
        assert_same_bits(total, MIXED + X)
        assert_same_bits(copy, np.int32([112, 0, 225, 0, 338]))
        outs = jnp.full(3, 9, jnp.int32), jnp.full(6, 9, jnp.int32)
        total, copy = run(X, A, B, X, out=outs)
        assert_same_bits(copy, np.int32([112, 9, 225, 9, 338, 9]))
        assert outs[1].is_deleted()
    assert_same_bits(compile_operator(FILL)(), np.full(4, 1.5, np.float16))


def test_bound_outputs_that_are_refused():
    run, out = compile_operator(FULL), jnp.zeros(6, jnp.int32)
    for outs, match in [
        (out, r"out= must be a tuple of buffers for OutputTensor, CopyTensor, but it is"),
        ((out,), "out= must be a tuple of buffers for OutputTensor, CopyTensor, but it has 1"),
        ((out, out), r"out= for CopyTensor must not be bound twice: both are written"),
        ((out, out[:2]), r"the buffer of CopyTensor \(out=\) must be 1-D with at least 5 elements"),
    ]:
        with pytest.raises(ConstraintError, match=match):
            run(X, A, B, X, out=outs)


def test_owned_tensors_of_an_array():
    owned = replace(MIX, others=(ROW, replace(ROW, flags="OWNED_BY_DML")))
    run = compile_operator(owned, others=(None, A))
    assert list(run.buffers) == ["input", "others[0]", "output"]
    assert_same_bits(run(X, A), 2 * X - 1 + 2 * A)
    with pytest.raises(ConstraintError, match=r"OtherTensors\[1\] must be bound at compilation, as others=, but"):
        compile_operator(owned)
    with pytest.raises(ConstraintError, match=r"OtherTensors\[0\] must be bound at every call"):
        compile_operator(owned, others=(A, A))
    for wrong, fact in ((A, "it is ndarray"), ((None, A, None), "it has 3")):
        with pytest.raises(ConstraintError, match=f"others= must be a sequence of 2, a buffer or None .*but {fact}"):
            compile_operator(owned, others=wrong)


# Programs.


def model(desc, bindings, resources):
    form = desc_to_json(desc)
    return {
        "resources": {
            name: {"initialValuesDataType": "INT32", "initialValues": values} for name, values in resources.items()
        },
        "dispatchables": {"op": form},
        "commands": [
            {"type": "dispatch", "dispatchable": "op", "bindings": bindings},
            *({"type": "print", "resource": name} for name in resources if name.startswith("out")),
        ],
    }


RESOURCES = {"x": [1, 2, 3], "a": [10, 20, 30], "b": [100, -1, 200, -1, 300], "out": [0] * 3, "out copy": [7] * 5}
BINDINGS = {
    "InputTensor": "x",
    "OtherTensors": ["a", {"name": "b", "elementCount": 5}],
    "BiasTensor": "x",
    "OutputTensor": "out",
    "CopyTensor": "out copy",
}


def run_lines(path, content):
    import jax

    path.write_text(json.dumps(content))
    said = []
    run_model(read_model(path), jax.devices("cpu")[0], said.append)
    return said


def test_a_model_file_binds_arrays_as_lists(tmp_path):
    said = run_lines(tmp_path / "mix.json", model(FULL, BINDINGS, RESOURCES))
    assert said[1:] == ["Resource 'out': 112, 225, 338", "Resource 'out copy': 112, 7, 225, 7, 338"]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"OtherTensors": ["a"]}, "dispatchable 'op': OtherTensors: a list of 2 must be bound, but there are 1"),
        ({"OtherTensors": "a"}, "dispatchable 'op': OtherTensors: a list of 2 must be bound, but there are 1"),
        ({"OtherTensors": ["a", None]}, "dispatchable 'op': OtherTensors[1]: it is not bound"),
        ({"OtherTensors": ["a", "c"]}, "dispatchable 'op': OtherTensors[1]: no resource is named 'c'"),
        ({"BiasTensor": ["x", "x"]}, "dispatchable 'op': BiasTensor: one buffer is bound to one tensor"),
        ({"CopyTensor": "out"}, "dispatchable 'op': CopyTensor: INT32[3] strides (2) needs 20 bytes, but 12"),
        ({"OutputTensor": "x"}, "MIX does not execute in place, but InputTensor and OutputTensor share bytes of 'x'"),
        ({"OutputTensor": "out copy"}, "MIX does not execute in place, but CopyTensor and OutputTensor share bytes of"),
    ],
)
def test_bindings_that_are_refused(tmp_path, change, fault):
    path = tmp_path / "mix.json"
    path.write_text(json.dumps(model(FULL, BINDINGS | change, RESOURCES)))
    with pytest.raises(ModelError) as info:
        read_model(path)
    assert any(fault in str(one) for one in info.value.faults), info.value


def test_ops_lists_every_kind():
    (listed,) = _as_json([MixDesc], NEWEST)["operators"]
    kinds = {field["name"]: field["kind"] for field in listed["fields"]}
    assert kinds == {
        "InputTensor": "input tensor",
        "OtherTensors": "input tensor array",
        "BiasTensor": "input tensor",
        "OutputTensor": "output tensor",
        "CopyTensor": "output tensor",
        "Times": "uint",
        "Shift": "int",
        "Factor": "float",
        "Steps": "int array",
        "Weights": "float array",
        "Kind": "enum",
        "Direction": "enum",
        "HasFactor": "bool",
        "ScaleSize": "size 2d",
        "ScaleBias": "scale bias",
        "FusedActivation": "activation",
    }
    assert [field["name"] for field in listed["fields"] if field["optional"]] == [
        "BiasTensor",
        "CopyTensor",
        "ScaleBias",
        "FusedActivation",
    ]


# Numbers that equal each other only if their bits do.


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (0.0, np.float16(0.0)),
        (-0.0, np.float16(-0.0)),
        (np.float16(-0.0), np.float16(-0.0)),
        (np.uint16(15872), np.float16(1.5)),
        (15872, np.float16(15872)),
    ],
)
def test_programs_of_numbers_that_are_equal_and_not_the_same(value, wanted):
    for before in (0.0, np.uint16(0), 15872):
        compile_operator(replace(FILL, value=before))()
    assert_same_bits(compile_operator(replace(FILL, value=value))(), np.full(4, wanted))


def test_equal_descriptors_have_the_bits_of_their_numbers():
    assert replace(FILL, value=0.0) != replace(FILL, value=-0.0)
    assert replace(FILL, value=np.uint16(3)) != replace(FILL, value=3)
    nan = replace(FILL, value=float("nan"))
    assert {nan: 1}[replace(FILL, value=float("nan"))] == 1
    assert replace(MIX, factor=0.5).factor == 0.5
