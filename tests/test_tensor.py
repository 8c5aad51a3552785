"""TensorDesc: every rule broken once, sizes in bytes, layouts of outputs."""

import itertools
import pickle

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dml_jax import ConstraintError, DataType, DataTypeError, TensorDesc, TensorFlags
from dml_jax.core.structs.struct_rules import injective
from dml_jax.core.tensors.tensor_desc import FIELDS, TENSOR
from dml_jax.errors import SeveralErrors
from dml_jax.strides import injective as collision

VALID = {"data_type": "FLOAT32", "sizes": (2, 3), "strides": (3, 1)}
BREAKS = {
    "dimension_count": {"sizes": (1,) * 9, "strides": None},
    "sizes": {"sizes": (2, 0)},
    "stride_count": {"strides": (1,)},
    "strides": {"strides": (3, -1)},
    "element_limit": {"sizes": (2**16, 2**16), "strides": None},
    "total_size": {"total_tensor_size_in_bytes": 20},
    "alignment": {"guaranteed_base_offset_alignment": 2},
}


def test_every_rule_is_broken_once():
    assert list(BREAKS) == [rule.name for rule in TENSOR]
    TensorDesc(**VALID)
    for rule in TENSOR:
        with pytest.raises(ConstraintError) as caught:
            TensorDesc(**{**VALID, **BREAKS[rule.name]})
        assert str(caught.value).startswith(f"TENSOR: {rule.worded(FIELDS)}, but ")


@pytest.mark.parametrize(
    ("data_type", "sizes", "strides", "count"),
    [
        ("FLOAT32", (1, 1, 3, 5), None, 60),
        ("FLOAT32", (1, 1, 3, 5), (15, 15, 5, 1), 60),
        ("FLOAT32", (1, 1, 3, 5), (15, 1, 5, 1), 60),
        ("FLOAT16", (1, 1, 3, 5), None, 32),
        ("FLOAT16", (3,), None, 8),
        ("UINT8", (1, 1, 1, 1), None, 4),
        ("UINT8", (1, 8, 2, 3), None, 48),
        ("FLOAT32", (2, 3), (5, 1), 32),
        ("FLOAT32", (2, 3), (0, 1), 12),
        ("FLOAT32", (2, 3), (1, 2), 24),
        ("FLOAT64", (2, 3), None, 48),
        ("UINT32", (2, 3), (6, 2), 44),
        ("INT4", (5,), None, 4),
        ("UINT4", (9,), None, 8),
        ("UINT4", (2, 3), (4, 1), 4),
    ],
)
def test_documented_sizes_in_bytes(data_type, sizes, strides, count):
    assert TensorDesc(data_type, sizes, strides).total_tensor_size_in_bytes == count
    assert TensorDesc(data_type, sizes, strides, total_tensor_size_in_bytes=count + 1).sizes == sizes
    with pytest.raises(ConstraintError, match="TotalTensorSizeInBytes must be at least"):
        TensorDesc(data_type, sizes, strides, total_tensor_size_in_bytes=count - 1)


def test_data_types_have_directmls_numbers_and_numpys_types():
    assert [t.value for t in DataType] == list(range(1, 14))
    for data_type in DataType:
        spellings = [data_type, data_type.name, f"DML_TENSOR_DATA_TYPE_{data_type.name}", data_type.dtype]
        assert {DataType.of(s) for s in spellings} == {data_type}
    assert DataType.of(np.float16) is DataType.of(jnp.float16) is DataType.FLOAT16
    assert DataType.FLOAT16.itemsize == 2


@pytest.mark.parametrize("unknown", ["UNKNOWN", "UINT2", "INT2", "BFLOAT16", jnp.bfloat16, bool, complex, None, 3])
def test_what_directml_has_no_type_for_is_refused(unknown):
    with pytest.raises(DataTypeError, match="DataType must be one of FLOAT32"):
        TensorDesc(unknown, (1,))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"sizes": 3}, "Sizes must be a sequence of integers"),
        ({"sizes": "23"}, "Sizes must be a sequence of integers"),
        ({"sizes": {2, 3}}, "Sizes must be a sequence of integers"),
        ({"sizes": np.array(2)}, "Sizes must be a sequence of integers"),
        ({"sizes": list}, "Sizes must be a sequence of integers"),
        ({"sizes": (10**5000,)}, r"Sizes\[0\] must fit 64 bits, but it has 16610"),
        ({"sizes": (2, 3.0)}, r"Sizes\[1\] must be an integer, but it is 3.0"),
        ({"sizes": (2, True)}, r"Sizes\[1\] must be an integer, but it is True"),
        ({"strides": (3, None)}, r"Strides\[1\] must be an integer"),
        ({"total_tensor_size_in_bytes": "24"}, "TotalTensorSizeInBytes must be an integer"),
    ],
)
def test_numbers_must_be_integers(change, match):
    with pytest.raises(DataTypeError, match=match):
        TensorDesc(**{**VALID, **change})


