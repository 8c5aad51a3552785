"""The models that DxDispatch brings, built anew with their numbers: what each prints, as DxDispatch documents it.

Those that are examples of their operators are in docs/models: `EXAMPLES` says which.
"""

import numpy as np
import pytest
from model_building import lines_of, show, tensor, write, zeros
from model_cases import FOLDER
from PIL import Image

# DxDispatch's model, ours, and what both print.
EXAMPLES = [
    ("dml_convolution_2d", "convolution.json", "6, 8, 12, 14"),
    ("dml_convolution_3d", "convolution.json", "4, 4, 4, 4, 4, 4, 4, 4"),
    ("dml_cumulative_product", "cumulative_product.json", "2, 8, 64, 192"),
    ("dml_element_wise_add", "element_wise_add.json", "6, 10, -2"),
    ("dml_element_wise_add1", "element_wise_add1.json", "6, 10, -0.432332"),
    ("dml_element_wise_clip", "element_wise_clip.json", "-2.5, -2.5, -2, -1, 0, 1, 2, 2.5, 2.5"),
    ("dml_element_wise_identity", "element_wise_identity.json", "12, 14, 16"),
    ("dml_fill_value_sequence", "fill_value_sequence.json", "3.2, 4.7, 6.2, 7.7, 9.2"),
    ("dml_gemm", "gemm.json", "6, 7, 8, 10, 12, 14, 14, 17, 20"),
    ("dml_reduce", "reduce.json", "6, 15, 24"),
    ("dml_rnn", "rnn.json", "80 numbers, the first 18, 34, 50"),
    ("dml_scalar_union_fp16", "element_wise_clip1.json", "2, 2, 3, 4, 4"),
    (
        "dml_upsample_2d",
        "upsample_2d.json",
        "1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4",
    ),
]
FLOATS = {"initialValuesDataType": "FLOAT32"}


def counted(count, start=1, step=1):
    return {**FLOATS, "initialValues": {"valueCount": count, "valueStart": start, "valueDelta": step}}


def listed(*values):
    return {**FLOATS, "initialValues": list(values)}


def sample(operator, resources, bindings, *commands, owned=None, **desc):
    """A model that dispatches one operator; `owned` is bound in its dispatchable."""
    dispatchable = {"type": f"DML_OPERATOR_{operator}", "desc": desc, **({"bindings": owned} if owned else {})}
    dispatch = {"type": "dispatch", "dispatchable": "it", "bindings": bindings}
    return {"resources": resources, "dispatchables": {"it": dispatchable}, "commands": [dispatch, *commands]}


@pytest.mark.parametrize(("name", "file", "printed"), EXAMPLES, ids=[row[0] for row in EXAMPLES])
def test_examples_print_what_those_of_dxdispatch_print(name, file, printed):
    """The comments of an example are what it prints: test_model_file.py runs them all."""
    comments = [line.strip("/ ") for line in (FOLDER / file).read_text().splitlines() if line.strip().startswith("//")]
    start = printed.removeprefix("80 numbers, the first ")
    assert any(comment == printed or (start != printed and comment.startswith(start)) for comment in comments[1:])


def test_parts_of_one_buffer_are_joined(tmp_path):
    parts = [
        {"name": "a", "elementCount": 3, "elementOffset": 0},
        "b",
        {"name": "a", "elementCount": 5, "elementOffset": 4},
    ]
    form = sample(
        "JOIN",
        {"a": counted(10), "b": counted(3, start=100, step=15), "y": zeros(10)},
        {"InputTensors": parts, "OutputTensor": "y"},
        show(),
        Axis=0,
        InputCount=3,
        InputTensors=[tensor(3), tensor(2), tensor(5)],
        OutputTensor=tensor(10),
    )
    assert lines_of(tmp_path, form) == ["Resource 'y': 1, 2, 3, 100, 115, 5, 6, 7, 8, 9"]


def test_every_other_column_of_a_window(tmp_path):
    form = sample(
        "SLICE",
        {"x": counted(25), "y": zeros(6)},
        {"InputTensor": "x", "OutputTensor": "y"},
        show(),
        InputTensor=tensor(1, 1, 5, 5),
        OutputTensor=tensor(1, 1, 3, 2),
        DimensionCount=4,
        Offsets=[0, 0, 1, 1],
        Sizes=[1, 1, 3, 2],
        Strides=[1, 1, 1, 2],
    )
    assert lines_of(tmp_path, form) == ["Resource 'y': 7, 9, 12, 14, 17, 19"]


