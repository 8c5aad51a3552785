"""Convolutions: every form of them, against sums in float64, and where it is chosen."""

import itertools
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import sampled

import dml_jax
from dml_jax.lowering.plain import convolution as module
from dml_jax.lowering.plain.convolution import by_columns, by_groups, by_taps, convolve, form_on_cpu, plain
from dml_jax.lowering.plain.windows import Windows

SIZES = (11, 9, 7)


@pytest.fixture(autouse=True)
def in_full_precision():
    """A GPU rounds the operands of products of float32 where JAX is not told otherwise."""
    with jax.default_matmul_precision("highest"):
        yield


def exact(x, w, windows, groups):
    """Tap by tap, in float64."""
    x = np.pad(x.astype(np.float64), [(0, 0)] * 2 + [(one.start, one.end) for one in windows])
    x = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    w = w.astype(np.float64).reshape(groups, -1, *w.shape[1:])
    y: Any = 0
    for tap in np.ndindex(*w.shape[3:]):
        starts = [i * one.dilation for i, one in zip(tap, windows, strict=True)]
        at = [
            slice(s, s + one.stride * (one.count - 1) + 1, one.stride) for s, one in zip(starts, windows, strict=True)
        ]
        y = y + np.einsum("ngc...,goc->ngo...", x[(..., *at)], w[(..., *tap)])
    return y.reshape(y.shape[0], -1, *y.shape[3:])


