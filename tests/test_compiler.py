"""compile_operator: buffers, allocations, shared memory, 64-bit words, artifacts, errors."""

import io
import json
import re
import tracemalloc
import zipfile
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from catalogue_cases import DESCS
from checks import assert_is, assert_same_bits
from operator_cases import f32, u32

import dml_jax
from dml_jax import ConstraintError, DataTypeError, TensorDesc, compile_operator
from dml_jax.desc_json import desc_to_json

every_struct = pytest.mark.parametrize("desc", DESCS.values(), ids=DESCS)
TO_SPACE = DESCS["DEPTH_TO_SPACE1"]
GATHER = DESCS["GATHER"]
DEPTH_SPACE = ("DEPTH_TO_SPACE", "DEPTH_TO_SPACE1", "SPACE_TO_DEPTH", "SPACE_TO_DEPTH1")


def buffers(desc, seed=0):
    """A flat buffer per input; the indices are a permutation, so that few are in range and no target occurs twice."""
    rng = np.random.default_rng(seed)
    content = []
    for port, tensor in desc.input_ports().items():
        count = tensor.element_span
        numbers = rng.permutation(count) if desc.is_index(port) else rng.integers(1, 100, count)
        content.append(numbers.astype(tensor.dtype))
    return content


def i64(*sizes):
    return TensorDesc("INT64", sizes)


def large(operator):
    """A descriptor whose output is made in its own shape, then viewed as flat."""
    sizes = {
        "GATHER": lambda: dml_jax.GatherDesc(f32(300, 128), u32(1, 400), f32(400, 128), 0, 1),
        "GATHER_ELEMENTS": lambda: dml_jax.GatherElementsDesc(f32(200, 128), u32(200, 256), f32(200, 256), 1),
        "DEPTH_TO_SPACE": lambda: dml_jax.DepthToSpaceDesc(f32(2, 64, 16, 24), f32(2, 16, 32, 48), 2),
        "SCATTER_ND": lambda: dml_jax.ScatterNDDesc(f32(300, 128), u32(40, 1), f32(40, 128), f32(300, 128), 2, 2),
    }
    return sizes[operator]()


LARGE = ("GATHER", "GATHER_ELEMENTS", "DEPTH_TO_SPACE", "SCATTER_ND")


# Names.


@pytest.mark.thinned(6)
@every_struct
def test_its_repr_says_what_it_takes_and_makes(desc):
    ports = {port: f"{port}: {tensor.dtype}[{tensor.element_span}]" for port, tensor in desc.ports().items()}
    taken, made = (", ".join(ports[port] for port in some) for some in (desc.input_ports(), desc.output_ports()))
    with jax.enable_x64(True):
        run = compile_operator(desc)
    assert repr(run) == f"CompiledOperator {desc.operator_type}({taken}) -> ({made})"


@pytest.mark.thinned(24)
@every_struct
def test_buffers_are_taken_by_name(desc):
    with jax.enable_x64(True):
        run, given = compile_operator(desc), buffers(desc)
        by_name = {
            name: value
            for name, value in desc.by_field(dict(zip(desc.input_ports(), given, strict=True))).items()
            if value is not None
        }
        jax.tree.map(assert_same_bits, run(**by_name), run(*given))
        rest = dict([*by_name.items()][1:])
        if given and not isinstance(next(iter(by_name.values())), tuple):
            jax.tree.map(assert_same_bits, run(given[0], **rest), run(*given))


@pytest.mark.parametrize(
    ("by_place", "by_name", "message"),
    [
        (1, ["input", "indices"], "GATHER: 'input' is already given by position; still to be given by name: indices"),
        (0, ["input", "indices", "axis"], "'axis' is no input; still to be given by name: input, indices"),
        (0, ["input"], "GATHER: a buffer must be given for IndicesTensor, but there is none"),
        (2, ["input"], "'input' is already given by position; still to be given by name: nothing"),
    ],
)
def test_wrong_names_are_refused(by_place, by_name, message):
    given = buffers(GATHER)
    with pytest.raises(ConstraintError, match=message):
        compile_operator(GATHER)(*given[:by_place], **dict.fromkeys(by_name, given[0]))


