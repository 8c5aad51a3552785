"""Compiled operators as bytes: what is restored runs alike; what is damaged or claims too much is refused."""

import io
import json
import tracemalloc
import zipfile

import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits
from compiler_cases import TO_SPACE, buffers, large, replace_flags
from operator_cases import f32, u32

import dml_jax
from dml_jax import ConstraintError, TensorDesc, compile_operator
from dml_jax.desc_json import desc_to_json


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
