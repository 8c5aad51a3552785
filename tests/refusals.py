"""Tests of calls and descriptors that are refused: a row is a change to one that is accepted, and the error."""

import pytest
from operator_cases import Call

from dml_jax import ConstraintError


def refuses(accepted, *rows, error=ConstraintError, says=""):
    """A test with a case for each row: (change, error, match), or (change, match) where all errors are alike.

    Args:
      accepted: a Call, whose errors begin with the name of the function, or a descriptor.
      rows: `match` is found in the text of the error.
      error: the error of rows that have none.
      says: a pattern that comes before `match`.
    """
    if isinstance(accepted, Call):
        make, arguments, says = accepted.function, accepted.arguments, f"^{accepted.function.__name__}: .*"
    else:
        make, arguments = type(accepted), accepted.operands()

    def test(change, error, match):
        with pytest.raises(error, match=f"{says}{match}"):
            make(**arguments | change)

    def test_one_error(change, match):
        test(change, error, match)

    if len(rows[0]) == 2:
        return pytest.mark.parametrize(("change", "match"), rows)(test_one_error)
    return pytest.mark.parametrize(("change", "error", "match"), rows)(test)
