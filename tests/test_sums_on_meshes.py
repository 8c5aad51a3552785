"""Operators that add up, on a mesh of 2 x 4 devices: every pair of dimensions over its two axes, and the gradients."""

import itertools
import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import dml_jax
from dml_jax import Activation, TensorDesc, descs

pytest.importorskip("onnx")
from onnx import helper

from dml_jax.onnx import run_node

COLLECTIVE = re.compile(r" (all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter)\(")
AXES = ("a", "b")
KINDS = {kind.name: kind for kind in (AxisType.Explicit, AxisType.Auto)}
PICTURES, WINDOW = (4, 8, 8, 8), (8, 8, 3, 3)
PADDED = {"start_padding": 1, "end_padding": 1}
AROUND = {"start_padding": (1, 1), "end_padding": (1, 1)}
INDICES = np.random.default_rng(5).integers(0, 8, (8, 4)).astype(np.int32)
REGIONS = np.float32([[0, 0, 6, 6], [1, 1, 7, 5]])


def node(operator, **attributes):
    """The function of one node of ONNX, of float arrays."""

    def run(*arrays):
        names = [f"x{n}" for n in range(len(arrays))]
        return run_node(helper.make_node(operator, names, ["y"], **attributes), arrays)[0]

    return run


def struct(name, sizes, output, **fields):
    """The function of a struct whose tensors are float32."""
    tensors = {port: TensorDesc("FLOAT32", of_port) for port, of_port in (sizes | output).items()}
    desc = getattr(descs, name)(**tensors, **fields)
    return lambda *arrays: desc.compute(*arrays)


