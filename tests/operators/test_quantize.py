"""QUANTIZE and DEQUANTIZE by blocks, and integers of 4 bits: in buffers, graphs and model files."""

import json
from dataclasses import replace
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits
from draws import dims
from operator_cases import Example, Struct, f32, u8
from quantization_cases import dequantized, fill, quantized
from refusals import refuses

from dml_jax import (
    CompiledOperator,
    Constant,
    ConstraintError,
    DataType,
    DataTypeError,
    ElementWiseIdentityDesc,
    GraphBuilder,
    TensorDesc,
    compile_operator,
    desc_from_json,
    desc_to_json,
)
from dml_jax.core.tensors.int4_packing import as_bytes, as_elements
from dml_jax.descs import DequantizeDesc, QuantizeDesc
from dml_jax.dxdispatch.faults import ModelError
from dml_jax.dxdispatch.model_file import read_model
from dml_jax.dxdispatch.run import run_model

pytestmark = pytest.mark.device

INT4, UINT4 = (np.dtype(of) for of in (jnp.int4, jnp.uint4))


def i4(*sizes, **keywords):
    return TensorDesc("INT4", sizes, **keywords)


def u4(*sizes, **keywords):
    return TensorDesc("UINT4", sizes, **keywords)


def parameters(arrays):
    return (*arrays, None)[:2]


def real(desc, q, quantizations):
    scale, zero_point = parameters(quantizations)
    with np.errstate(over="ignore"):
        return dequantized(q, scale, zero_point).astype(scale.dtype)


def draw(rng):
    """Blocks along every dimension: of one element, of all, of some."""
    while True:
        scale = dims(rng, int(rng.integers(1, 9)), 30)
        sizes = [n * int(rng.integers(1, 4)) for n in scale]
        if prod(sizes) <= 120:
            break
    kind = int(rng.integers(1, 3))
    return {"input": sizes, "output": sizes, "quantizations": [scale] * kind, "quantization_type": kind}


def typed(real, small):
    return lambda types: {"quantizations[0]": types[real], "quantizations[1]": types[small]}


FOUR, TWO = (1, 1, 1, 4), (1, 1, 1, 2)
BOTH = "SCALE_ZERO_POINT"
SMALLER = QuantizeDesc(f32(*FOUR), BOTH, (f32(*TWO), i4(*TWO)), i4(*FOUR))
GREATER = DequantizeDesc(u4(*FOUR), BOTH, (f32(*TWO), u4(*TWO)), f32(*FOUR))
BYTE = replace(SMALLER, quantizations=(f32(*TWO), TensorDesc("UINT8", TWO)), output=TensorDesc("UINT8", FOUR))
BREAKS = {
    "counted(quantizations)": {"quantizations": (f32(*TWO),)},
    "blocks(quantizations)": {"quantizations": (f32(1, 1, 1, 3), u4(1, 1, 1, 3))},
    "same_sizes(quantizations)": {"quantizations": (f32(*TWO), u4(*FOUR))},
    "same_sizes(output, input)": {"output": f32(*TWO)},
    "types(quantizations)": {"quantizations": (TensorDesc("FLOAT16", TWO), u4(*TWO))},
}
STRUCTS = (
    Struct(
        SMALLER,
        breaks=BREAKS,
        # DirectML's page has none.
        examples=(
            Example(SMALLER, [[1, -3.5, 20, 900], [0.5, 10], [1, -2]], [[3, -6, 0, 7]]),
            Example(BYTE, [[1, -3.5, 20, 900], [0.5, 10], [1, 2]], [[3, 0, 4, 92]]),
        ),
        draw=draw,
        expected=lambda desc, x, tensors: quantized(x, *parameters(tensors), desc.output.dtype),
        fill=fill,
        typed=typed("input", "output"),
    ),
    Struct(
        GREATER,
        breaks=BREAKS | {"same_sizes(output, input)": {"output": f32(*TWO)}},
        # That of ONNX Runtime.
        examples=(Example(GREATER, [[1, 2, 8, 15], [0.5, 2], [1, 8]], [[0, 0.5, 0, 14]]),),
        draw=draw,
        expected=real,
        fill=fill,
        typed=typed("output", "input"),
    ),
)


# Elements of 4 bits in memory.


def test_two_elements_lie_in_a_byte_the_first_in_the_low_bits():
    data = np.uint8([0x21, 0xF8])
    assert as_elements(data, DataType.UINT4, 4).tolist() == [1, 2, 8, 15]
    assert as_elements(data, DataType.INT4, 3).tolist() == [1, 2, -8]
    assert_same_bits(as_bytes(np.array([1, 2, -8, -1]).astype(INT4)), data)
    assert_same_bits(as_bytes(np.array([1, 2, 8]).astype(UINT4)), np.uint8([0x21, 0x08]))


