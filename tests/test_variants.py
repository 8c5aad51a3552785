"""Every variant of every operation is equal to plain where it is forced, and chosen by some large call."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_agrees, together
from jax import lax
from variant_cases import calls_of, choices_in, running

import dml_jax
from dml_jax import ConstraintError, TensorDesc, use_form
from dml_jax.lowering import select
from dml_jax.lowering.forced import forced_form
from dml_jax.lowering.registry import VARIANTS

pytestmark = pytest.mark.device

ROWS = [(variant.operation, variant.platform, variant.name) for variant in VARIANTS]
every_variant = pytest.mark.parametrize(
    ("operation", "name"), list(dict.fromkeys((operation, name) for operation, _, name in ROWS)), ids=str
)


def results_of(calls):
    """Of calls without and with 64-bit types, in their order."""
    results = {}
    for is_wide in (False, True):
        with jax.enable_x64(is_wide):
            some = [call for call in calls if call.is_wide == is_wide]
            results |= zip(map(id, some), together((call.function, *call.arrays) for call in some), strict=True)
    return [results[id(call)] for call in calls]


# What is forced.


@every_variant
def test_a_forced_variant_is_equal_to_plain(operation, name, exhaustive):
    """Bits that move; of what adds up sums of small integers, which are exact."""
    calls = running(operation, name, None if exhaustive else 12)
    assert calls, f"no small call of tests/variant_cases.py runs {name!r} of {operation!r}"
    with use_form("plain"):
        expected = results_of(calls)
    with use_form(name):
        results = results_of(calls)
    for call, *both in zip(calls, results, expected, strict=True):
        for actual, plain in zip(*map(jax.tree.leaves, both), strict=True):
            try:
                assert_agrees(actual, plain, call.units)
            except AssertionError as error:
                error.add_note(call.name)
                raise


def test_a_form_that_is_forced_ends_with_its_block_and_must_exist():
    first, second = select.form_names()[:2]
    with use_form(first), use_form(second):
        assert forced_form() == second
    assert forced_form() is None
    with pytest.raises(ConstraintError, match=r"use_form: name must be one of 'plain', .* but it is 'fastest'\."):
        use_form("fastest").__enter__()


def test_plain_and_the_name_of_every_variant_are_forms():
    assert {"plain", *(name for _, _, name in ROWS)} <= {*select.form_names()}
    assert "plain" not in {name for _, _, name in ROWS}


def test_a_compiled_operator_keeps_the_form_of_its_making():
    """Also one that is traced inside of a use_form: equal descriptors share a program."""
    sizes = TensorDesc("UINT8", (1, 1, 9, 32)), TensorDesc("UINT32", (1, 1, 1, 4)), TensorDesc("UINT8", (1, 1, 4, 32))
    desc = dml_jax.GatherDesc(*sizes, axis=2, index_dimensions=1)
    run = dml_jax.compile_operator(desc)
    with use_form("words"):
        chosen, forced = run.as_text(), dml_jax.compile_operator(desc).as_text()
    assert chosen != forced
    assert "bitcast_convert" in forced
    assert dml_jax.compile_operator(desc).as_text() == chosen


def test_a_transpose_keeps_the_form_of_its_read():
    """JAX transposes, and lowers, after the block of use_form has ended."""
    x, at = np.ones((9, 32), np.float16), np.int32([3, 3, -1])
    with use_form("words"):
        result, pull_back = jax.vjp(lambda x: dml_jax.gather(x, at, 0), x)
    with select.watch_choices() as seen:
        jax.jit(pull_back).lower(result)


# What is chosen.


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
def test_every_row_is_chosen_by_a_large_call(platform):
    """The calls are lowered for the platform, which need not be there, until every row was chosen."""
    missing = {row for row in ROWS if row[1] == platform}
    assert missing
    for call in calls_of("large", every_dtype=True):
        if missing:
            missing -= {(choice.operation, platform, choice.name) for choice in choices_in(call, platform)}
    assert not missing, "no large call of tests/variant_cases.py chooses these rows"


@pytest.mark.parametrize("platform", ["rocm", "tpu"])
def test_an_unknown_platform_has_no_variant(platform):
    calls = calls_of("large")[::20]
    assert {choice.name for call in calls for choice in choices_in(call, platform)} == {"plain"}


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
def test_few_bytes_have_no_variant(platform):
    calls = [call for call in calls_of("small") if sum(array.nbytes for array in call.arrays) < 2**13][::10]
    assert {choice.name for call in calls for choice in choices_in(call, platform)} <= {"plain"}


def test_a_small_program_binds_gather_once(monkeypatch):
    """One that no variant can gain from is traced once, for no platform twice."""
    calls, gather = [], lax.gather
    monkeypatch.setattr(lax, "gather", lambda *x, **y: calls.append(x) or gather(*x, **y))
    jax.jit(lambda x, i: dml_jax.gather(x, i, 0)).lower(jnp.ones((9, 8), jnp.uint8), jnp.zeros(3, jnp.int32))
    assert len(calls) == 1