SLIDING = {"strides": (2, 2), "window_size": (3, 3), **AROUND}
# By name: the function of float arrays, and their shapes.
CASES = {
    "convolution": (partial(dml_jax.convolution, **PADDED), [PICTURES, WINDOW]),
    "convolution with a bias": (partial(dml_jax.convolution, **PADDED), [(4, 4, 4, 8), (8, 4, 3, 3), (8,)]),
    "strided convolution": (partial(dml_jax.convolution, strides=2), [PICTURES, (8, 8, 2, 2)]),
    "grouped convolution": (partial(dml_jax.convolution, group_count=4, **PADDED), [PICTURES, (8, 2, 3, 3)]),
    "convolution of two groups": (partial(dml_jax.convolution, group_count=2, **PADDED), [(2, 8, 4, 4), (8, 4, 3, 3)]),
    "depthwise convolution": (partial(dml_jax.convolution, group_count=8, **PADDED), [PICTURES, (8, 1, 3, 3)]),
    "dilated convolution": (
        partial(dml_jax.convolution, dilations=2, start_padding=4, end_padding=4),
        [(4, 4, 8), (8, 4, 4)],
    ),
    "transposed convolution": (
        partial(dml_jax.convolution, direction="backward", strides=2),
        [(4, 8, 4, 4), (8, 8, 2, 2)],
    ),
    "transposed grouped convolution": (
        partial(dml_jax.convolution, direction="backward", strides=2, group_count=2),
        [(4, 8, 4, 4), (8, 4, 2, 2)],
    ),
    "pointwise convolution": (dml_jax.convolution, [PICTURES, (8, 8, 1, 1)]),
    "ConvolutionDesc": (
        struct(
            "ConvolutionDesc",
            {"input": PICTURES, "filter": WINDOW},
            {"output": PICTURES},
            bias=None,
            mode="CROSS_CORRELATION",
            direction="FORWARD",
            strides=(1, 1),
            dilations=(1, 1),
            output_padding=(0, 0),
            **AROUND,
        ),
        [PICTURES, WINDOW],
    ),
    "Conv": (node("Conv", pads=[1] * 4), [PICTURES, WINDOW]),
    "Conv of groups": (node("Conv", pads=[1] * 4, group=4), [PICTURES, (8, 2, 3, 3)]),
    "ConvTranspose": (node("ConvTranspose", strides=[2, 2]), [(4, 8, 4, 4), (8, 8, 2, 2)]),
    "average_pooling": (partial(dml_jax.average_pooling, window_sizes=2, strides=2), [PICTURES]),
    "average_pooling, overlapping": (partial(dml_jax.average_pooling, window_sizes=3, **PADDED), [PICTURES]),
    "average_pooling of long windows": (partial(dml_jax.average_pooling, window_sizes=(140,)), [(4, 8, 144)]),
    "max_pooling": (lambda x, **how: dml_jax.max_pooling(x, 3, strides=2, **PADDED, **how)[0], [PICTURES]),
    "max_pooling of long windows": (lambda x, **how: dml_jax.max_pooling(x, (140,), **how)[0], [(4, 4, 144)]),
    "lp_pooling": (partial(dml_jax.lp_pooling, window_sizes=2, strides=2, p=3), [PICTURES]),
    "AveragePoolingDesc": (
        struct("AveragePoolingDesc", {"input": PICTURES}, {"output": (4, 8, 4, 4)}, include_padding=True, **SLIDING),
        [PICTURES],
    ),
    "AveragePoolingGradDesc": (
        struct(
            "AveragePoolingGradDesc",
            {"input_gradient": (4, 8, 4, 4)},
            {"output_gradient": PICTURES},
            include_padding=False,
            **SLIDING,
        ),
        [(4, 8, 4, 4)],
    ),
    "MaxPoolingGradDesc": (
        struct(
            "MaxPoolingGradDesc",
            {"input": PICTURES, "input_gradient": (4, 8, 4, 4)},
            {"output_gradient": PICTURES},
            dilations=(1, 1),
            **SLIDING,
        ),
        [PICTURES, (4, 8, 4, 4)],
    ),
    "AveragePool": (node("AveragePool", kernel_shape=[3, 3], pads=[1] * 4), [PICTURES]),
    "MaxPool": (node("MaxPool", kernel_shape=[3, 3], pads=[1] * 4), [PICTURES]),
    "LpPool": (node("LpPool", kernel_shape=[2, 2], strides=[2, 2]), [PICTURES]),
    "GlobalAveragePool": (node("GlobalAveragePool"), [PICTURES]),
    "gemm": (dml_jax.gemm, [(4, 4, 8, 8), (4, 4, 8, 8)]),
    "gemm of transposed arrays": (
        partial(dml_jax.gemm, trans_a=True, trans_b=True, alpha=2.0),
        [(1, 1, 8, 4), (1, 1, 8, 8), (1, 1, 4, 8)],
    ),
    "MatMul": (node("MatMul"), [(4, 8, 8), (8, 8)]),
    "Gemm": (node("Gemm", transB=1), [(4, 8), (8, 8), (8,)]),
    "Einsum": (node("Einsum", equation="bij,bjk->bik"), [(4, 8, 8), (4, 8, 8)]),
    **{
        f"reduce {function}": (lambda x, f=function, **how: dml_jax.reduce(abs(x), f, (1, 2), **how), [(4, 8, 4, 8)])
        for function in ("average", "l2", "log_sum_exp", "max", "multiply", "sum", "sum_square")
    },
    "ReduceSum": (lambda x: node("ReduceSum")(x, np.int64([1])), [(4, 8, 8)]),
    "cumulative_summation": (partial(dml_jax.cumulative_summation, axis=1), [(4, 8, 8)]),
    "cumulative_summation, reversed": (
        partial(dml_jax.cumulative_summation, axis=0, direction="decreasing", exclusive=True),
        [(8, 4)],
    ),
    "cumulative_product": (partial(dml_jax.cumulative_product, axis=1), [(4, 8, 8)]),
    "softmax": (lambda x: dml_jax.activate(x, Activation("ACTIVATION_SOFTMAX1", ((1, 2),))), [(4, 8, 8)]),
    "log_softmax": (lambda x: dml_jax.activate(x, Activation("ACTIVATION_LOG_SOFTMAX1", ((1,),))), [(4, 8, 8)]),
    "local_response_normalization": (
        partial(dml_jax.local_response_normalization, local_size=3, alpha=0.5, beta=0.5, bias=1.0, cross_channel=True),
        [PICTURES],
    ),
    "LayerNormalization": (node("LayerNormalization", axis=1), [(4, 8, 8), (8, 8), (8, 8)]),
    "GroupNormalization": (node("GroupNormalization", num_groups=2), [(4, 8, 8), (8,), (8,)]),
    "InstanceNormalization": (node("InstanceNormalization"), [PICTURES, (8,), (8,)]),
    "MeanVarianceNormalization2Desc": (
        struct(
            "MeanVarianceNormalization2Desc",
            {"input": PICTURES, "scale": (1, 8, 1, 1), "bias": (1, 8, 1, 1)},
            {"output": PICTURES},
            axes=(0, 2, 3),
            use_mean=True,
            use_variance=True,
            epsilon=0.25,
        ),
        [PICTURES, (1, 8, 1, 1), (1, 8, 1, 1)],
    ),
    "LpNormalizationDesc": (
        struct("LpNormalizationDesc", {"input": PICTURES}, {"output": PICTURES}, axis=1, epsilon=0.25, p=2),
        [PICTURES],
    ),
    "MultiheadAttentionDesc": (
        struct(
            "MultiheadAttentionDesc",
            {"query": (4, 4, 8), "key": (4, 8, 8), "value": (4, 8, 8)},
            {"output": (4, 4, 8)},
            scale=0.5,
            mask_filter_value=-1e9,
            head_count=4,
            mask_type="NONE",
        ),
        [(4, 4, 8), (4, 8, 8), (4, 8, 8)],
    ),
    "Attention": (node("Attention"), [(4, 4, 4, 8), (4, 4, 8, 8), (4, 4, 8, 8)]),
    "rnn": (
        lambda x, w, r: dml_jax.rnn(x, w[None], r[None], activations=[Activation("ACTIVATION_TANH")])[0],
        [(2, 4, 8), (8, 8), (8, 8)],
    ),
    "LSTM": (lambda x, w, r: node("LSTM", hidden_size=4)(x, w[None], r[None]), [(2, 4, 8), (16, 8), (16, 4)]),
    "gather": (lambda x: dml_jax.gather(x, INDICES, axis=1), [(4, 8, 8)]),
    "gather_elements": (lambda x: dml_jax.gather_elements(x, INDICES, axis=0), [(8, 4)]),
    "scatter_elements": (lambda x, y: dml_jax.scatter_elements(x, INDICES, y, 0, reduction="add"), [(8, 4), (8, 4)]),
    "scatter_nd": (lambda x, y: dml_jax.scatter_nd(x, INDICES[:, :1], y, reduction="add"), [(8, 4), (8, 4)]),
    "unfold": (partial(dml_jax.unfold, window_sizes=2), [PICTURES]),
    "fold": (partial(dml_jax.fold, output_sizes=(9, 9), window_sizes=2), [(4, 32, 64)]),
    "tile": (partial(dml_jax.tile, repeats=(1, 2, 1)), [(4, 8, 8)]),
    "pad": (partial(dml_jax.pad, start_padding=(0, 2, 2), end_padding=(0, 2, 2), mode="reflection"), [(4, 8, 8)]),
    "upsample_2d": (partial(dml_jax.upsample_2d, scale_size=2, mode="linear"), [PICTURES]),
    "resample": (partial(dml_jax.resample, sizes=(4, 8, 4), mode="linear", antialias=True), [(4, 8, 8)]),
    "grid_sample": (dml_jax.grid_sample, [PICTURES, (4, 8, 8, 2)]),
    "roi_align": (lambda x: dml_jax.roi_align(x, REGIONS, np.int32([0, 3]), (4, 4)), [PICTURES]),
    "DeformConv": (node("DeformConv", kernel_shape=[3, 3], pads=[1] * 4), [(4, 4, 4, 8), (8, 4, 3, 3), (4, 18, 4, 8)]),
    "CausalConvWithState": (
        lambda x, w: run_node(helper.make_node("CausalConvWithState", ["x", "w"], ["y", "state"]), [x, w])[0],
        [(4, 8, 8), (8, 1, 3)],
    ),
    "DFT": (lambda x: run_node(helper.make_node("DFT", ["x", "", "axis"], ["y"]), [x, np.array(1)])[0], [(4, 8, 8, 1)]),
}


