"""The promises that every operator keeps: transformations, errors, documentation, cost of a call."""

import contextlib
import importlib
import inspect
import pkgutil
from importlib.util import find_spec

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits
from jax.experimental import checkify
from jax.test_util import check_grads
from operator_cases import CASES, ROWS, VARIANTS, X

import dml_jax
from dml_jax.catalogue import FUNCTIONS
from dml_jax.errors import describe

every_operator = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
every_variant = pytest.mark.parametrize("case", VARIANTS.values(), ids=VARIANTS)
every_index_operator = pytest.mark.parametrize(
    "name", [name for name, case in CASES.items() if "indices" in case.arrays]
)


def test_the_namespace_is_what_all_says():
    """And `dir` shows nothing else, whatever was imported."""
    assert sorted({*dml_jax.__all__, "__version__", "batch", "onnx"}) == dir(dml_jax)
    assert {*CASES} == {*FUNCTIONS} <= {*dml_jax.__all__}
    assert all(getattr(dml_jax, name) is not None for name in dml_jax.__all__)
    with pytest.raises(AttributeError, match="module 'dml_jax' has no attribute 'gathr'"):
        dml_jax.gathr  # noqa: B018


def test_every_module_is_imported():
    """Doctests pass over a module that cannot be."""
    missing = () if find_spec("onnx") else ("dml_jax.onnx",)
    names = [found.name for found in pkgutil.walk_packages(dml_jax.__path__, "dml_jax.", onerror=lambda name: None)]
    assert len(names) > 50
    for name in names:
        if not name.startswith(missing or "-"):
            importlib.import_module(name)


# Transformations.


@every_variant
def test_eager_is_jitted_is_vmapped_is_exported(case):
    arrays = list(case.arrays.values())
    eager = case(*arrays)
    assert_same_bits(jax.jit(case)(*arrays), eager)
    stacked = [np.stack([a, a[::-1]]) for a in arrays]
    mapped = jax.vmap(case)(*stacked)
    for i in range(2):
        assert_same_bits(mapped[i], case(*(s[i] for s in stacked)))
    exported = jax.export.export(jax.jit(case), platforms=("cpu", "cuda", "tpu"))(*arrays)
    if jax.default_backend() in ("cpu", "tpu"):
        assert_same_bits(exported.call(*arrays), eager)
    assert_same_bits(jax.eval_shape(case, *arrays).shape, eager.shape)


def test_export_with_symbolic_sizes():
    """One artifact for every batch, every length of the indexed axis, and every even picture."""
    b, n, k, h, w = jax.export.symbolic_shape("b, n, k, 2*h, 2*w")

    def exported(function, *shapes):
        specs = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes]
        return jax.export.export(jax.jit(function))(*specs).call

    floats, integers = jnp.float32, jnp.int32
    i = np.int32([5, -1, 9])
    for mode in ("clip", "fill"):
        read = lambda x, i, mode=mode: dml_jax.gather(x, i, 1, mode=mode)  # noqa: E731
        assert_same_bits(exported(read, ((b, n), floats), ((k,), integers))(X, i), read(X, i))
    elements = lambda x, i: dml_jax.gather_elements(x, i, 1)  # noqa: E731
    assert_same_bits(
        exported(elements, ((b, n), floats), ((b, k), integers))(X, ROWS[[0] * 4]), elements(X, ROWS[[0] * 4])
    )
    picture = np.arange(2 * 3 * 4 * 6, dtype=np.float32).reshape(2, 3, 4, 6)
    to_depth = lambda x: dml_jax.space_to_depth(x, 2)  # noqa: E731
    assert_same_bits(exported(to_depth, ((b, 3, h, w), floats))(picture), to_depth(picture))


@every_variant
def test_vmap_over_one_operand(case):
    arrays = list(case.arrays.values())
    for which in range(len(arrays)):
        stacked = np.stack([arrays[which], arrays[which][::-1]])
        in_axes = [0 if i == which else None for i in range(len(arrays))]
        mapped = jax.vmap(case, in_axes=in_axes)(*arrays[:which], stacked, *arrays[which + 1 :])
        for i in range(2):
            assert_same_bits(mapped[i], case(*arrays[:which], stacked[i], *arrays[which + 1 :]))