def test_sizes_in_bytes():
    """Rounded up to whole bytes, then to 4 of them; strides count elements."""
    assert [DataType.INT4.byte_count(n) for n in (1, 2, 5)] == [1, 1, 3]
    assert i4(5).total_tensor_size_in_bytes == 4
    assert i4(3, 3, strides=(4, 1)).total_tensor_size_in_bytes == 8
    assert (DataType.UINT4.bits, DataType.UINT4.integers, DataType.INT4.integers) == (4, range(16), range(-8, 8))


def test_buffers_are_bytes_or_elements():
    run = compile_operator(GREATER)
    assert run.buffers["input"].dtype == UINT4
    scale, wanted = np.float32([0.5, 2]), np.float32([0, 0.5, 0, 14])
    elements, zero_points = np.array([1, 2, 8, 15]).astype(UINT4), np.array([1, 8]).astype(UINT4)
    assert_same_bits(run(elements, scale, zero_points), wanted)
    assert_same_bits(run(jnp.array(elements), scale, np.uint8([0x81])), wanted)
    assert_same_bits(run(jnp.uint8([0x21, 0xF8]), scale, np.uint8([0x81, 0])), wanted)
    assert_same_bits(jax.jit(run)(jnp.uint8([0x21, 0xF8]), scale, zero_points), wanted)
    assert_same_bits(
        GREATER.compute(elements.reshape(FOUR), scale.reshape(TWO), zero_points.reshape(TWO)).ravel(), wanted
    )
    with pytest.raises(
        DataTypeError, match="must have elements of uint4 or bytes, uint8, of two each, but they are int8"
    ):
        run(np.int8([1, 2, 3, 4]), scale, zero_points)
    with pytest.raises(ConstraintError, match="must be 1-D with at least 4 elements, but its shape is"):
        run(np.uint8([0x21]), scale, zero_points)


def test_odd_rows_begin_within_bytes_and_on_them():
    scale, wanted = np.float32([1]), np.float32([1, 2, 3, 4, 5, 6])
    for strides, data in (((3, 1), [0x21, 0x43, 0x65]), ((4, 1), [0x21, 0x93, 0x54, 0x96])):
        tensor = u4(2, 3, strides=strides)
        run = compile_operator(DequantizeDesc(tensor, "SCALE", [f32(1, 1)], f32(2, 3)))
        assert_same_bits(run(np.uint8(data), scale), wanted)


def test_a_bound_output_keeps_what_lies_between():
    run = compile_operator(QuantizeDesc(f32(2), "SCALE", [f32(1)], i4(2, strides=(2,))))
    out = jnp.array(np.array([5, 6, 7]).astype(INT4))
    assert np.asarray(run(np.float32([-1, 9]), np.float32([1]), out=out)).tolist() == [-1, 6, 7]


def test_serialized_with_an_owned_buffer():
    desc = replace(GREATER, input=u4(*FOUR, flags="OWNED_BY_DML"))
    run = compile_operator(desc, input=np.uint8([0x21, 0xF8]))
    arrays = np.float32([0.5, 2]), np.uint8([0x81])
    restored = CompiledOperator.deserialize(run.serialize())
    assert_same_bits(restored(*arrays), np.float32([0, 0.5, 0, 14]))
    assert_same_bits(run(*arrays), np.float32([0, 0.5, 0, 14]))


# Graphs.


def graph():
    builder = GraphBuilder()
    x = builder.input("x", ("FLOAT32", (4,)))
    scale = builder.constant(np.float32([0.5, 10]))
    zero_point = builder.constant(np.array([1, -2]).astype(INT4))
    small = builder.quantize(x, "SCALE_ZERO_POINT", [scale, zero_point])
    return builder, small, scale, zero_point


def test_a_graph_infers_types_and_holds_constants():
    builder, small, scale, zero_point = graph()
    assert small.tensor.data_type is DataType.INT4
    desc = builder.build({"y": builder.dequantize(small, "SCALE_ZERO_POINT", [scale, zero_point])})
    assert [len(node.data) for node in desc.nodes.values() if isinstance(node, Constant)] == [8, 1]
    made = compile_operator(desc)(np.float32([1, -3.5, 20, 900]))
    assert_same_bits(made, np.float32([1, -3.5, 20, 90]))
    assert desc_from_json(json.loads(json.dumps(desc_to_json(desc)))) == desc


def test_the_same_bytes_are_read_as_other_tensors():
    """INT4 as bytes, and bytes as UINT4."""
    builder, small, *_ = graph()
    data = builder.reinterpret(small, u8(2))
    one = builder.constant(np.float32([1]))
    numbers = builder.dequantize(builder.reinterpret(data, TensorDesc("UINT4", (4,))), "SCALE", [one])
    desc = builder.build({"bytes": builder.element_wise_identity(data), "numbers": numbers})
    made = compile_operator(desc)(np.float32([1, -3.5, 20, 900]))
    assert_same_bits(made[0], np.uint8([0xA3, 0x70]))
    assert_same_bits(made[1], np.float32([3, 10, 0, 7]))