def mesh_of(kind):
    return jax.make_mesh((2, 4), AXES, axis_types=(KINDS[kind],) * 2, devices=jax.devices("cpu"))


def pairs_of(shapes):
    """Specs of the operands: each dimension over the first axis, and each other dimension over the second axis."""
    dims = [(operand, d) for operand, shape in enumerate(shapes) for d in range(len(shape))]
    for first, second in itertools.permutations(dims, 2):
        if shapes[first[0]][first[1]] % 2 == 0 and shapes[second[0]][second[1]] % 4 == 0:
            over = {first: "a", second: "b"}
            yield [P(*(over.get((n, d)) for d in range(len(shape)))) for n, shape in enumerate(shapes)]


def both_ways(call):
    """The result, and the gradients of its product with numbers of all kinds."""

    def run(*arrays):
        result, back = jax.vjp(call, *arrays)
        cotangent = jnp.asarray(np.random.default_rng(result.size).normal(size=result.shape), result.dtype)
        if AxisType.Explicit in jax.typeof(result).sharding.mesh.axis_types:
            cotangent = jax.reshard(cotangent, jax.typeof(result).sharding)
        return result, *back(cotangent)

    return run


def drawn(shapes):
    rng = np.random.default_rng(1)
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


def results_on(mesh, run, arrays, specs):
    put = [jax.device_put(x, NamedSharding(mesh, spec)) for x, spec in zip(arrays, specs, strict=True)]
    return jax.jit(run)(*put)