def test_an_owned_buffer_is_not_taken_by_name():
    owned = replace(GATHER, input=replace(GATHER.input, flags="OWNED_BY_DML"))
    table, indices = buffers(GATHER)
    run = compile_operator(owned, input=table)
    assert_same_bits(run(indices=indices), compile_operator(GATHER)(table, indices))
    with pytest.raises(ConstraintError, match="'input' is already bound at compilation"):
        run(indices=indices, input=table)


# Calls.


@pytest.mark.thinned(48)
@every_struct
def test_fresh_and_bound_agree(desc):
    run, inputs = compile_operator(desc), buffers(desc)
    fresh = run(*inputs)
    bound = run(*inputs, out=jax.tree.map(lambda x: jnp.array(np.full(x.shape, 7, x.dtype)), fresh))
    assert_is(bound, fresh)
    assert_is(jax.jit(run)(*inputs), fresh)
    shaped = [b.reshape(tensor.sizes) for b, tensor in zip(inputs, desc.input_ports().values(), strict=True)]
    assert_is(fresh, jax.tree.map(lambda x: np.asarray(x).ravel(), desc.compute(*shaped)))


@pytest.mark.thinned(2)
@pytest.mark.parametrize("operator", LARGE)
def test_large_outputs_are_flat_too(operator):
    desc = large(operator)
    run, inputs = compile_operator(desc), buffers(desc)
    fresh = run(*inputs)
    assert fresh.shape == (desc.output.element_span,)
    assert_same_bits(run(*inputs, out=jnp.zeros_like(fresh)), fresh)
    longer = run(*inputs, out=jnp.full(fresh.size + 5, 7, fresh.dtype))
    assert_same_bits(longer, np.append(fresh, np.float32([7] * 5)))


@pytest.mark.thinned(24)
@every_struct
def test_the_outputs_are_written_into_the_memory_of_out(desc):
    for one in (desc, *([large(desc.operator_type)] if desc.operator_type in LARGE else [])):
        run = compile_operator(one)
        inputs = [jnp.asarray(b) for b in buffers(one)]
        zeros = tuple(jnp.array(np.zeros(tensor.element_span, tensor.dtype)) for tensor in one.output_ports().values())
        out = zeros if len(zeros) > 1 else zeros[0]
        addresses = [x.unsafe_buffer_pointer() for x in zeros]
        for _ in range(3):
            old, out = out, run(*inputs, out=out)
            assert all(x.is_deleted() for x in jax.tree.leaves(old))
        assert [x.unsafe_buffer_pointer() for x in jax.tree.leaves(out)] == addresses


def test_buffers_may_be_longer_than_needed():
    run = compile_operator(TO_SPACE)
    x = np.arange(60, dtype=np.float32)
    expected = np.asarray(dml_jax.depth_to_space(x[:48].reshape(1, 8, 2, 3), 2, order="CRD")).ravel()
    assert_same_bits(run(x), expected)
    assert_same_bits(run(x, out=jnp.full(50, 7, jnp.float32)), np.append(expected, np.float32([7, 7])))


def test_gaps_of_an_output_keep_what_it_held_or_are_0():
    desc = replace(TO_SPACE, output=f32(1, 2, 4, 6, strides=(40, 32, 8, 1)))
    run, x = compile_operator(desc), np.arange(1, 49, dtype=np.float32)
    rows = np.asarray(compile_operator(TO_SPACE)(x)).reshape(8, 6)
    for out, gap in ((None, 0), (jnp.full(64, 99, jnp.float32), 99)):
        written = np.asarray(run(x, out=out))
        assert_same_bits(np.append(written, np.float32([gap] * 64))[:64].reshape(8, 8)[:, :6], rows)
        assert set(written.tolist()) - set(rows.ravel().tolist()) == {gap}


