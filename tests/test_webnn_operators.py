"""WebNN's vectors of 57 operators through descriptors, as in test_webnn.py. data/README.md has the source."""

import jax
import numpy as np
import pytest
from checks import together
from webnn_calls import CALLS
from webnn_vectors import Vector, read_cases

from dml_jax import DataTypeError, compile_operator

CASES = read_cases()


def is_refused(case):
    """DirectML's table of ACTIVATION_RELU has no INT64."""
    return case["operator"] == "relu" and case["inputs"]["input"]["dataType"] == "int64"


# Without one that hangs on another answer to an open question than the one here, ONNX's.
LEGAL = [case for case in CASES if "reading" not in case and not is_refused(case)]
BY_OPERATOR = {name: [case for case in LEGAL if case["operator"] == name] for name in CALLS}


def test_every_case_has_its_call():
    assert {case["operator"] for case in CASES} == {*CALLS}
    assert (len(CASES), len(LEGAL)) == (1291, 1289)


def test_a_type_that_directml_does_not_take():
    (case,) = filter(is_refused, CASES)
    with pytest.raises(DataTypeError, match=r"InputTensor\.DataType must be one of FLOAT32, .*, but it is INT64"):
        CALLS["relu"](Vector.of(case))


def check(cases):
    """Computes all cases, several in one program, and compares them."""
    with jax.enable_x64(True):
        calls = [CALLS[case["operator"]](Vector.of(case)) for case in cases]
        results = together([(compile_operator(one.desc), *one.inputs) for one in calls])
    for case, one, made in zip(cases, calls, results, strict=True):
        for port, output, wanted in zip(one.desc.output_ports(), jax.tree.leaves(made), one.expected, strict=True):
            try:
                assert_within(np.asarray(output), wanted, **case["tolerance"])
            except AssertionError as error:
                error.add_note(f"{port} of {case['operator']}: {case['name']}")
                raise


def assert_within(made, wanted, kind, value, orAbsolute=0):  # noqa: N803
    """Equal, or so near: by units in the last place (ULP) or by the difference (ATOL)."""
    assert (made.dtype, made.shape) == (wanted.dtype, wanted.shape)
    if wanted.dtype.kind == "f":
        np.testing.assert_array_equal(np.isnan(made), np.isnan(wanted))
    with np.errstate(invalid="ignore"):  # infinities less infinities
        off = abs(made.astype(object) - wanted.astype(object))
        steps = abs(numbered(made) - numbered(wanted)) if kind == "ULP" else off
        agrees = (made == wanted) | (wanted != wanted) | (steps <= value) | (off <= orAbsolute)
    assert agrees.all(), (made, wanted)


def numbered(array):
    """Integers as they are, and floats by their place in the order of all floats."""
    if array.dtype.kind != "f":
        return array.astype(object)
    bits = array.view(f"i{array.itemsize}").astype(np.int64)
    return np.where(bits < 0, np.iinfo(f"i{array.itemsize}").min - bits, bits)


def test_the_first_case_of_every_operator():
    check([cases[0] for cases in BY_OPERATOR.values()])


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", BY_OPERATOR)
def test_every_case(name):
    check(BY_OPERATOR[name])