def test_three_outputs(tmp_path):
    form = sample(
        "SPLIT",
        {"x": counted(6), "1": zeros(2), "2": zeros(2), "3": zeros(2)},
        {"InputTensor": "x", "OutputTensors": ["1", "2", "3"]},
        *map(show, "123"),
        InputTensor=tensor(6),
        OutputCount=3,
        OutputTensors=[tensor(2)] * 3,
        Axis=0,
    )
    assert lines_of(tmp_path, form) == ["Resource '1': 1, 2", "Resource '2': 3, 4", "Resource '3': 5, 6"]


def test_an_input_that_is_bound_once(tmp_path):
    form = sample(
        "ELEMENT_WISE_ADD",
        {"a": listed(1, 2, 3), "b": listed(5, 8, -5), "y": zeros(3)},
        {"BTensor": "b", "OutputTensor": "y"},
        show(),
        owned={"ATensor": "a"},
        ATensor=tensor(3, Flags="OWNED_BY_DML"),
        BTensor=tensor(3),
        OutputTensor=tensor(3),
    )
    assert lines_of(tmp_path, form) == ["Resource 'y': 6, 10, -2"]


def test_files_in_and_out(tmp_path):
    numbers = np.arange(1, 7, dtype=np.float32)
    np.save(tmp_path / "a.npy", numbers)
    numbers.tofile(tmp_path / "b.dat")
    form = sample(
        "ELEMENT_WISE_ADD",
        {
            "a": {"initialValues": {"sourcePath": "a.npy"}},
            "b": {**FLOATS, "initialValues": {"sourcePath": "b.dat"}},
            "y": zeros(6),
        },
        {"ATensor": "a", "BTensor": "b", "OutputTensor": "y"},
        show(),
        write("y.npy", dimensions=[6]),
        write("y.dat"),
        ATensor=tensor(6),
        BTensor=tensor(6),
        OutputTensor=tensor(6),
    )
    assert lines_of(tmp_path, form)[0] == "Resource 'y': 2, 4, 6, 8, 10, 12"
    assert np.load(tmp_path / "y.npy").tolist() == np.fromfile(tmp_path / "y.dat", np.float32).tolist()


def test_one_buffer_is_input_and_output(tmp_path):
    form = sample(
        "ELEMENT_WISE_CLIP",
        {"x": listed(-4, -3, -2, -1, 0, 1, 2, 3, 4)},
        {"InputTensor": "x", "OutputTensor": "x"},
        show("x"),
        InputTensor=tensor(9),
        OutputTensor=tensor(9),
        Min=-2.5,
        Max=2.5,
    )
    assert lines_of(tmp_path, form) == ["Resource 'x': -2.5, -2.5, -2, -1, 0, 1, 2, 2.5, 2.5"]


def test_products_of_ones(tmp_path):
    ones = {**FLOATS, "initialValues": {"valueCount": 1024, "value": 1}}
    form = sample(
        "GEMM",
        {"a": ones, "b": ones, "y": ones},
        {"ATensor": "a", "OutputTensor": "y"},
        show(),
        owned={"BTensor": "b"},
        ATensor=tensor(1, 1, 32, 32),
        BTensor=tensor(1, 1, 32, 32, Flags="DML_TENSOR_FLAG_OWNED_BY_DML"),
        OutputTensor=tensor(1, 1, 32, 32),
        TransA="DML_MATRIX_TRANSFORM_NONE",
        TransB="DML_MATRIX_TRANSFORM_NONE",
        Alpha=1.0,
        Beta=1.0,
    )
    form["dispatchables"]["it"]["dmlCompileType"] = "DmlCompileGraph"
    form["dispatchables"]["it"]["executionFlags"] = "DML_EXECUTION_FLAG_ALLOW_HALF_PRECISION_COMPUTATION"
    assert lines_of(tmp_path, form) == [f"Resource 'y': {', '.join(['32'] * 1024)}"]