def test_inputs_owned_by_dml_are_bound_once_and_copied():
    desc = replace(GATHER, input=replace_flags(GATHER.input))
    table, indices = buffers(desc)
    run = compile_operator(desc, input=table)
    assert list(run.buffers) == ["indices", "output"]
    expected = compile_operator(GATHER)(table, indices)
    table[:] = 0
    assert_same_bits(run(indices), expected)
    given = jnp.asarray(buffers(desc)[0])
    run = compile_operator(desc, input=given)
    given.delete()
    assert_same_bits(run(indices), expected)


def replace_flags(tensor):
    return TensorDesc(tensor.data_type, tensor.sizes, tensor.strides, "OWNED_BY_DML")


# What is compiled, and what it needs.


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


# 64-bit types.

WIDE = np.array([2**63 - 1, -(2**63), -1, 2**32, 2**32 - 1, 5], np.int64)


@pytest.mark.parametrize("dtype", ["INT64", "UINT64", "FLOAT64"])
def test_64_bit_data_moves_as_words_without_x64(dtype, x64):
    data = WIDE.view(TensorDesc(dtype, (1,)).dtype)
    desc = dml_jax.GatherDesc(TensorDesc(dtype, (6,)), u32(3), TensorDesc(dtype, (3,), (2,)), 0, 1)
    run, expected = compile_operator(desc), np.zeros(5, data.dtype)
    expected[::2] = data[[4, 1, 9 % 6]]
    for given in (data, data[::1].astype(data.dtype.newbyteorder(">"))):
        result = run(given, np.uint32([4, 1, 3]))
        assert_same_bits(np.asarray(result).view(data.dtype), expected)
    spec = run.buffers["input"]
    assert (spec.length, spec.dtype) == ((6, data.dtype) if x64 else (12, np.uint32))
    out = jnp.array(np.full(5, -1, np.int64).view(data.dtype if x64 else np.uint32))
    expected[1::2] = np.full(2, -1, np.int64).view(data.dtype)
    assert_same_bits(np.asarray(run(data, np.uint32([4, 1, 3]), out=out)).view(data.dtype), expected)


@pytest.mark.parametrize("dtype", ["INT64", "UINT64"])
def test_64_bit_indices_saturate_without_x64(dtype, x64):
    """What 32 bits cannot hold is out of range, on its own side."""
    tensor = TensorDesc(dtype, (6,))
    desc = dml_jax.GatherDesc(f32(4), tensor, f32(6), 0, 1)
    indices = WIDE.view(tensor.dtype)
    signed = [3, 0, 3, 3, 3, 3]  # from the end: -1
    unsigned = [3, 3, 3, 3, 3, 3]
    expected = np.float32([10, 11, 12, 13])[signed if dtype == "INT64" else unsigned]
    assert_same_bits(compile_operator(desc)(np.float32([10, 11, 12, 13]), indices), expected)


@pytest.mark.parametrize("form", ["plain", "words", "fan_out"])
def test_64_bit_numbers_that_are_made_are_lowered_without_x64(form):
    """Of a size for which tables choose forms."""
    fill = dml_jax.FillValueConstantDesc(TensorDesc("FLOAT64", (1, 1, 256, 256)), "FLOAT64", 1 / 3)
    with dml_jax.use_form(form):
        found = np.asarray(compile_operator(fill)()).view(np.float64)
    assert_same_bits(found, np.full(2**16, 1 / 3))


def test_a_compiled_operator_keeps_its_own_x64():
    """Compiled with x64 on it takes 64-bit buffers, whatever holds at the call; and words if compiled without."""
    desc = dml_jax.GatherDesc(TensorDesc("INT64", (6,)), u32(1), TensorDesc("INT64", (1,)), 0, 1)
    with jax.enable_x64(True):
        wide = compile_operator(desc)
    words = compile_operator(desc)
    one = np.uint32([1])
    assert_same_bits(np.asarray(wide(WIDE, one)), WIDE[1:2])
    with jax.enable_x64(True):
        assert_same_bits(words(WIDE, one), WIDE[1:2].view(np.uint32))
        assert_same_bits(wide(jnp.asarray(WIDE), one), WIDE[1:2])
    assert wide is not words


