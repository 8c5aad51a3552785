"""`dml-jax check` of ONNX models: first who takes them, with which arguments, then what DirectML would say."""

import json

import onnx
import pytest
from documented_models import dml_jax_command

HEADER = '<ir_version: 10, opset_import: ["": 22]>\n'
MODELS = {
    "plain": "f (float[2, 3] x) => (float y) { y = Neg (x) }",
    "ids": "f (int64[2] ids) => (float y) <float[4] t = {1, 2, 3, 4}> { y = Gather (t, ids) }",
    "wide": "f (int64[2] ids) => (int64 y) { y = Add (ids, ids) }",
    "setting": "f (float[6] x, int64[2] sizes) => (float y) { [fold] y = Reshape (x, sizes) }",
    "noise": "f (float[2] x) => (float y) { y = RandomNormalLike (x) }",
    "count": "f (float[4] x) => (int64 y) { [found] y = NonZero (x) }",
    "ids to count": "f (int64[4] ids) => (int64 y) { [found] y = NonZero (ids) }",
    "open": "f (float[n, 4] x, float[n, 4] z) => (float y) { y = Add (x, z) }",
    "apart": """f (float[n] x) => (float y) <float[3] c = {1, 2, 3}, int64[1] two = {2}>
        { r = Reshape (x, two) y = Add (r, c) }""",
    "any rank": "f (float[] x) => (float y) { y = Neg (x) }",
    "sequence": "f (seq(float) s) => (float y) { y = ConcatFromSequence <axis = 0> (s) }",
}
RUN, TO_JAX, JIT = "`dml-jax run` takes it", "`to_jax(model)` takes it", "; under jax.jit"
SHAPE = "; give its sizes, --shape x=1x3x8, to see how"
TAKEN = {
    "plain": (RUN, f"{TO_JAX}{JIT}, too"),
    "ids": (RUN, f"{TO_JAX}{JIT} say to_jax(model, int32=['ids']), and give int32 arrays"),
    "wide": (RUN, f"{TO_JAX}{JIT} put jax.enable_x64(True) around the call, its jit included"),
    "setting": (
        f"{RUN}, and runs it node by node, because Reshape node 'fold': shape must be a constant or follow from "
        "shapes, because it decides a shape",
        f"{TO_JAX}{JIT} say to_jax(model, static={{'sizes': value}})",
    ),
    "noise": (RUN, f"{TO_JAX}, called with key=jax.random.key(...){JIT}, too"),
    "count": (
        f"{RUN}, and runs it node by node, because NonZero node 'found': ",
        f"{TO_JAX}{JIT}: NonZero node 'found': ",
    ),
    "ids to count": (
        f"{RUN}, and runs it node by node, because NonZero node 'found': ",
        f"{TO_JAX}{JIT} say to_jax(model, int32=['ids']), and give int32 arrays; then NonZero node 'found': ",
    ),
    "open": (f"{RUN} (where open sizes are 1)", f"{TO_JAX} (where open sizes are 1){JIT}, too"),
    "apart": (
        f"{RUN}, but if open sizes are 1, it fails: Reshape node #0: ",
        f"{TO_JAX}; give others by --shape to see how: 'n' of input 'x'",
    ),
    "any rank": (f"{RUN}{SHAPE}", f"{TO_JAX}{SHAPE}"),
    "sequence": (
        "`dml-jax run` does not take it: input 's': it must be a tensor here, but it is sequence_type",
        TO_JAX,
    ),
}


def saved(folder, text):
    path = folder / "m.onnx"
    onnx.save(onnx.parser.parse_model(HEADER + text), path)
    return path


@pytest.mark.parametrize("name", TAKEN)
def test_check_says_first_who_takes_a_model(tmp_path, name):
    path = saved(tmp_path, MODELS[name])
    lines = dml_jax_command("check", path).stdout.splitlines()
    for line, said in zip(lines, TAKEN[name], strict=False):
        assert line.startswith(f"{path}: {said}")


def test_sizes_that_are_given_are_those_that_are_tried(tmp_path):
    path = saved(tmp_path, MODELS["apart"])
    refused = dml_jax_command("check", path, "--shape", "n=2")
    assert refused.exit_code == 1
    assert refused.stderr.startswith(f"error: {path}: Add node #1: ")


def test_a_model_of_unknown_operators_is_refused_at_once(tmp_path):
    path = saved(tmp_path, "f (float[2] x) => (float y) { y = com.example.Secret (x) }")
    refused = dml_jax_command("check", path)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "com.example::Secret (node #0)" in refused.stderr


def test_check_counts_the_nodes_that_it_skips(tmp_path):
    text = "f (float[1, 3] x) => (float y) { a = Neg (x) b = Add (a, x) c = Transpose (b) d = Neg (c) y = Relu (d) }"
    path = saved(tmp_path, text)
    fine = dml_jax_command("check", path)
    assert fine.stdout.splitlines()[2:] == [
        f"{path}: Transpose node #2: ELEMENT_WISE_IDENTITY is accepted at feature level 6_4",
        f"{path}: not checked for DirectML, because they move no data or are constants: 1 Add, 2 Neg, 1 Relu",
    ]
    (entry,) = json.loads(dml_jax_command("check", path, "--json").stdout)["files"]
    assert entry["run"] == RUN
    assert entry["to_jax"] == f"{TO_JAX}{JIT}, too"
    assert entry["skipped"] == {"Add": 1, "Neg": 2, "Relu": 1}


def test_directml_has_no_cubic_resampling(tmp_path):
    text = """f (float[1, 1, 4, 4] x) => (float y) <float[4] s = {1.0, 1.0, 2.0, 2.0}>
              { y = Resize <mode = "cubic"> (x, , s) }"""
    path = saved(tmp_path, text)
    refused = dml_jax_command("check", path)
    assert refused.stdout.startswith(f"{path}: {RUN}\n{path}: {TO_JAX}{JIT}, too\n")
    assert "DirectML has no cubic resampling; `dml-jax run` and `to_jax` do it" in refused.stderr