# Model files.


def model(**resources):
    tensor = {"DataType": "INT4", "Sizes": [3]}
    scale = {"DataType": "FLOAT32", "Sizes": [1]}
    return {
        "resources": {
            "x": {"initialValuesDataType": "FLOAT32", "initialValues": [1, -3, 9]},
            "scale": {"initialValuesDataType": "FLOAT32", "initialValues": [1]},
            "q": {"initialValuesDataType": "INT4", "initialValues": [5, 5, 5, -6, 7]},
            "y": {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 3, "value": 0}},
        }
        | resources,
        "dispatchables": {
            name: {
                "type": f"DML_OPERATOR_{name}",
                "desc": {
                    "InputTensor": real if name == "QUANTIZE" else tensor,
                    "QuantizationType": "DML_QUANTIZATION_TYPE_SCALE",
                    "QuantizationTensorCount": 1,
                    "QuantizationTensors": [scale],
                    "OutputTensor": tensor if name == "QUANTIZE" else real,
                },
            }
            for real in ({"DataType": "FLOAT32", "Sizes": [3]},)
            for name in ("QUANTIZE", "DEQUANTIZE")
        },
        "commands": [
            {
                "type": "dispatch",
                "dispatchable": name,
                "bindings": {"InputTensor": first, "QuantizationTensors": ["scale"], "OutputTensor": second},
            }
            for name, first, second in (("QUANTIZE", "x", "q"), ("DEQUANTIZE", "q", "y"))
        ]
        + [{"type": "print", "resource": name} for name in ("q", "y")],
    }


def test_a_model_file_prints_elements_of_4_bits(tmp_path):
    path, lines = tmp_path / "model.json", []
    path.write_text(json.dumps(model()))
    run_model(read_model(path, output=None), jax.devices()[0], lines.append)
    # Whole bytes are read and written: what lies behind is as it was.
    assert "Resource 'q': 1, -3, 7, -6, 7" in lines
    assert "Resource 'y': 1, -3, 7" in lines


def test_raw_bytes_hold_two_elements_each(tmp_path):
    path, lines = tmp_path / "model.json", []
    (tmp_path / "q.bin").write_bytes(bytes([0x21, 0xF8]))
    form = model(q={"initialValuesDataType": "INT4", "initialValues": {"sourcePath": "q.bin"}})
    form["commands"] = [*form["commands"][1:], {"type": "writeFile", "resource": "q", "targetPath": "out.bin"}]
    path.write_text(json.dumps(form))
    run_model(read_model(path, output=tmp_path), jax.devices()[0], lines.append)
    assert "Resource 'q': 1, 2, -8, -1" in lines
    assert "Resource 'y': 1, 2, -8" in lines
    assert (tmp_path / "out.bin").read_bytes() == bytes([0x21, 0xF8, 0, 0])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"initialValues": [5, 8]}, r"number 1 must be an integer of INT4, \[-8, 7\], but it is 8"),
        ({"initialValues": {"valueCount": 2, "value": -9}}, r"'value' must be an integer of INT4, \[-8, 7\]"),
    ],
)
def test_a_model_file_that_may_not(change, match, tmp_path):
    path = tmp_path / "model.json"
    path.write_text(json.dumps(model(q={"initialValuesDataType": "INT4"} | change)))
    with pytest.raises(ModelError, match=match):
        read_model(path, output=None)


# Mistakes.


def test_no_other_operator_takes_4_bits():
    with pytest.raises(DataTypeError, match=r"InputTensor.DataType must be one of .* at feature level .* it is INT4"):
        ElementWiseIdentityDesc(i4(2), i4(2))


test_mistakes_are_named = refuses(
    SMALLER,
    ({"quantization_type": "NONE"}, ConstraintError, "for the QuantizationType SCALE, .* there are 2 for NONE"),
    ({"quantization_type": "SCALE"}, ConstraintError, "there are 2 for SCALE"),
    ({"quantizations": (f32(1, 1, 1, 3), i4(1, 1, 1, 3))}, ConstraintError, r"must divide that of InputTensor"),
    ({"quantizations": (f32(*TWO), u4(*TWO))}, DataTypeError, "of number 1 it is UINT4, not INT4"),
    ({"quantizations": (f32(*TWO), i4(*FOUR))}, ConstraintError, "QuantizationTensors must have the same Sizes"),
    ({"output": f32(*FOUR)}, DataTypeError, "of number 1 it is INT4, not FLOAT32"),
    says="^QUANTIZE: .*",
)