# Artifacts.


@pytest.fixture
def artifact():
    """An operator that owns its table, with a strided output, as bytes."""
    pytest.importorskip("flatbuffers")
    desc = dml_jax.GatherDesc(replace_flags(f32(3, 2)), u32(1, 4), f32(4, 2, strides=(3, 1)), 0, 1)
    return compile_operator(desc, input=np.arange(6, dtype=np.float32)).serialize(["cpu", "cuda", "tpu"])


ARTIFACT_INDICES = np.uint32([2, 0, 1, 2])
ARTIFACT_OUTPUT = np.float32([4, 5, 0, 0, 1, 0, 2, 3, 0, 4, 5])


def test_a_deserialised_operator_is_called_alike(artifact):
    run = dml_jax.CompiledOperator.deserialize(artifact)
    assert_same_bits(run(ARTIFACT_INDICES), ARTIFACT_OUTPUT)
    longer = run(np.append(ARTIFACT_INDICES, ARTIFACT_INDICES), out=jnp.full(13, 7, jnp.float32))
    expected = np.append(np.where(np.arange(11) % 3 == 2, 7, ARTIFACT_OUTPUT), [7, 7]).astype(np.float32)
    assert_same_bits(longer, expected)
    for length in (11, 12):
        assert_same_bits(run(ARTIFACT_INDICES, out=jnp.full(length, 7, jnp.float32)), expected[:length])
    assert run.memory(bound=True).bound == 48  # four whole rows
    assert run.desc.axis == 0
    with pytest.raises(ConstraintError, match="the buffer of IndicesTensor must be 1-D with at least 4"):
        run(ARTIFACT_INDICES[:3])


def test_large_and_64_bit_operators_are_serialised(x64):
    pytest.importorskip("flatbuffers")
    sixty = TensorDesc("INT64", (1, 64, 16, 24)), TensorDesc("INT64", (1, 16, 32, 48))
    for desc in (large("DEPTH_TO_SPACE"), dml_jax.DepthToSpaceDesc(*sixty, 2)):
        run = compile_operator(desc)
        (x,) = buffers(desc)
        restored = dml_jax.CompiledOperator.deserialize(run.serialize())
        assert_same_bits(restored(x), run(x))
        spec = run.buffers["output"]
        out = jnp.zeros(spec.length, spec.dtype)
        address = out.unsafe_buffer_pointer()
        out = restored(x, out=out)
        assert out.unsafe_buffer_pointer() == address
        assert_same_bits(out, run(x))
        assert restored.memory(bound=True).allocated == 0


@pytest.mark.parametrize("content", [b"", b"PK", b"not a zip file at all"])
def test_what_is_no_artifact_is_refused(content):
    with pytest.raises(ConstraintError, match="the content is not a serialised operator"):
        dml_jax.CompiledOperator.deserialize(content)