def assert_right(results, expected, specs):
    for one, other in zip(results, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3, err_msg=str(specs))


# Wrong before, or refused by an error of JAX: the case, the kind of mesh, and the specs.
FAULTS = {
    "rows and channels of filters": ("convolution", "Auto", [P(None, None, "a"), P("b")]),
    "rows and channels that are added up": ("strided convolution", "Auto", [P(None, None, "a"), P(None, "b")]),
    "rows alone, in the gradient": ("convolution", "Auto", [P(None, None, "b"), P()]),
    "the batch alone, of groups": ("depthwise convolution", "Auto", [P("b"), P()]),
    "the batch and channels, of groups": ("grouped convolution", "Auto", [P("a"), P("b")]),
    "Conv": ("Conv", "Auto", [P(None, None, None, "a"), P("b")]),
    "rows on an Explicit mesh": ("convolution", "Explicit", [P(None, None, "b"), P()]),
    "the batch of groups on an Explicit mesh": ("depthwise convolution", "Explicit", [P("b"), P()]),
    "channels that are groups on an Explicit mesh": ("depthwise convolution", "Explicit", [P("a", "b"), P("b")]),
    "Conv on an Explicit mesh": ("Conv", "Explicit", [P("a"), P("b")]),
    "AveragePoolingGradDesc": ("AveragePoolingGradDesc", "Explicit", [P("a", "b")]),
}


@pytest.mark.thinned(3)
@pytest.mark.parametrize("fault", FAULTS)
def test_programs_that_were_wrong_or_refused(fault):
    name, kind, specs = FAULTS[fault]
    call, shapes = CASES[name]
    mesh, arrays, run = mesh_of(kind), drawn(shapes), both_ways(call)
    with jax.set_mesh(mesh):
        assert_right(results_on(mesh, run, arrays, specs), jax.jit(run)(*arrays), specs)


