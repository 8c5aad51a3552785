"""Convolutions: every variant of them, against sums in float64, and where it is chosen."""

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
from dml_jax.lowering.cpu import im2col
from dml_jax.operations.convolution import convolve, convolve_back
from dml_jax.operations.programs.variant_selection import watch_choices
from dml_jax.operations.sliding_windows import Windows

SIZES = (11, 9, 7)


pytestmark = pytest.mark.usefixtures("full_precision")


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


def case(rank, kernel, stride, dilation, pads, groups, channels=4, made=4, batch=2, sizes=SIZES) -> Any:
    """Operands, with numbers that differ along the dimensions."""
    kernels, strides = [(kernel + d - 1) % 5 + 1 for d in range(rank)], [(stride + d - 1) % 3 + 1 for d in range(rank)]
    dilations = [dilation if k < 4 else 1 for k in kernels]
    starts, ends = pads
    windows = [
        Windows(n, k, s, e, starts + d % 2, ends + 1 - d % 2)
        for d, (n, k, s, e) in enumerate(zip(sizes, kernels, strides, dilations, strict=False))
    ]
    rng = np.random.default_rng(kernel + 7 * rank)
    x = rng.standard_normal((batch, channels, *sizes[:rank]), np.float32)
    return x, rng.standard_normal((made, channels // groups, *kernels), np.float32), windows, groups


FORMS = ("plain", "im2col", "slices", "patches")


GROUPS = ((1, 3), (2, 4), (4, 4), (4, 8))  # of 4 channels, and how many are made
EVERY = list(itertools.product(range(1, 6), range(1, 4), (1, 2), ((0, 0), (1, 2)), GROUPS, (1, 2)))
PARTS = 239
RANKS_AND_PARTS = list(itertools.product((1, 2, 3), range(0, PARTS, 4)))


@pytest.mark.thinned(2)
@pytest.mark.parametrize("which", sampled(RANKS_AND_PARTS, [(1, 0), (2, 4), (2, 8), (3, 12)]))
def test_every_variant_makes_the_sums(which):
    rank, part = which
    chosen = EVERY[part::PARTS]
    cases = [case(rank, k, s, d, pads, groups, made=made, batch=n) for k, s, d, pads, (groups, made), n in chosen]

    for form in FORMS:

        def results(operands):
            return [convolve(x, w, ws, g) for (x, w), (_, _, ws, g) in zip(operands, cases, strict=True)]

        with dml_jax.use_form(form):
            made = jax.jit(results)([one[:2] for one in cases])
        for result, one in zip(made, cases, strict=True):
            np.testing.assert_allclose(result, exact(*one), rtol=1e-5, atol=2e-5, err_msg=f"{form} {one[2:]}")


TRANSPOSED = list(itertools.product((1, 2, 3), (1, 3), (1, 2, 3), (1, 2), ((1, 3), (2, 4), (4, 8)), (1, 2)))


def transposed_case(rank, kernel, stride, dilation, groups, batch):
    """Operands of a transposed convolution, its windows, and the sizes of the result, some beyond the sums."""
    groups, made = groups
    counts, rng = SIZES[1 : rank + 1] if rank < 3 else (4, 3, 5), np.random.default_rng(kernel + 7 * rank)
    windows = [Windows(n, (kernel + d) % 4 + 1, stride + d, dilation, d % 2, 0) for d, n in enumerate(counts)]
    windows = [Windows(w.size, w.window, w.stride, dilation, min(w.start, w.span - 1), 0) for w in windows]
    sizes = [w.stride * (w.size - 1) + w.span - w.start + d % 2 for d, w in enumerate(windows)]
    x = rng.standard_normal((batch, 4, *counts), np.float32)
    return x, rng.standard_normal((4, made // groups, *(w.window for w in windows)), np.float32), windows, sizes, groups


def exact_transposed(x, w, windows, sizes, groups):
    """Tap by tap, in float64, into an array with room beyond the result."""
    x = x.astype(np.float64).reshape(x.shape[0], groups, -1, *x.shape[2:])
    w = w.astype(np.float64).reshape(groups, -1, *w.shape[1:])
    ends = [one.stride * one.size + one.span + size for one, size in zip(windows, sizes, strict=True)]
    y = np.zeros((x.shape[0], groups, w.shape[2], *ends))
    for tap in np.ndindex(*w.shape[3:]):
        at = [
            slice(i * one.dilation, i * one.dilation + one.stride * (one.size - 1) + 1, one.stride)
            for i, one in zip(tap, windows, strict=True)
        ]
        y[(..., *at)] += np.einsum("ngc...,gco->ngo...", x, w[(..., *tap)])
    inside = [slice(one.start, one.start + size) for one, size in zip(windows, sizes, strict=True)]
    return y.reshape(y.shape[0], -1, *ends)[(..., *inside)]


@pytest.mark.parametrize("part", sampled(range(48), [5, 30]))
def test_every_variant_makes_the_sums_of_a_transpose(part):
    cases = [transposed_case(*one) for one in TRANSPOSED[part::48]]
    for form in ("plain", "im2col"):

        def results(operands):
            pairs = zip(operands, cases, strict=True)
            back = partial(convolve_back, precision=jax.lax.Precision.HIGHEST)
            turned = lambda w: jnp.flip(w, range(2, w.ndim))  # noqa: E731
            return [back(x, turned(w), ws, sizes, groups) for (x, w), (_, _, ws, sizes, groups) in pairs]

        with dml_jax.use_form(form):
            made = jax.jit(results)([one[:2] for one in cases])
        for result, one in zip(made, cases, strict=True):
            np.testing.assert_allclose(
                result, exact_transposed(*one), rtol=1e-5, atol=2e-5, err_msg=f"{form} {one[2:]}"
            )


TRANSPOSED_SHAPES: dict[str, Any] = {  # x, w, stride, groups
    "groups": ("im2col", (1, 32, 32, 24), (32, 8, 3, 3), 1, 4),
    "volumes": ("im2col", (1, 32, 4, 8, 8), (32, 16, 3, 3, 3), 1, 1),
    "zeros between the elements": ("im2col", (1, 64, 32, 24), (64, 32, 2, 2), 2, 1),
    "few channels": ("im2col", (1, 16, 195, 147), (16, 3, 3, 3), 1, 1),
    "no zeros, many channels": ("plain", (1, 64, 32, 24), (64, 32, 3, 3), 1, 1),
    "too many columns": ("plain", (8, 64, 64, 64), (64, 32, 4, 4), 2, 1),
    "few products for each column": ("plain", (8, 8, 7, 7), (8, 128, 5, 5), 2, 1),
    "few products, few channels": ("plain", (16, 16, 14, 14), (16, 16, 7, 7), 1, 1),
    "too many columns of an example": ("plain", (1, 64, 64, 64, 64), (64, 32, 3, 3, 3), 1, 1),
    "gaps": ("plain", (1, 16, 84, 84), (16, 32, 2, 2), 3, 1),
    "nothing": ("plain", (0, 8, 9, 9), (8, 8, 3, 3), 2, 1),
}


def transposed_of_shapes(x, w, stride, groups):
    """The transposed convolution of such shapes, traced."""
    windows = [Windows(n, k, stride, 1, 0, 0) for n, k in zip(x[2:], w[2:], strict=True)]
    sizes = [stride * (one.size - 1) + one.window for one in windows]
    x, w = (jax.ShapeDtypeStruct(shape, np.float32) for shape in (x, w))
    call = partial(convolve_back, windows=windows, sizes=sizes, groups=groups, precision=None)
    return jax.jit(call).trace(x, w)


@pytest.mark.parametrize("name", TRANSPOSED_SHAPES)
def test_variants_of_a_transpose_are_chosen_by_shapes(name):
    variant, *shapes = TRANSPOSED_SHAPES[name]
    with watch_choices() as seen:
        transposed_of_shapes(*shapes).lower(lowering_platforms=("cpu",))
    names = {choice.name for choice in seen if choice.operation == "transposed convolution"}
    assert names | {"plain"} == {variant, "plain"}


@pytest.mark.parametrize(("x", "w"), [((16, 32, 8, 8, 8), (32, 32, 3, 3, 3)), ((16, 64, 32, 32), (64, 8, 5, 5))])
def test_columns_of_a_batch_do_not_fill_the_memory(x, w):
    """They have 27 and 25 times the elements of what each example gives, but are made one example after the other."""
    made = transposed_of_shapes(x, w, 1, 1 if len(x) == 5 else 8).lower(lowering_platforms=("cpu",))
    columns = 4 * np.prod(x) // x[1] * np.prod(w[2:]) * (32 if len(x) == 5 else 64)
    assert made.compile().memory_analysis().temp_size_in_bytes < columns / 4


def test_examples_one_after_the_other_make_the_sums_of_a_transpose(monkeypatch):
    """And so do their derivatives, and maps of filters."""
    x, w, windows, sizes, groups = one = transposed_case(2, 3, 2, 1, (2, 4), 3)
    turned = partial(jnp.flip, axis=(2, 3))
    back = partial(convolve_back, windows=windows, sizes=sizes, groups=groups, precision=jax.lax.Precision.HIGHEST)
    monkeypatch.setattr(im2col, "KEPT", 0)
    with dml_jax.use_form("im2col"):
        program = jax.jit(lambda x, w: back(x, turned(w)))
        assert "stablehlo.while" in program.lower(x, w).as_text()
        y, tangent = jax.jit(partial(jax.jvp, program))((x, w), (2 * x, 3 * w))
        gradients = jax.jit(jax.grad(lambda *a: program(*a).sum(), (0, 1)))(x, w)
        many = jax.jit(jax.vmap(program, (None, 0)))(x, np.stack([w, 2 * w]))
    wanted = exact_transposed(*one)
    close = partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-4)
    close(y, wanted)
    close(tangent, 5 * wanted)
    close(many, np.stack([wanted, 2 * wanted]))
    for gradient, array in zip(gradients, (x, w), strict=True):
        np.testing.assert_allclose(np.vdot(gradient, array), wanted.sum(), rtol=1e-4)


@pytest.mark.parametrize("is_large", [False, True])
def test_a_product_for_each_example_or_one_for_all(is_large, monkeypatch):
    """The same sums; one for all is transposed, before or after."""
    monkeypatch.setattr(im2col, "_is_large", lambda *_: is_large)
    for kernel, groups in ((1, 1), (1, 2), (3, 1), (3, 4)):
        x, w, windows, _ = one = case(2, kernel, 2, 1, (1, 0), groups, made=8, batch=3)
        with dml_jax.use_form("im2col"):
            y = jax.jit(partial(convolve, windows=windows, groups=groups))(x, w)
        np.testing.assert_allclose(y, exact(*one), rtol=1e-5, atol=2e-5)
    text = program((8, 64, 28, 28), (64, 64, 1, 1))
    assert ("stablehlo.transpose" in text) != is_large
    assert "stablehlo.gather" not in text


def test_large_pictures_have_a_product_each():
    """The program transposes nothing then."""
    assert "stablehlo.transpose" not in program((8, 64, 28, 28), (64, 64, 1, 1))
    assert "stablehlo.transpose" in program((8, 2048, 7, 7), (512, 2048, 1, 1))


def test_a_depthwise_convolution_stays_apart_from_what_follows():
    """Fused with it, the loop would run over merged places, or along others than the slices, without vectors."""
    barrier = "stablehlo.optimization_barrier"
    assert barrier in program((1, 136, 28, 28), (136, 1, 3, 3), 136)
    assert barrier not in program((1, 64, 56, 56), (64, 64, 3, 3))


def test_an_exponential_before_a_depthwise_convolution_has_a_loop_of_its_own():
    """Fused with padding at both ends, it would be a branch for each element. A maximum costs less than to store it."""

    def loops(function, words, start=2):
        windows = [Windows(56, 5, 2, 1, start, 2)] * 2
        convolved = jax.jit(lambda x, w: convolve(function(x), w, windows, 64))
        text = convolved.lower(*map(jnp.ones, ((1, 64, 56, 56), (64, 1, 5, 5)))).compile().as_text()
        return [loop for loop in text.split("\n}") if any(f" {word}(" in loop for word in words)]

    assert len(loops(jax.nn.silu, ["exponential", "pad"])) == 2
    assert len(loops(jax.nn.silu, ["exponential", "pad"], start=0)) == 1
    assert len(loops(jax.nn.relu, ["pad"])) == len(loops(jax.nn.relu, ["maximum", "pad"])) == 1


# What is chosen by shapes.

SHAPES: dict[str, Any] = {
    "one by one": ("im2col", (1, 64, 56, 56), (256, 64, 1, 1), 1),
    "one by one, in groups": ("im2col", (1, 272, 14, 14), (272, 68, 1, 1), 4),
    "many filters, few places": ("im2col", (1, 256, 14, 14), (256, 256, 3, 3), 1),
    "colours": ("im2col", (1, 3, 224, 224), (64, 3, 3, 3), 1),
    "a filter per channel": ("slices", (1, 136, 28, 28), (136, 1, 3, 3), 136),
    "many places": ("plain", (1, 64, 112, 112), (128, 64, 3, 3), 1),
    "too many columns": ("slices", (8, 96, 26, 26), (256, 48, 5, 5), 2),
    "too many groups": ("plain", (8, 128, 56, 56), (128, 2, 3, 3), 64),
    "too many slices": ("plain", (1, 8, 259, 259), (8, 1, 12, 12), 8),
    "nothing": ("plain", (0, 8, 9, 9), (8, 1, 3, 3), 8),
}


def traced(x, w, groups=1):
    """The convolution of such shapes, traced."""
    windows = [Windows(n, k, 1, 1, k // 2, k // 2) for n, k in zip(x[2:], w[2:], strict=True)]
    x, w = (jax.ShapeDtypeStruct(shape, np.float32) for shape in (x, w))
    return jax.jit(partial(convolve, windows=windows, groups=groups)).trace(x, w)


def program(x, w, groups=1):
    return traced(x, w, groups).lower(lowering_platforms=("cpu",)).as_text()


@pytest.mark.parametrize("name", SHAPES)
def test_variants_are_chosen_by_shapes(name):
    variant, *shapes = SHAPES[name]
    with watch_choices() as seen:
        program(*shapes)
    assert {choice.name for choice in seen} | {"plain"} == {variant, "plain"}


# What JAX does with it. Small cases of every variant.

SMALL = {
    "im2col": case(2, 3, 2, 1, (1, 0), 2),
    "slices": case(2, 3, 1, 2, (1, 2), 4, made=8),
    "plain": case(2, 5, 1, 1, (1, 1), 1, channels=20),
    "slices of groups": case(2, 2, 1, 1, (0, 1), 2),
    "slices of long rows": case(1, 3, 2, 1, (1, 2), 4, sizes=(19,)),
}


@pytest.fixture(params=sampled(list(SMALL), ["im2col", "slices", "slices of long rows"]))
def small(request):
    """Operands, the convolution in a form, and its exact sums."""
    x, w, windows, groups = SMALL[request.param]
    with dml_jax.use_form(request.param.split()[0]):
        yield x, w, partial(convolve, windows=windows, groups=groups), partial(exact, windows=windows, groups=groups)


def test_maps_of_pictures_of_filters_and_of_both(small):
    x, w, made, expected = small
    xs, ws = (np.stack([a, 2 * a[::-1], a - 1]) for a in (x, w))
    for axes in ((0, None), (None, 0), (0, 0)):
        arrays = (xs if axes[0] == 0 else x, ws if axes[1] == 0 else w)
        each = [expected(*(a if n is None else a[i] for a, n in zip(arrays, axes, strict=True))) for i in range(3)]
        np.testing.assert_allclose(jax.jit(jax.vmap(made, axes))(*arrays), each, rtol=1e-5, atol=1e-4)


def test_derivatives_are_those_of_a_bilinear_function(small):
    """Of the sums: along a tangent the function itself, and the cotangents give the same number."""
    x, w, made, expected = small
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


def test_a_gradient_of_a_gradient(small):
    """The gradient to x along dx is linear in w: its gradient along dw is the sum over the convolution of dx and dw."""
    x, w, made, expected = small
    rng = np.random.default_rng(2)
    dx, dw = (rng.standard_normal(a.shape).astype(np.float32) for a in (x, w))

    def along(w):
        return jnp.vdot(jax.grad(lambda x: made(x, w).sum())(x), dx)

    found = np.vdot(jax.jit(jax.grad(along))(w), dw)
    np.testing.assert_allclose(found, expected(dx, dw).sum(), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("dtype", sampled([np.float16, ml_dtypes.bfloat16, np.float64], [np.float16]))
def test_narrow_floats_are_added_up_wide_and_rounded_once(dtype, small):
    step = float(jnp.finfo(dtype).eps)
    x, w, made, expected = small
    x, w = x.astype(dtype), w.astype(dtype)
    with jax.enable_x64(True):
        y = jax.jit(made)(x, w)
    assert y.dtype == dtype
    rtol, atol = (0.51 * step, 1e-5) if step > 1e-7 else (1e-12, 1e-12)
    np.testing.assert_allclose(np.asarray(y, np.float64), expected(x, w), rtol, atol)


def test_the_plain_form_can_be_forced():
    shapes = (8, 64, 28, 28), (64, 64, 1, 1)
    assert "dot_general" in program(*shapes)
    with dml_jax.use_form("plain"):
        assert "dot_general" not in program(*shapes)


def test_the_operator_convolves_so_too():
    """Each channel by itself: no convolution of XLA's, which takes 40 times as long on a CPU."""

    def of_operator(platform):
        run = jax.jit(lambda x, w: dml_jax.convolution(x, w, group_count=128))
        traced = run.trace(jnp.ones((1, 128, 16, 16)), jnp.ones((128, 1, 3, 3)))
        return traced.lower(lowering_platforms=(platform,)).as_text()

    assert "stablehlo.convolution" not in of_operator("cpu")
    assert "HIGHEST" in of_operator("cuda")


def test_gradients_of_a_plain_convolution_have_no_branch():
    """In which XLA:CPU convolves 15 times as slowly."""
    x, w, windows = jnp.ones((8, 64, 28, 28)), jnp.ones((64, 64, 3, 3)), [Windows(28, 3, 1, 1, 1, 1)] * 2
    gradient = jax.grad(lambda x, w: (convolve(x, w, windows) ** 2).sum(), (0, 1))
    text = jax.jit(gradient).trace(x, w).lower(lowering_platforms=("cpu",)).as_text()
    assert "stablehlo.convolution" in text
    assert "stablehlo.case" not in text