@every_operator
def test_derivatives(case):
    """Exact in both directions: data movement is linear in its data."""
    arrays = [a % 7 if a.dtype.kind == "f" else a for a in case.arrays.values()]

    def of_floats(*floats):
        taken = iter(floats)
        return case(*(next(taken) if i in case.floats else a for i, a in enumerate(arrays)))

    floats = [arrays[i] for i in case.floats]
    check_grads(of_floats, floats, order=2, atol=0.05, rtol=0.05)
    output, tangent = jax.jvp(of_floats, floats, floats)
    assert_same_bits(output, tangent)
    cotangents = jax.vjp(of_floats, *floats)[1](output)
    assert_same_bits(jnp.vdot(output, output), sum(jnp.vdot(c, f) for c, f in zip(cotangents, floats, strict=True)))


@every_index_operator
@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jitted"])
def test_checkify_reports_an_index_out_of_range(name, jit):
    case = CASES[name]
    modes = ("drop", "clip") if "updates" in case.arrays else ("clip", "fill")
    for mode in modes:

        def call(indices, mode=mode):
            return case.function(**{**case.arrays, "indices": indices}, **case.static, mode=mode)

        checked = checkify.checkify(jax.jit(call) if jit else call, errors=checkify.index_checks)
        good = jnp.clip(case.arrays["indices"], -4, 3)
        assert checked(good)[0].get() is None
        for bad in (4 if name != "gather" else 6, -5 if name != "gather" else -7, 2**31 - 1):
            error, _ = checked(good.at[(0,) * good.ndim].set(bad))
            assert "out-of-bounds" in error.get()


@pytest.fixture
def compilations(caplog):
    """Counts what is compiled inside a `with` block."""

    @contextlib.contextmanager
    def counted():
        caplog.clear()
        messages = []
        with jax.log_compiles(), caplog.at_level("WARNING"):
            yield messages
        messages += [m for m in (r.getMessage() for r in caplog.records) if "Compiling" in m]

    return counted


@every_operator
def test_a_second_call_compiles_nothing(case, compilations):
    arrays = list(case.arrays.values())
    jax.clear_caches()
    with compilations() as first:
        case(*arrays)
    with compilations() as second:
        case(*(a[::-1] for a in arrays))
    assert first
    assert not second


def test_a_new_fill_value_compiles_nothing(compilations):
    for value in (0.0, np.nan, np.nan):
        with compilations() as compiled:
            dml_jax.gather(X, ROWS[0], 0, mode="fill", fill_value=value)
    assert not compiled


# Errors.


@every_operator
def test_every_rule_is_broken_once(case):
    """The call as it stands is accepted; one change breaks one rule, and the list of rules is complete."""
    assert list(case.breaks) == [rule.name for rule in case.rules]
    for rule in case.rules:
        broken = {**case.arrays, **case.static, **case.breaks[rule.name]}
        with pytest.raises(rule.error) as caught:
            case.function(**broken)
        text = str(caught.value)
        assert text.startswith(f"{case.function.__name__}: {rule.worded({})}, but ")
        for name, value in broken.items():
            if rule.name != "integer(indices)":  # which NumPy arrays break before there is anything else to show
                assert f"{name}={describe(value)}" in text


def test_the_message_names_operator_rule_fact_and_operands():
    with pytest.raises(dml_jax.ConstraintError) as caught:
        dml_jax.gather_elements(np.zeros((3, 3), np.float32), np.zeros((2, 2), np.int32), 0)
    assert str(caught.value) == (
        "gather_elements: indices.sizes must equal input.sizes except along axis, "
        "but (2, 2) and (3, 3) differ in dimension 1.\n"
        "  got input=float32[3,3], indices=int32[2,2], axis=0, mode='clip'"
    )


def test_errors_are_the_exceptions_people_expect():
    assert issubclass(dml_jax.ConstraintError, ValueError)
    assert issubclass(dml_jax.DataTypeError, dml_jax.ConstraintError)
    assert issubclass(dml_jax.DataTypeError, TypeError)


@every_operator
def test_errors_are_raised_while_tracing(case):
    rule = case.rules[-1]
    broken = {**case.arrays, **case.static, **case.breaks[rule.name]}
    shapes = {k: jax.ShapeDtypeStruct(v.shape, v.dtype) for k, v in broken.items() if isinstance(v, np.ndarray)}
    static = {k: v for k, v in broken.items() if k not in shapes}
    with pytest.raises(dml_jax.ConstraintError):
        jax.eval_shape(lambda arrays: case.function(**arrays, **static), shapes)


# Documentation.


@every_operator
def test_docstrings_have_every_section_and_name_every_argument(case):
    text = inspect.getdoc(case.function)
    positions = [text.index(section) for section in ("Args:", "Returns:", "Raises:", "Example:", "Source:")]
    assert positions == sorted(positions)
    for name in inspect.signature(case.function).parameters:
        assert f"{name}: " in text
    assert "_DESC" in text[positions[-1] :]
