"""compile_operator: its buffers by place and by name, outputs that are written in place, 64-bit types, errors."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from catalogue_cases import DESCS
from checks import assert_is, assert_same_bits
from compiler_cases import GATHER, LARGE, TO_SPACE, buffers, large, replace_flags
from operator_cases import f32, u32

import dml_jax
from dml_jax import ConstraintError, DataTypeError, TensorDesc, compile_operator

every_struct = pytest.mark.parametrize("desc", DESCS.values(), ids=DESCS)


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
