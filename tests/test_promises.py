"""Properties of every function of the catalogue: its files, static arguments, errors, documentation, cost of a call.

The calls come from the operators' own test files; what such a file, or the page of an operator, lacks fails here.
"""

import contextlib
import inspect
from pathlib import Path

import chex
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from catalogue_cases import BREAKS, CASES, FILES, ORACLES, STRUCTS, VARIANTS
from checks import assert_is
from promise_cases import by_name, every_case, first_of_each, flipped

import dml_jax
from dml_jax.catalogue import DESCS, FUNCTIONS, page_of
from dml_jax.catalogue import PAGES as OPERATORS
from dml_jax.errors import describe

PAGES = Path(__file__).parents[1] / "docs" / "operators"


# What an operator needs.


def test_every_file_is_of_an_operator():
    assert {*FILES} == {*OPERATORS}


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_has_its_test_file_and_its_page(name):
    assert name in FILES, f"tests/operators/test_{name}.py is missing"
    of_function = ("oracle", "CASE", "BREAKS", "VARIANTS") if name in FUNCTIONS else ()
    missing = [what for what in (*of_function, "STRUCTS") if not hasattr(FILES[name], what)]
    assert not missing, f"tests/operators/test_{name}.py lacks {missing}"
    assert name not in FUNCTIONS or FILES[name].CASE.function is FUNCTIONS[name]
    assert all(page_of(function) == function.__name__ for function in FUNCTIONS.values())
    structs = {struct.desc.operator_type for struct in FILES[name].STRUCTS}
    here = {cls.operator_type for cls in DESCS if page_of(cls) == name}
    assert structs == here, "STRUCTS must have those of the operator's file"
    assert (PAGES / f"{name}.md").is_file(), f"docs/operators/{name}.md is missing"


def test_every_struct_has_its_facts():
    assert {*STRUCTS} == {cls.operator_type for cls in DESCS}
    assert all(struct.levels and struct.examples for struct in STRUCTS.values())


@by_name({name: name for name in ORACLES})
def test_oracles_import_no_jax(case):
    """They are loops over NumPy's elements."""
    globals_ = ORACLES[case].__globals__
    for name in ORACLES[case].__code__.co_names:
        where = getattr(globals_.get(name), "__module__", None) or getattr(globals_.get(name), "__name__", "")
        assert "jax" not in where, f"the oracle of {case} uses {name}"


# Static arguments.


def is_numbers(value):
    """Whether a static argument is a number or a sequence of them."""
    numbers = value if isinstance(value, tuple | list | range) else (value,)
    return all(isinstance(number, bool | int | float) for number in numbers)


def narrow(value):
    """An array or a number of the narrowest type that holds all of them."""
    types = map(np.min_scalar_type, np.ravel(value))
    return np.array(value, np.result_type(*types) if np.size(value) else np.int8)[()]


def wide(value):
    """A list of numbers of 64 bits, or one."""
    return [*np.array(value)] if np.ndim(value) else np.array(value)[()]


@first_of_each({name: case for name, case in VARIANTS.items() if any(map(is_numbers, case.static.values()))})
@pytest.mark.parametrize("of_numpy", [narrow, wide])
def test_numbers_of_numpy_are_accepted(case, of_numpy):
    static = {name: of_numpy(value) if is_numbers(value) else value for name, value in case.static.items()}
    assert_is(case.changed(**static)(*case.leaves), case(*case.leaves))


# The cost of a call.


@pytest.mark.thinned(12)
@every_case
def test_a_second_call_compiles_nothing(case, compilations):
    arrays = case.leaves
    jax.clear_caches()
    with compilations() as first:
        case(*arrays)
    with compilations() as second:
        case(*map(flipped, arrays))
    assert first
    assert not second


@every_case
def test_a_second_call_traces_nothing(case):
    arrays = case.leaves
    chex.clear_trace_counter()
    traced_once = jax.jit(chex.assert_max_traces(lambda *x: case(*x), n=1))
    traced_once.trace(*arrays)
    traced_once.trace(*map(flipped, arrays))


# Errors.


@pytest.mark.device
@pytest.mark.thinned(6)
@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
@every_case
def test_debug_nans_name_the_operator(case, jit):
    """Not a primitive of JAX, such as "stage", which makes an array of NumPy's one of JAX's."""
    nans = [np.full_like(x, np.nan) if i in case.floats else x for i, x in enumerate(case.leaves)]
    has_nans = any(np.isnan(y).any() for y in jax.tree.leaves(case(*nans)) if jnp.issubdtype(y.dtype, jnp.floating))
    with jax.debug_nans(True), pytest.raises(FloatingPointError) if has_nans else contextlib.nullcontext() as caught:
        if jit:
            jax.jit(lambda: case(*nans))()  # not as arguments, which JAX itself looks at
        else:
            case(*nans)
    if has_nans:
        assert str(caught.value) == f"invalid value (nan) encountered in {case.function.__name__}"


@pytest.mark.device
@pytest.mark.parametrize(
    "call",
    [
        lambda x: dml_jax.gather(x, np.int32([9]), 0, mode="fill", fill_value=np.nan),
        lambda x: dml_jax.pad(x, (1,), (0,), value=np.nan),
        lambda x: dml_jax.fill_value_constant((2,), np.nan, dtype=np.float32) + x,
    ],
    ids=["gather", "pad", "fill_value_constant"],
)
def test_debug_nans_name_the_operator_that_fills_with_nan(call, request):
    x = jnp.float32([1, 2])
    for function in (call, jax.jit(call), lambda x: jax.vmap(call)(x[None]), jax.grad(lambda x: call(x).sum())):
        with jax.debug_nans(True), pytest.raises(FloatingPointError, match=f"in {request.node.callspec.id}$"):
            function(x)


@pytest.mark.parametrize("name", CASES)
def test_every_rule_is_broken_once(name):
    """The call as it stands is accepted; one change breaks one rule, and the list of rules is complete."""
    case, breaks = CASES[name], BREAKS[name]
    jax.eval_shape(case, *case.leaves)
    assert list(breaks) == [rule.name for rule in case.function.rules]
    for rule in case.function.rules:
        broken = {**case.arguments, **breaks[rule.name]}
        with pytest.raises(rule.error) as caught:
            case.function(**broken)
        text = str(caught.value)
        assert text.startswith(f"{name}: {rule.worded({})}, but ")
        for argument, value in broken.items():
            is_shown = case.function.kinds[argument].is_shown
            if is_shown and not rule.name.startswith("integer("):  # which arrays break before anything else is there
                shown = "" if isinstance(value, list | tuple) else describe(value)
                assert f"{argument}={shown}" in text


@pytest.mark.parametrize("name", CASES)
def test_errors_are_raised_while_tracing(name):
    case = CASES[name]
    broken = {**case.arguments, **BREAKS[name][case.function.rules[-1].name]}
    traced = {k: broken[k] for k in case.arrays}
    static = {k: v for k, v in broken.items() if k not in traced}
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), traced)
    with pytest.raises(dml_jax.ConstraintError):
        jax.eval_shape(lambda arrays: case.function(**arrays, **static), shapes)


# Documentation.


@every_case
def test_docstrings_have_every_section_and_name_every_argument(case):
    text = inspect.getdoc(case.function)
    positions = [text.index(section) for section in ("Args:", "Returns:", "Raises:", "Example:", "Source:")]
    assert positions == sorted(positions)
    for name in inspect.signature(case.function).parameters:
        assert f"{name}: " in text
    assert "_DESC" in text[positions[-1] :]