def test_a_picture_becomes_grey(tmp_path):
    """A convolution of single pixels, by the weights of the three colours."""
    pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "x.png")
    source = {**FLOATS, "initialValues": {"sourcePath": "x.png"}, "resampleSize": [1, 3, 6, 8]}
    form = sample(
        "CONVOLUTION",
        {"x": source, "weights": listed(0.2989, 0.5870, 0.1140), "y": zeros(48)},
        {"InputTensor": "x", "FilterTensor": "weights", "OutputTensor": "y"},
        write("y.png", dimensions=[1, 1, 6, 8]),
        InputTensor=tensor(1, 3, 6, 8),
        FilterTensor=tensor(1, 3, 1, 1),
        OutputTensor=tensor(1, 1, 6, 8),
        Mode="DML_CONVOLUTION_MODE_CROSS_CORRELATION",
        Direction="DML_CONVOLUTION_DIRECTION_FORWARD",
        DimensionCount=2,
        Strides=[1, 1],
        Dilations=[1, 1],
        StartPadding=[0, 0],
        EndPadding=[0, 0],
        OutputPadding=[0, 0],
        GroupCount=1,
    )
    lines_of(tmp_path, form)
    grey = np.asarray(Image.open(tmp_path / "y.png"))
    np.testing.assert_allclose(grey, pixels @ [0.2989, 0.5870, 0.1140], atol=0.51)


def onnx_sample(folder, nodes, inputs, outputs):
    helper = pytest.importorskip("onnx").helper
    graph = helper.make_graph(
        [helper.make_node(kind, reads, writes, **more) for kind, reads, writes, more in nodes],
        "graph",
        [helper.make_tensor_value_info(name, 1, sizes) for name, sizes in inputs.items()],
        [helper.make_tensor_value_info(name, 1, sizes) for name, sizes in outputs.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    (folder / "m.onnx").write_bytes(model.SerializeToString())


def onnx_dispatch(**bindings):
    return {"type": "dispatch", "dispatchable": "it", "bindings": bindings}


ONNX = {"it": {"type": "onnx", "sourcePath": "m.onnx"}}


def test_two_products_of_an_onnx_model_are_added(tmp_path):
    nodes = [("Gemm", ["A0", "B0"], ["p"], {}), ("Gemm", ["A1", "B1"], ["q"], {}), ("Add", ["p", "q"], ["y"], {})]
    sizes = {"A0": [3, 2], "B0": [2, 4], "A1": [3, 2], "B1": [2, 4]}
    onnx_sample(tmp_path, nodes, sizes, {"y": [3, 4]})
    resources = {name: counted(int(np.prod(shape))) for name, shape in sizes.items()}
    commands = [onnx_dispatch(**{name: name for name in sizes}, y="y"), show()]
    form = {"resources": {**resources, "y": zeros(12)}, "dispatchables": ONNX, "commands": commands}
    assert lines_of(tmp_path, form) == ["Resource 'y': 22, 28, 34, 40, 46, 60, 74, 88, 70, 92, 114, 136"]


def test_an_onnx_model_of_open_sizes(tmp_path):
    concat = [("Concat", ["x0", "x1"], ["y"], {"axis": 0})]
    onnx_sample(tmp_path, concat, {"x0": ["N", 2], "x1": ["N", 2]}, {"y": [None, None]})

    def rows(n, y):
        return onnx_dispatch(x0={"name": "a", "shape": [n, 2]}, x1={"name": "b", "shape": [n, 2]}, y=y)

    form = {
        "resources": {
            "a": listed(1, 2, 3, 4, 5, 6),
            "b": listed(7, 8, 9, 10, 11, 12),
            "c": zeros(12),
            "sized": {**FLOATS, "initialValues": "deferred"},
        },
        "dispatchables": ONNX,
        "commands": [
            rows(1, {"name": "c", "shape": [2, 2]}),
            show("c"),
            rows(3, {"name": "c", "shape": [6, 2]}),
            show("c"),
            rows(3, {"name": "sized"}),
            show("sized"),
        ],
    }
    twelve = ", ".join(map(str, range(1, 13)))
    assert lines_of(tmp_path, form) == [
        "Resource 'c': 1, 2, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0",
        f"Resource 'c': {twelve}",
        f"Resource 'sized': {twelve}",
    ]


def test_a_shader_is_refused_by_name(tmp_path):
    from dml_jax.dxdispatch.faults import ModelError

    form = {"resources": {"y": zeros(1)}, "dispatchables": {"add": {"type": "hlsl", "sourcePath": "add.hlsl"}}}
    with pytest.raises(ModelError, match="dispatchable 'add': dispatchables of type 'hlsl' are not supported"):
        lines_of(tmp_path, {**form, "commands": [show()]})