def test_a_damaged_artifact_is_refused(artifact):
    for at in (len(artifact) // 4, len(artifact) // 2):
        damaged = bytearray(artifact)
        damaged[at] ^= 255
        with pytest.raises(ConstraintError, match="the content is not a serialised operator"):
            dml_jax.CompiledOperator.deserialize(bytes(damaged))


def members_of(artifact):
    with zipfile.ZipFile(io.BytesIO(artifact)) as file:
        return {name: file.read(name) for name in file.namelist()}


def packed(members, compression=zipfile.ZIP_STORED):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as file:
        for name, member in members.items():
            file.writestr(name, member)
    return content.getvalue()


def test_a_descriptor_that_is_not_that_of_the_forms_is_refused(artifact):
    members = members_of(artifact)
    head = json.loads(members["operator.json"])
    other = desc_to_json(large("DEPTH_TO_SPACE"))
    for changed in ({**head, "desc": other}, {**head, "version": 1}):
        content = packed({**members, "operator.json": json.dumps(changed)})
        with pytest.raises(ConstraintError, match="the content is not a serialised operator: its"):
            dml_jax.CompiledOperator.deserialize(content)


def test_an_artifact_that_claims_more_than_it_has_is_refused_before_it_is_read(artifact, monkeypatch):
    members = members_of(artifact)
    compressed = packed({**members, "input.npy": bytes(2**20)}, zipfile.ZIP_DEFLATED)
    claiming = bytearray(artifact)
    last = claiming.rindex(b"PK\x01\x02")  # the last entry of the directory: its sizes are behind 20 and 24 bytes
    claiming[last + 20 : last + 28] = (2**31).to_bytes(4, "little") * 2
    monkeypatch.setattr(zipfile.ZipFile, "read", None)
    for content, what in ((compressed, "members are compressed"), (bytes(claiming), "members claim 21[0-9]{8} bytes")):
        with pytest.raises(ConstraintError, match=f"not a serialised operator: its {what}, and"):
            dml_jax.CompiledOperator.deserialize(content)


def test_an_owned_buffer_that_claims_more_than_it_has_is_refused(artifact):
    """Checksums are right, and the header of the table asks for 4 GiB."""
    header = {"descr": "<f4", "fortran_order": False, "shape": (2**30,)}
    table = io.BytesIO()
    np.lib.format.write_array_header_1_0(table, header)
    content = packed({**members_of(artifact), "input.npy": table.getvalue() + bytes(24)})
    tracemalloc.start()
    try:
        with pytest.raises(ConstraintError, match="the content is not a serialised operator: "):
            dml_jax.CompiledOperator.deserialize(content)
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


def test_platforms(artifact):
    run = dml_jax.CompiledOperator.deserialize(artifact)
    for wrong in ("cpu", [], ["gpu"], ["cpu", 3], [["cpu"]], 5):
        with pytest.raises(
            ConstraintError, match="platforms must be a list of some of cpu, cuda, rocm, tpu, but it is"
        ):
            run.serialize(wrong)
    again = dml_jax.CompiledOperator.deserialize(run.serialize(iter(["cpu", "tpu"])))
    assert again.desc == run.desc
    for_tpu = compile_operator(TO_SPACE).serialize(["tpu"])
    with pytest.raises(ConstraintError, match=r"is for \('tpu',\), and this process has"):
        dml_jax.CompiledOperator.deserialize(for_tpu)


# Errors.

X48 = np.zeros(48, np.float32)


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ((), ConstraintError, "DEPTH_TO_SPACE1: takes buffers for InputTensor, but there are 0"),
        ((X48[1:],), ConstraintError, r"buffer of InputTensor must be 1-D with at least 48 elements, .* \(47,\)"),
        ((X48.reshape(6, 8),), ConstraintError, "buffer of InputTensor must be 1-D"),
        ((X48.astype(np.int32),), DataTypeError, "InputTensor must have elements of float32, but they are int32"),
        ((list(X48),), DataTypeError, "InputTensor must be an array"),
    ],
)
def test_wrong_inputs_are_refused(given, error, match):
    with pytest.raises(error, match=match):
        compile_operator(TO_SPACE)(*given)


@pytest.mark.parametrize(
    ("out", "error", "match"),
    [
        (jnp.zeros(47), ConstraintError, r"buffer of OutputTensor \(out=\) must be 1-D with at least 48"),
        (jnp.zeros((6, 8)), ConstraintError, r"OutputTensor \(out=\) must be 1-D"),
        (jnp.zeros(48, jnp.int32), DataTypeError, r"OutputTensor \(out=\) must have elements of float32"),
        (X48, DataTypeError, "out= for OutputTensor must be a jax.Array, .* but it is ndarray"),
    ],
)
def test_wrong_outputs_are_refused_and_live_on(out, error, match):
    with pytest.raises(error, match=match):
        compile_operator(TO_SPACE)(X48, out=out)
    assert isinstance(out, np.ndarray) or not out.is_deleted()


