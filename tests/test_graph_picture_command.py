"""`dml-jax check --picture`."""

import re
from itertools import pairwise

import pytest
from commands import check
from drawn_graphs import read_dot
from model_building import dispatch, model, reverse, saved, show
from model_cases import FOLDER


def graph_form(*names):
    """Nodes one after the other, which are dispatchables of such names."""
    edge = {"FromNodeOutput": "OutputTensor", "ToNodeInput": "InputTensor"}
    return {
        "type": "DML_GRAPH_DESC",
        "desc": {
            "Nodes": {name: name for name in names},
            "InputEdges": [
                {"GraphInput": "x", "ToNode": names[0], "ToNodeInput": "InputTensor"},
                *({"GraphInput": "i", "ToNode": name, "ToNodeInput": "IndicesTensor"} for name in names),
            ],
            "IntermediateEdges": [{"FromNode": one, "ToNode": other, **edge} for one, other in pairwise(names)],
            "OutputEdges": [{"FromNode": names[-1], "FromNodeOutput": "OutputTensor", "GraphOutput": "y"}],
        },
    }


def graphs_model(**graphs):
    """A model whose graphs have the nodes given."""
    form = model(dispatch(dispatchable=next(iter(graphs)), bindings={"x": "x", "i": "i", "y": "y"}), show())
    form["dispatchables"] = {name: graph_form(*nodes) for name, nodes in graphs.items()}
    form["dispatchables"] |= {node: reverse() for nodes in graphs.values() for node in nodes}
    form["commands"] = [
        {"type": "dispatch", "dispatchable": name, "bindings": {"x": "x", "i": "i", "y": "y"}} for name in graphs
    ]
    return form


def test_the_picture_of_the_documented_model(tmp_path):
    """It is the one of the documentation."""
    target = tmp_path / "new" / "graph.svg"
    done = check(FOLDER / "graph.json", "--picture", target)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == check(FOLDER / "graph.json").stdout
    assert target.read_bytes() == (FOLDER.parent / "pictures" / "graph.svg").read_bytes()
    assert [path.name for path in target.parent.iterdir()] == ["graph.svg"]


@pytest.mark.parametrize("suffix", [".dot", ".gv", ".GV"])
def test_dot_by_the_ending_of_the_name(tmp_path, suffix):
    target = tmp_path / f"graph{suffix}"
    assert check(FOLDER / "graph.json", "--picture", target, "--json").exit_code == 0
    ((heading, nodes, _),) = read_dot(target.read_text())
    assert heading == "reorder"
    assert ["GATHER", "pick", "Axis: 1", "IndexDimensions: 1"] in nodes.values()


def test_all_graphs_of_a_model_are_drawn(tmp_path):
    path = saved(tmp_path, graphs_model(once=["a"], twice=["a", "b"]))
    assert check(path, "--picture", tmp_path / "g.gv").exit_code == 0
    clusters = read_dot((tmp_path / "g.gv").read_text())
    assert [(heading, len(nodes)) for heading, nodes, _ in clusters] == [("once", 4), ("twice", 5)]


def test_a_model_without_graphs_has_no_picture(tmp_path):
    done = check(FOLDER / "gather.json", "--picture", tmp_path / "g.svg")
    assert done.exit_code == 1
    assert done.stderr == (
        f"error: {FOLDER / 'gather.json'}: there is nothing to draw: no dispatchable is a graph, "
        "of type 'DML_GRAPH_DESC' or 'dmlSerializedGraph'\n"
    )
    assert not any(tmp_path.iterdir())


def test_a_model_with_faults_has_no_picture(tmp_path):
    form = graphs_model(once=["a"])
    form["dispatchables"]["a"]["desc"]["Axis"] = 9
    target = tmp_path / "g.svg"
    target.write_text("old")
    done = check(saved(tmp_path, form), "--picture", target)
    assert done.exit_code == 1
    assert "Axis" in done.stderr
    assert target.read_text() == "old"


@pytest.mark.parametrize("name", ["graph.png", "graph", "svg", "graph.svg.txt", ".svg"])
def test_other_endings_are_refused(tmp_path, name):
    done = check(FOLDER / "graph.json", "--picture", tmp_path / name)
    assert done.exit_code == 2
    assert "a picture is a .svg file, or DOT text a .dot or .gv file, but it is" in done.stderr
    assert not any(tmp_path.iterdir())


def test_a_picture_is_of_one_model(tmp_path):
    models = [FOLDER / "graph.json", FOLDER / "gather.json"]
    done = check(*models, "--picture", tmp_path / "g.svg")
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (2, "Error: --picture is of one model, but 2 are given")
    assert not any(tmp_path.iterdir())


def test_an_onnx_model_has_no_picture(tmp_path):
    done = check(tmp_path / "model.onnx", "--picture", tmp_path / "g.svg")
    assert done.exit_code == 2
    assert (
        done.stderr.splitlines()[-1]
        == "Error: --picture is for DxDispatch model files and serialized graphs only; leave it out"
    )


@pytest.mark.parametrize("through_link", [False, True])
def test_a_picture_is_never_written_over_the_model(tmp_path, through_link):
    path = saved(tmp_path, graphs_model(once=["a"])).rename(tmp_path / "model.svg")
    text, target = path.read_text(), tmp_path / "link.svg" if through_link else path
    if through_link:
        target.symlink_to(path)
    done = check(path, "--picture", target)
    assert done.exit_code == 1
    assert done.stderr == (f"error: {path}: the picture {str(target)!r} would overwrite the model itself\n")
    assert path.read_text() == text


def test_a_picture_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("no folder")
    done = check(FOLDER / "graph.json", "--picture", tmp_path / "file" / "g.svg")
    assert done.exit_code == 1
    assert re.fullmatch(rf"error: {tmp_path}/file/g\.svg: cannot be written: (File exists|Not a .*)\n", done.stderr)
    loop = tmp_path / "loop.svg"
    loop.symlink_to(loop)
    assert check(FOLDER / "graph.json", "--picture", loop / "g.svg").exit_code == 1