def test_flags():
    assert TensorDesc("FLOAT32", (1,), flags="DML_TENSOR_FLAG_OWNED_BY_DML").flags is TensorFlags.OWNED_BY_DML
    with pytest.raises(ConstraintError, match="Flags must be one of NONE, OWNED_BY_DML"):
        TensorDesc("FLOAT32", (1,), flags="OWNED")


def test_limits():
    assert TensorDesc("UINT8", (2**32 - 1,)).total_tensor_size_in_bytes == 2**32
    assert TensorDesc("FLOAT32", (1,), guaranteed_base_offset_alignment=4096).guaranteed_base_offset_alignment == 4096
    with pytest.raises(ConstraintError, match="must be in"):
        TensorDesc("UINT8", (2**32,))
    with pytest.raises(ConstraintError, match="spans 4294967297"):
        TensorDesc("UINT8", (3, 2), strides=(2**31, 0))
    with pytest.raises(ConstraintError, match="must be 0 or a power of two"):
        TensorDesc("FLOAT32", (1,), guaranteed_base_offset_alignment=12)


def test_packed_layouts():
    assert TensorDesc("FLOAT32", (2, 1, 3)).is_packed
    assert TensorDesc("FLOAT32", (2, 1, 3), (3, 99, 1)).is_packed
    assert not TensorDesc("FLOAT32", (2, 3), (1, 2)).is_packed


def is_injective(sizes, strides):
    return injective("x").broken_by({"x": TensorDesc("FLOAT32", sizes, strides)}) is None


LAYOUTS = [(s, t) for s in itertools.product((1, 2, 3), repeat=3) for t in itertools.product(range(7), repeat=3)]


def counted(sizes, strides):
    """The oracle: every coordinate's offset, listed."""
    offsets = sum(
        (np.arange(n).reshape(-1, *(1,) * d) * s for d, (n, s) in enumerate(zip(sizes, strides, strict=True))), 0
    )
    return len(np.unique(offsets)) == np.prod(sizes)


def test_injective_layouts(exhaustive):
    for sizes, strides in LAYOUTS if exhaustive else LAYOUTS[::5]:
        assert is_injective(sizes, strides) == counted(sizes, strides), (sizes, strides)


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 50)), min_size=1, max_size=5))
def test_injective_layouts_of_more_dimensions(dims):
    sizes, strides = zip(*dims, strict=True)
    assert is_injective(sizes, strides) == counted(sizes, strides)


def test_injective_layouts_of_full_size_are_decided_at_once():
    assert is_injective((8, 64, 1024, 1024), (64 * 2**20, 1, 64 * 2**10, 64))
    assert not is_injective((8, 64, 1024, 1024), (64 * 2**20, 1, 63 * 2**10, 64))
    assert not is_injective((2**31, 2), (1, 2**30))


def test_layouts_that_cannot_be_decided_in_time_are_refused_as_such(monkeypatch):
    monkeypatch.setattr(collision, "_SEARCH_LIMIT", 2)
    fact = injective("x").broken_by({"x": TensorDesc("UINT8", (2, 3), (3, 2))})
    assert fact == "sizes (2, 3) with strides (3, 2) may address one element twice: 2 steps could not decide"


def test_many_sizes_are_refused_by_their_number():
    with pytest.raises(ConstraintError, match=r"DimensionCount must be in \[1, 8\], but it is 100000"):
        TensorDesc("FLOAT32", (2,) * 100_000)


def test_several_errors_survive_pickling():
    with pytest.raises(SeveralErrors) as caught:
        TensorDesc("FLOAT32", (0,), guaranteed_base_offset_alignment=3)
    copied = pickle.loads(pickle.dumps(caught.value))
    assert str(copied) == str(caught.value)
    assert len(copied.errors) == 2