def test_an_array_that_was_given_away_is_refused():
    run, out = compile_operator(TO_SPACE), jnp.zeros(48)
    run(X48, out=out)
    gone = r"must be alive, but it is deleted: given away as out= \(use what that call returned\), or donated"
    with pytest.raises(ConstraintError, match=rf"OutputTensor \(out=\) {gone}"):
        run(X48, out=out)
    with pytest.raises(ConstraintError, match=f"InputTensor {gone}"):
        run(out)


@pytest.mark.skipif(jax.device_count() < 3, reason="needs three devices")
def test_buffers_on_different_devices_are_refused_and_live_on():
    desc = large("DEPTH_TO_SPACE")
    run, (_, second, third, *_) = compile_operator(desc), jax.devices()
    x = jax.device_put(jnp.zeros(desc.input.element_span), third)
    out = jax.device_put(jnp.zeros(desc.output.element_span), second)
    with pytest.raises(ConstraintError, match="all buffers must be on the same devices, but InputTensor is on"):
        run(x, out=out)
    assert not out.is_deleted()
    assert run(x, out=jnp.zeros(desc.output.element_span)).devices() == {third}


def test_an_output_that_is_also_an_input_is_refused():
    run, both = compile_operator(TO_SPACE), jnp.zeros(48)
    for same in (both, both.addressable_shards[0].data):
        with pytest.raises(
            ConstraintError, match=r"out= .* must not be bound as an input.*, but it is the buffer of Inp"
        ):
            run(both, out=same)
    assert not both.is_deleted()


def test_words_are_named_in_errors():
    desc = dml_jax.GatherDesc(TensorDesc("INT64", (6,)), u32(1), TensorDesc("INT64", (1,)), 0, 1)
    run, first = compile_operator(desc), np.uint32([0])
    with pytest.raises(DataTypeError, match=r"elements of uint32, two words for every int64, or be a NumPy array"):
        run(np.zeros(12, np.float32), first)
    with pytest.raises(ConstraintError, match=r"with at least 12 elements, two for every int64, but .* \(6,\)"):
        run(np.zeros(6, np.uint32), first)
    with pytest.raises(ConstraintError, match=r"with at least 6 elements, but its shape is \(5,\)"):
        run(np.zeros(5, np.int64), first)
    with pytest.raises(ConstraintError, match=r"must be 1-D with at least 6 elements, but its shape is \(1, 6\)"):
        run(np.zeros((1, 6), np.int64), first)
    with jax.enable_x64(True):
        wide = compile_operator(desc)
    with pytest.raises(DataTypeError, match="elements of int64: jax_enable_x64 was on when it was compiled, but they"):
        wide(np.zeros(6, np.int32), first)


def test_an_owned_buffer_is_cut_to_what_is_needed():
    owned = replace(GATHER, input=replace_flags(GATHER.input))
    table, indices = buffers(owned)
    run = compile_operator(owned, input=np.concatenate([table, table]))
    run.prepare()
    assert_same_bits(run(indices), compile_operator(owned, input=table)(indices))
    restored = dml_jax.CompiledOperator.deserialize(run.serialize())
    assert restored.memory().inputs == compile_operator(owned, input=table).memory().inputs


def test_owned_inputs_are_named_in_errors():
    owned = replace(GATHER, input=replace_flags(GATHER.input))
    table, indices = buffers(owned)
    for desc, given, match in [
        (owned, {}, r"InputTensor must be bound at compilation, as input=, but it is OWNED_BY_DML and not bound"),
        (GATHER, {"input": table}, "InputTensor must be bound at every call, but it is not OWNED_BY_DML"),
        (owned, {"input": table, "table": table}, "only inputs can be bound at compilation, but table= is none"),
        (owned, {"input": table[1:]}, "the buffer of InputTensor must be 1-D with at least 6 elements"),
    ]:
        with pytest.raises(ConstraintError, match=match):
            compile_operator(desc, **given)
    with pytest.raises(ConstraintError, match="takes buffers for IndicesTensor, but there are 2"):
        compile_operator(owned, input=table)(table, indices)


def test_what_is_no_descriptor_is_refused():
    with pytest.raises(DataTypeError, match="desc must be a descriptor of an operator or a graph, but it is Te"):
        compile_operator(f32(1))
