"""Which variants are chosen: each by some large call, none by small ones. Any device tells, as nothing is computed."""

import jax
import numpy as np
import pytest
from jax import lax
from test_variants import HERE, ROWS
from variant_cases import calls_of, calls_that_choose, choices_on

import dml_jax
from dml_jax.lowering.cpu import blocked_transpose
from dml_jax.operations import promises


def test_rows_are_unique():
    assert sorted(set(ROWS)) == sorted(ROWS)


@pytest.mark.parametrize(("operation", "platform"), sorted({row[:2] for row in HERE}))
def test_every_row_is_chosen_by_a_large_call(operation, platform, exhaustive, monkeypatch):
    """The calls are lowered for the platform, which need not be there, until every row was chosen.

    One row is of releases that drop barriers; there the other rows are chosen, too.
    """
    monkeypatch.setattr(blocked_transpose, "DROPS_BARRIERS", True)
    missing = {name for row, at, name in ROWS if (row, at) == (operation, platform)}
    for call in calls_that_choose(operation, every=exhaustive):
        missing -= {name for chosen, name in choices_on(platform, call) if chosen == operation}
        if not missing:
            break
    assert not missing, f"no large call of tests/variant_cases.py that {operation!r} is in chooses these"


@pytest.mark.parametrize("platform", ["rocm", "tpu"])
def test_an_unknown_platform_has_no_variant(platform, exhaustive):
    calls = calls_of("large")[:: 1 if exhaustive else 16]
    assert {name for call in calls for _, name in choices_on(platform, call)} == {"plain"}


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
def test_few_bytes_have_no_variant(platform, exhaustive):
    """Most choose nothing, and are no call of the library's primitive. Few bytes may be multiplied many times."""
    calls = [call for call in calls_of("small") if sum(array.nbytes for array in call.arrays) < 2**12]
    calls = [call for call in calls if call.operator != "convolution"]
    assert {name for call in calls[:: 1 if exhaustive else 8] for _, name in choices_on(platform, call)} <= {"plain"}


def test_a_small_program_binds_gather_once(monkeypatch):
    """Beside what it shows to checkify."""
    monkeypatch.setattr(promises, "show_to_checkify", lambda check, array: array)
    gather, calls = lax.gather, []
    monkeypatch.setattr(lax, "gather", lambda *given, **named: calls.append(given) or gather(*given, **named))
    rows_of_bytes = np.zeros((9, 32), np.uint8), np.int32([3, 3, -1])
    jax.jit(lambda x, at: dml_jax.gather(x, at, 0)).lower(*rows_of_bytes)
    assert len(calls) == 1