def case(rank, kernel, stride, dilation, pads, groups, channels=4, made=4, batch=2) -> Any:
    """Operands, with numbers that differ along the dimensions."""
    kernels, strides = [(kernel + d - 1) % 5 + 1 for d in range(rank)], [(stride + d - 1) % 3 + 1 for d in range(rank)]
    dilations = [dilation if k < 4 else 1 for k in kernels]
    starts, ends = pads
    windows = [
        Windows(n, k, s, e, starts + d % 2, ends + 1 - d % 2)
        for d, (n, k, s, e) in enumerate(zip(SIZES, kernels, strides, dilations, strict=False))
    ]
    rng = np.random.default_rng(kernel + 7 * rank)
    x = rng.standard_normal((batch, channels, *SIZES[:rank]), np.float32)
    return x, rng.standard_normal((made, channels // groups, *kernels), np.float32), windows, groups


def forms_of(groups, channels):
    return [plain, by_columns, *([by_groups] if groups > 1 else []), *([by_taps] if groups == channels else [])]


GROUPS = ((1, 3), (2, 4), (4, 4), (4, 8))  # of 4 channels, and how many are made
EVERY = list(itertools.product(range(1, 6), range(1, 4), (1, 2), ((0, 0), (1, 2)), GROUPS, (1, 2)))
PARTS = 239
RANKS_AND_PARTS = list(itertools.product((1, 2, 3), range(0, PARTS, 4)))


@pytest.mark.thinned(2)
@pytest.mark.parametrize("which", sampled(RANKS_AND_PARTS, [(1, 0), (2, 4), (2, 8), (3, 12)]))
def test_every_form_makes_the_sums(which):
    rank, part = which
    chosen = EVERY[part::PARTS]
    cases = [case(rank, k, s, d, pads, groups, made=made, batch=n) for k, s, d, pads, (groups, made), n in chosen]

    def forms(operands):
        of_cases = zip(operands, cases, strict=True)
        return [[form(x, w, ws, g) for form in forms_of(g, 4)] for (x, w), (_, _, ws, g) in of_cases]

    for results, one in zip(jax.jit(forms)([one[:2] for one in cases]), cases, strict=True):
        expected = exact(*one)
        for result in results:
            np.testing.assert_allclose(result, expected, rtol=1e-5, atol=2e-5, err_msg=str(one[2:]))


@pytest.mark.parametrize("is_large", [False, True])
def test_a_product_for_each_example_or_one_for_all(is_large, monkeypatch):
    """The same sums; one for all is transposed, before or after."""
    monkeypatch.setattr(module, "_is_large", lambda *_: is_large)
    for kernel, groups in ((1, 1), (1, 2), (3, 1), (3, 4)):
        x, w, windows, _ = one = case(2, kernel, 2, 1, (1, 0), groups, made=8, batch=3)
        run = jax.jit(lambda x, w, windows=windows, groups=groups: by_columns(x, w, windows, groups))
        np.testing.assert_allclose(run(x, w), exact(*one), rtol=1e-5, atol=2e-5)
    x, w = jnp.ones((3, 8, 4, 4)), jnp.ones((4, 8, 1, 1))
    program = jax.jit(lambda x, w: by_columns(x, w, [Windows(4, 1, 1, 1, 0, 0)] * 2, 1)).lower(x, w).as_text()
    assert ("stablehlo.transpose" in program) != is_large
    assert "stablehlo.gather" not in program


@pytest.mark.parametrize(
    ("places", "filters", "before", "since"),
    [(3136, (64, 256), True, True), (196, (64, 256), False, True), (49, (512, 2048), False, False)],
)
def test_large_pictures_have_a_product_each(places, filters, before, since, monkeypatch):
    columns, filters = (jax.ShapeDtypeStruct(shape, np.float32) for shape in ((8, 1, 256, places), (1, *filters)))
    for jaxlib, expected in ((10, before), (11, since), (12, since)):
        monkeypatch.setattr(module, "JAXLIB", jaxlib)
        assert module._is_large(columns, filters) == expected


# What is chosen by shapes.

SHAPES: dict[str, Any] = {
    "one by one": (by_columns, (1, 64, 56, 56), (256, 64, 1, 1), 1),
    "one by one, in groups": (by_columns, (1, 272, 14, 14), (272, 68, 1, 1), 4),
    "many filters, few places": (by_columns, (1, 256, 14, 14), (256, 256, 3, 3), 1),
    "colours": (by_columns, (1, 3, 224, 224), (64, 3, 3, 3), 1),
    "a filter per channel": (by_taps, (1, 136, 28, 28), (136, 1, 3, 3), 136),
    "many places": (plain, (1, 64, 112, 112), (128, 64, 3, 3), 1),
    "too many columns": (by_groups, (8, 96, 26, 26), (256, 48, 5, 5), 2),
    "too many groups": (plain, (8, 128, 56, 56), (128, 2, 3, 3), 64),
    "too many taps": (plain, (1, 8, 99, 99), (8, 1, 12, 12), 8),
    "nothing": (plain, (0, 8, 9, 9), (8, 1, 3, 3), 8),
}


@pytest.mark.parametrize("name", SHAPES)
def test_forms_are_chosen_by_shapes(name):
    form, x, w, groups = SHAPES[name]
    windows = [Windows(n, k, 1, 1, k // 2, k // 2) for n, k in zip(x[2:], w[2:], strict=True)]
    x, w = (jax.ShapeDtypeStruct(shape, np.float32) for shape in (x, w))
    assert form_on_cpu(x, w, windows, groups) is form


# What JAX does with it. Small cases of every form, the last one only where nothing fits.

SMALL = {
    by_columns: case(2, 3, 2, 1, (1, 0), 2),
    by_taps: case(2, 3, 1, 2, (1, 2), 4, made=8),
    plain: case(2, 5, 1, 1, (1, 1), 1, channels=20),
    by_groups: case(2, 2, 1, 1, (0, 1), 2),
}


def small(form, monkeypatch):
    monkeypatch.setattr(module, "MOST_COLUMNS", 0 if form is by_groups else module.MOST_COLUMNS)
    x, w, *rest = SMALL[form]
    assert form_on_cpu(x, w, *rest) is form
    return x, w, partial(convolve, windows=rest[0], groups=rest[1]), partial(exact, windows=rest[0], groups=rest[1])


@pytest.mark.parametrize("form", sampled(list(SMALL), [by_columns]))
def test_maps_of_pictures_of_filters_and_of_both(form, monkeypatch):
    x, w, made, expected = small(form, monkeypatch)
    xs, ws = (np.stack([a, 2 * a[::-1], a - 1]) for a in (x, w))
    for axes in ((0, None), (None, 0), (0, 0)):
        arrays = (xs if axes[0] == 0 else x, ws if axes[1] == 0 else w)
        each = [expected(*(a if n is None else a[i] for a, n in zip(arrays, axes, strict=True))) for i in range(3)]
        np.testing.assert_allclose(jax.jit(jax.vmap(made, axes))(*arrays), each, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("form", sampled(list(SMALL), [by_columns, by_taps]))
def test_derivatives_are_those_of_a_bilinear_function(form, monkeypatch):
    """Of the sums: along a tangent the function itself, and the cotangents give the same number."""
    x, w, made, expected = small(form, monkeypatch)
    rng = np.random.default_rng(1)
    dx, dw = (rng.standard_normal(a.shape).astype(np.float32) for a in (x, w))
    y, tangent = jax.jit(lambda *a: jax.jvp(made, a, (dx, dw)))(x, w)
    wanted = expected(dx, w) + expected(x, dw)
    np.testing.assert_allclose(y, expected(x, w), rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(tangent, wanted, rtol=1e-5, atol=1e-4)
    ct = rng.standard_normal(y.shape).astype(np.float32)
    gx, gw = jax.jit(lambda *a: jax.vjp(made, *a)[1](ct))(x, w)
    for gradient, direction, along in ((gx, dx, expected(dx, w)), (gw, dw, expected(x, dw))):
        assert gradient.shape == direction.shape
        np.testing.assert_allclose(np.vdot(gradient, direction), np.vdot(ct, along), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("dtype", sampled([np.float16, ml_dtypes.bfloat16, np.float64], [np.float16]))
def test_narrow_floats_are_added_up_wide_and_rounded_once(dtype, monkeypatch):
    step = float(jnp.finfo(dtype).eps)
    for form in (by_columns, by_taps, plain):
        x, w, made, expected = small(form, monkeypatch)
        x, w = x.astype(dtype), w.astype(dtype)
        with jax.enable_x64(True):
            y = jax.jit(made)(x, w)
        assert y.dtype == dtype
        rtol, atol = (0.51 * step, 1e-5) if step > 1e-7 else (1e-12, 1e-12)
        np.testing.assert_allclose(np.asarray(y, np.float64), expected(x, w), rtol, atol)


def test_the_plain_form_can_be_forced():
    x, w = jnp.ones((1, 8, 9, 9)), jnp.ones((4, 8, 1, 1))
    windows = [Windows(9, 1, 1, 1, 0, 0)] * 2

    def program():
        return jax.jit(lambda x, w: convolve(x, w, windows)).trace(x, w).lower(lowering_platforms=("cpu",)).as_text()

    assert "dot_general" in program()
    with dml_jax.use_form("plain"):
        assert "dot_general" not in program()


def test_the_operator_convolves_so_too():
    """Each channel by itself: no convolution of XLA's, which takes 40 times as long on a CPU."""

    def program(platform):
        run = jax.jit(lambda x, w: dml_jax.convolution(x, w, group_count=128))
        traced = run.trace(jnp.ones((1, 128, 8, 8)), jnp.ones((128, 1, 3, 3)))
        return traced.lower(lowering_platforms=(platform,)).as_text()

    assert "stablehlo.convolution" not in program("cpu")
    assert "HIGHEST" in program("cuda")


def test_gradients_of_a_plain_convolution_have_no_branch():
    """In which XLA:CPU convolves 15 times as slowly."""
    x, w, windows = jnp.ones((8, 64, 28, 28)), jnp.ones((64, 64, 3, 3)), [Windows(28, 3, 1, 1, 1, 1)] * 2
    assert form_on_cpu(x, w, windows, 1) is plain
    gradient = jax.grad(lambda x, w: (convolve(x, w, windows) ** 2).sum(), (0, 1))
    assert "cond[" not in str(jax.make_jaxpr(gradient)(x, w))