@pytest.mark.thinned(25)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CASES)
def test_every_pair_of_dimensions(name, kind, exhaustive):
    """The results of one device, or on an Explicit mesh a ConstraintError; by default of one pair."""
    call, shapes = CASES[name]
    mesh, arrays, run, pairs = mesh_of(kind), drawn(shapes), both_ways(call), list(pairs_of(shapes))
    expected = jax.jit(run)(*arrays)
    with jax.set_mesh(mesh):
        for specs in pairs if exhaustive else pairs[len(name) % len(pairs) :][:1]:
            try:
                results = results_on(mesh, run, arrays, specs)
            except dml_jax.ConstraintError as error:
                if kind == "Auto" or "on an Explicit mesh" not in str(error):
                    raise
                continue
            assert_right(results, expected, specs)


FUNCTIONS = [name for name in CASES if re.search("convolution|gemm|pooling|reduce", name)]  # they take out_sharding


@pytest.mark.thinned(25)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_pair_of_dimensions_of_the_output(name, kind, exhaustive):
    """Of operands that every device has; by default one pair."""
    call, shapes = CASES[name]
    mesh, arrays = mesh_of(kind), drawn(shapes)
    expected = jax.jit(call)(*arrays)
    pairs = [of_output for (of_output,) in pairs_of([expected.shape])]
    with jax.set_mesh(mesh):
        for spec in pairs if exhaustive else pairs[len(name) % len(pairs) :][:1]:
            constrained = lambda *x, spec=spec: lax.with_sharding_constraint(call(*x), spec)  # noqa: E731
            asked = constrained if kind == "Auto" else partial(call, out_sharding=spec)
            assert_right([results_on(mesh, asked, arrays, [P()] * len(arrays))], [expected], spec)


@pytest.mark.parametrize("of_outputs", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_a_mesh_that_jax_does_not_know_while_it_traces(of_outputs):
    """That of `in_shardings` and `out_shardings`, for NumPy arrays."""
    call, shapes = CASES["convolution"]
    arrays, mesh = drawn(shapes), mesh_of("Auto")
    specs = {"out_shardings": [P(None, "b", "a")]} if of_outputs else {"in_shardings": [P(None, None, "a"), P("b")]}
    put = {name: tuple(NamedSharding(mesh, spec) for spec in some) for name, some in specs.items()}
    run = lambda *x: (call(*x),)  # noqa: E731
    assert_right(jax.jit(run, **put)(*arrays), run(*arrays), specs)


def test_examples_and_channels_cross_no_device():
    call, shapes = CASES["convolution"]
    for kind in KINDS:
        mesh = mesh_of(kind)
        put = [jax.device_put(x, NamedSharding(mesh, s)) for x, s in zip(drawn(shapes), (P("a"), P("b")), strict=True)]
        with jax.set_mesh(mesh):
            compiled = jax.jit(lambda *x: call(*x)).lower(*put).compile()
        assert not COLLECTIVE.findall(compiled.as_text())
        assert compiled(*put).sharding.spec[:2] == ("a", "b")


def test_a_mesh_of_one_axis_has_the_program_of_jax():
    """There XLA is right, and divides the pictures too."""
    mesh = jax.make_mesh((8, 1), AXES, axis_types=(AxisType.Auto,) * 2, devices=jax.devices("cpu"))
    call, shapes = CASES["convolution"]
    of_rows = NamedSharding(mesh, P(None, None, "a"))
    put = [jax.ShapeDtypeStruct(shape, np.float32, sharding=of_rows) for shape in shapes[:1]]
    lowered = jax.jit(lambda x: call(x, np.ones(shapes[1], np.float32))).lower(*put)
    assert "sharding_constraint" not in lowered.as_text()
