"""Every variant of every operation is equal to plain where it is forced."""

from itertools import islice

import jax
import jax.numpy as jnp
import pytest
from checks import assert_agrees, sampled, together
from operator_cases import u8, u32
from variant_cases import calls_that_run

import dml_jax
from dml_jax import ConstraintError, use_form
from dml_jax.lowering.registry import VARIANTS
from dml_jax.lowering.use_form import form_names
from dml_jax.operations.programs import variant_selection
from dml_jax.operations.programs.forced_form import forced_form

pytestmark = pytest.mark.device

ROWS = [(variant.operation, variant.platform, variant.name) for variant in VARIANTS]
# test_flash_attention.py and test_embedding_tables.py force these: they need cuDNN, or a mesh.
ELSEWHERE = ("attention", "attention_cotangents", "fetch_rows", "send_rows")
HERE = [row for row in ROWS if row[0] not in ELSEWHERE]
FORCED = list(dict.fromkeys((operation, name) for operation, _, name in HERE))


def results_of(calls):
    """Of calls without and with 64-bit types, in their order."""
    results = {}
    for is_wide in (False, True):
        with jax.enable_x64(is_wide):
            some = [call for call in calls if call.is_wide == is_wide]
            results |= zip(some, together((call.function, *call.arrays) for call in some), strict=True)
    return [results[call] for call in calls]


PLAIN = {}  # results, which the variants of an operation share


def plain_results_of(calls):
    missing = [call for call in calls if call not in PLAIN]
    with use_form("plain"):
        PLAIN.update(zip(missing, results_of(missing), strict=True))
    return [PLAIN[call] for call in calls]


# Of the small calls that run a variant: by default the first three, in .ci/run some more, with --exhaustive all.
PARTS = {"first": (0, 3), "next": (3, 8), "all": (0, None)}


@pytest.mark.parametrize("part", sampled(PARTS, ["first"]))
@pytest.mark.parametrize(("operation", "name"), FORCED)
def test_a_forced_variant_is_equal_to_plain(operation, name, part):
    """Bits of what moves; what adds up adds small integers, whose sums are exact."""
    calls = list(islice(calls_that_run(operation, name, every=part == "all"), *PARTS[part]))
    assert calls or part == "next", f"no small call of tests/variant_cases.py runs {name!r} of {operation!r}"
    expected = plain_results_of(calls)
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
    with use_form("plain"), use_form("words"):
        assert forced_form() == "words"
    assert forced_form() is None
    with pytest.raises(ConstraintError, match=r"^use_form: name must be one of 'plain', .* but it is 'fastest'\.$"):
        use_form("fastest").__enter__()


def test_forms_are_plain_and_the_names_of_variants():
    assert [*form_names()] == ["plain", *sorted({name for _, _, name in ROWS})]
    assert "plain" not in {name for _, _, name in ROWS}


def test_a_compiled_operator_keeps_the_form_of_its_making():
    """Also if it is traced inside of a use_form: equal descriptors share what is compiled."""
    sizes = u8(1, 1, 9, 32), u32(1, 1, 1, 3), u8(1, 1, 3, 32)
    desc = dml_jax.GatherDesc(*sizes, axis=2, index_dimensions=1)
    run = dml_jax.compile_operator(desc)
    with use_form("words"):
        chosen, forced = run.as_text(), dml_jax.compile_operator(desc).as_text()
    assert ("u32[1,1,9,8]" in forced, "u32[1,1,9,8]" in chosen) == (True, False)
    assert dml_jax.compile_operator(desc).as_text() == chosen


def test_what_was_traced_is_lowered_and_transposed_in_the_form_of_its_trace():
    """Which JAX does when the block of use_form has ended."""
    table, at = jnp.ones((9, 32), jnp.float16), jnp.int32([3, 3, -1])
    with use_form("words"):
        traced = jax.jit(lambda x: dml_jax.gather(x, at, 0)).trace(table)
    with use_form("sorted_segments"):
        result, pull_back = jax.vjp(lambda x: dml_jax.gather(x, at, 0), table)
    with variant_selection.watch_choices() as seen:
        traced.lower()
        jax.jit(pull_back).lower(result)
    assert [(choice.operation, choice.name) for choice in seen] == [
        ("gather", "words"),
        ("scatter_reduce", "sorted_segments"),
    ]
