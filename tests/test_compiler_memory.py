"""What compile_operator compiles: once, ahead, without copies, and what it allocates and moves."""

import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from catalogue_cases import DESCS
from compiler_cases import LARGE, TO_SPACE, buffers, i64, large
from operator_cases import f32, u32

import dml_jax
from dml_jax import TensorDesc, compile_operator

DEPTH_SPACE = ("DEPTH_TO_SPACE", "DEPTH_TO_SPACE1", "SPACE_TO_DEPTH", "SPACE_TO_DEPTH1")


def test_equal_descriptors_share_one_executable(compilations):
    descs = [dml_jax.GatherDesc(f32(5, 3), u32(1, 7), f32(7, 3), 0, 1) for _ in range(2)]
    inputs = buffers(descs[0])
    out = jnp.zeros(21)
    first = compile_operator(descs[0])
    first(*inputs)
    out = first(*inputs, out=out)
    with compilations() as compiled:
        second = compile_operator(descs[1])
        second(*inputs)
        second(*inputs, out=out)
    assert not compiled


def test_prepare_compiles_ahead(caplog):
    for desc in (dml_jax.GatherDesc(f32(5, 2), u32(1, 9), f32(9, 2), 0, 1), large("DEPTH_TO_SPACE")):
        run, inputs = compile_operator(desc), buffers(desc)
        out = jnp.zeros(desc.output.element_span)
        run.prepare()
        run.prepare(bound=True)
        with jax.log_compiles(), caplog.at_level("WARNING"):
            run(*inputs)
            run(*inputs, out=out)
        assert not [r for r in caplog.records if "Compiling" in r.getMessage()]


def padded(tensor, gap):
    """The tensor with `gap` elements after each row."""
    sizes = tensor.sizes
    rows = [sizes[-1] + gap]
    for n in reversed(sizes[1:-1]):
        rows.insert(0, rows[0] * n)
    return TensorDesc(tensor.data_type, sizes, (*rows, 1)[-len(sizes) :])


LAYOUTS = {
    "packed": {},
    "padded input": {"input": 3},
    "padded output": {"output": 3},
    "padded both": {"input": 2, "output": 5},
}


@pytest.mark.thinned(6)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("operator", [*(name for name in DESCS if name.startswith("GATHER")), *DEPTH_SPACE])
def test_reads_and_depth_space_allocate_the_output_or_nothing(operator, layout):
    for desc in (DESCS[operator], *([large(operator)] if operator in LARGE else [])):
        desc = replace(desc, **{name: padded(getattr(desc, name), gap) for name, gap in layout.items()})
        run = compile_operator(desc)
        spec, fresh, bound = run.buffers["output"], run.memory(), run.memory(bound=True)
        size = 4 * spec.length
        assert (fresh.output, fresh.bound, fresh.temporary, fresh.allocated) == (size, 0, 0, size)
        size = 4 * spec.whole_length
        copied = size if jax.__version__ == "0.10.1" and "output" in layout else 0  # of which XLA:CPU makes a copy
        assert (bound.output, bound.bound, bound.temporary, bound.allocated) == (size, size, copied, copied)


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("desc", "most"),
    [
        (dml_jax.ScatterElementsDesc(f32(512, 64), u32(8, 64), f32(8, 64), f32(512, 64), 0), 2),
        (dml_jax.ScatterNDDesc(f32(512, 64), u32(8, 1), f32(8, 64), f32(512, 64), 2, 2), 1),
        (dml_jax.ScatterElementsDesc(i64(512, 64), u32(8, 64), i64(8, 64), i64(512, 64), 0), 6),
        (dml_jax.ScatterNDDesc(i64(512, 64), u32(8, 1), i64(8, 64), i64(512, 64), 2, 2), 1),
    ],
)
@pytest.mark.parametrize("gap", [0, 3])
def test_scatters_allocate_no_copy_of_the_data(desc, most, gap):
    """Only the indices, as XLA wants them, and a kilobyte of its own on GPUs."""
    run = compile_operator(replace(desc, input=padded(desc.input, gap)) if gap else desc)
    indices = 4 * desc.indices.element_span
    size = desc.output.element_span * desc.input.data_type.itemsize
    assert run.memory().allocated <= size + most * indices + 2048
    assert run.memory(bound=True).allocated <= most * indices + 2048


def stripped(text):
    """HLO without what only names or locates: equal texts are equal programs."""
    names = {}
    text = re.sub(r", metadata=\{[^}]*\}", "", text[text.index("\n\n\n") :])
    text = re.sub(r"%[\w.\-]+", lambda m: names.setdefault(m[0], f"%{len(names)}"), text)
    return re.sub(r"\b[\w.]+: ", "", text)


def channels_last(sizes):
    _, c, h, w = sizes
    return TensorDesc("FLOAT32", sizes, (c * h * w, 1, w * c, c))


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("to_space", [True, False])
def test_channels_last_by_strides_is_the_nhwc_program(to_space, order):
    depth, space = (2, 64, 16, 24), (2, 16, 32, 48)
    function = dml_jax.depth_to_space if to_space else dml_jax.space_to_depth
    cls = dml_jax.DepthToSpace1Desc if to_space else dml_jax.SpaceToDepth1Desc
    source, target = (depth, space) if to_space else (space, depth)
    run = compile_operator(cls(channels_last(source), channels_last(target), 2, order))
    (n, c, h, w), (m, d, y, x) = source, target

    def direct(buffer):
        moved = function(buffer.reshape(n, h, w, c), 2, order=dml_jax.DepthSpaceOrder(order), data_format="NHWC")
        return moved.reshape(m, y, x, d)

    text = jax.jit(direct).lower(jax.ShapeDtypeStruct((n * c * h * w,), np.float32)).compile().as_text()
    assert stripped(run.as_text()) == stripped(text)


def test_whole_lengths():
    """Three rows of 4 in 6 elements span 16 of a buffer, and whole rows have 18; what has no gaps is whole."""
    for strides, length, whole in [
        ((6, 1), 16, 18),
        (None, 12, 12),
        ((1, 3), 12, 12),
        ((13, 2), 33, 33),
        ((12, 3), 34, 36),
    ]:
        output = TensorDesc("FLOAT32", (3, 4), strides)
        run = compile_operator(dml_jax.GatherDesc(f32(9, 4), u32(1, 3), output, 0, 1))
        spec = run.buffers["output"]
        assert (spec.length, spec.whole_length) == (length, whole)
        memory = run.memory(bound=True)
        assert memory.bound == memory.output == 4 * whole


def test_text_and_bytes_moved():
    run = compile_operator(TO_SPACE)
    assert run.as_text().startswith("HloModule")
    assert "input_output_alias" in run.as_text(bound=True)
    assert run.bytes_moved == 2 * 48 * 4
    rows = compile_operator(dml_jax.GatherDesc(f32(1000, 8), u32(1, 10), f32(10, 8), 0, 1))
    assert rows.bytes_moved == 4 * (80 + 10 + 80)  # of the table, only the rows that are read
    few = compile_operator(dml_jax.GatherDesc(f32(2, 8), u32(1, 10), f32(10, 8), 0, 1))
    assert few.bytes_moved == 4 * (16 + 10 + 80)  # each row once
    repeated = compile_operator(dml_jax.GatherDesc(f32(2, 8, strides=(0, 1)), u32(1, 10), f32(10, 8), 0, 1))
    assert repeated.bytes_moved == 4 * (8 + 10 + 80)
    scatter = compile_operator(DESCS["SCATTER"])
    assert scatter.bytes_moved == 4 * (9 + 6 + 6 + 9)
