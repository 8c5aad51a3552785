"""Communication on a mesh of eight devices: every row of the table of docs/meshes.md."""

import itertools
import re
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits, sampled
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import dml_jax
from dml_jax.lowering.registry import VARIANTS

RNG = np.random.default_rng(7)
COLLECTIVE = re.compile(r" (all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter)\(")
DOCUMENT = Path(__file__).parents[1] / "docs" / "meshes.md"


def random_bits(shape, dtype):
    """Every bit pattern: NaN payloads, subnormals and -0.0 included."""
    return RNG.integers(0, 256, (*shape, jnp.dtype(dtype).itemsize), dtype=np.uint8).view(jnp.dtype(dtype))[..., 0]


def with_negative_zeros(array):
    """Every other number is -0.0, which a sum with 0.0 would change."""
    if array.dtype.kind == "f":
        array.reshape(-1)[::2] = -0.0
    return array


def below(size, shape):
    return RNG.integers(-size, size, shape, dtype=np.int32)


def unique(size, shape, axis):
    """Indices of which none is there twice along the axis."""
    whole = tuple(size if d == axis else n for d, n in enumerate(shape))
    return np.argsort(RNG.random(whole), axis).astype(np.int32).take(range(shape[axis]), axis)


X, IMAGE = (16, 64, 32), (8, 128, 32, 32)  # so large that forms are chosen
PAIRS = np.stack([np.arange(8), np.arange(8)[::-1]], -1).astype(np.int32)
GATHER = (partial(dml_jax.gather, axis=1), [X, below(64, (8, 16))])
ELEMENTS = (partial(dml_jax.gather_elements, axis=1), [X, below(64, (16, 8, 32))])
LAST = (partial(dml_jax.gather_elements, axis=-1), [X, below(32, (16, 64, 32))])
ND = (partial(dml_jax.gather_nd, batch_dims=1), [X, below(64, (16, 8, 1))])
PAIRED = (dml_jax.gather_nd, [X, PAIRS])
WRITE = (partial(dml_jax.scatter_elements, axis=1), [X, unique(64, (16, 8, 32), 1), (16, 8, 32)])
WRITE_ND = (dml_jax.scatter_nd, [X, PAIRS[:, :1], (8, 64, 32)])
WRITE_PAIRED = (dml_jax.scatter_nd, [X, PAIRS, (8, 32)])
VIEW = (partial(dml_jax.as_strided, sizes=(64, 16), strides=(32, 1)), [(4096,)])
WRITE_VIEW = (partial(dml_jax.as_strided_scatter, strides=(32, 1)), [(4096,), (64, 16)])


def mapped(case):
    function, operands = case
    return jax.vmap(function), [(8, *shape) for shape in operands]


def pictures(function, order, dimension):
    """Both data formats, sharded along a dimension."""
    for data_format in ("NCHW", "NHWC"):
        shape = IMAGE if data_format == "NCHW" else (IMAGE[0], *IMAGE[2:], IMAGE[1])
        called = partial(function, block_size=2, order=order, data_format=data_format)
        yield (called, [shape]), [data_format.index(dimension)]


def every_picture(function, dimensions, orders=("DCR", "CRD")):
    return [p for d, order in itertools.product(dimensions, orders) for p in pictures(function, order, d)]


# By row of the table: cases, and the dimension of each operand that is sharded, None for one that every device has.
ROWS = {
    ("gather", "`input`, not along `axis`"): [(GATHER, [0, None]), (GATHER, [2, None])],
    ("gather", "`indices`"): [(GATHER, [None, 0]), (GATHER, [None, 1])],
    ("gather", "`input` along `axis`"): [(GATHER, [1, None])],
    ("gather_elements", "`input` and `indices`, not along `axis`"): [
        (ELEMENTS, [0, 0]),
        (ELEMENTS, [2, 2]),
        (LAST, [0, 0]),
        (LAST, [1, 1]),
    ],
    ("gather_elements", "`indices` along `axis`"): [(ELEMENTS, [None, 1]), (LAST, [None, 2])],
    ("gather_elements", "`input` along `axis`"): [(ELEMENTS, [1, None]), (LAST, [2, None])],
    ("gather_nd", "`input` and `indices` along a batch dimension"): [(ND, [0, 0])],
    ("gather_nd", "`indices` along others, not the last (the tuples)"): [(ND, [None, 1]), (PAIRED, [None, 0])],
    ("gather_nd", "`input` behind the indexed dimensions"): [(ND, [2, None]), (PAIRED, [2, None])],
    ("gather_nd", "`input` along an indexed dimension"): [(ND, [1, None]), (PAIRED, [0, None]), (PAIRED, [1, None])],
    ("scatter_elements", "`input`, `indices`, `updates`, not along `axis`"): [(WRITE, [0, 0, 0]), (WRITE, [2, 2, 2])],
    ("scatter_elements", "`input` along `axis`"): [(WRITE, [1, None, None])],
    ("scatter_elements", "`indices` and `updates` along `axis`"): [(WRITE, [None, 1, 1])],
    ("scatter_nd", "`input` and `updates` behind the indexed dimensions"): [
        (WRITE_ND, [1, None, 1]),
        (WRITE_ND, [2, None, 2]),
        (WRITE_PAIRED, [2, None, 1]),
    ],
    ("scatter_nd", "`input` along an indexed dimension"): [
        (WRITE_ND, [0, None, None]),
        (WRITE_PAIRED, [0, None, None]),
        (WRITE_PAIRED, [1, None, None]),
    ],
    ("scatter_nd", "`indices` and `updates`, along one that both have"): [
        (WRITE_ND, [None, 0, 0]),
        (WRITE_PAIRED, [None, 0, 0]),
    ],
    ("depth_to_space", "N, H or W"): every_picture(dml_jax.depth_to_space, "NHW"),
    ("depth_to_space", 'C, with `order="CRD"`'): every_picture(dml_jax.depth_to_space, "C", ["CRD"]),
    ("depth_to_space", 'C, with `order="DCR"`'): every_picture(dml_jax.depth_to_space, "C", ["DCR"]),
    ("space_to_depth", "N, H or W"): every_picture(dml_jax.space_to_depth, "NHW"),
    ("space_to_depth", 'C, with `order="CRD"`'): every_picture(dml_jax.space_to_depth, "C", ["CRD"]),
    ("space_to_depth", 'C, with `order="DCR"`'): every_picture(dml_jax.space_to_depth, "C", ["DCR"]),
    ("as_strided", "a batch of buffers, under `jax.vmap`"): [(mapped(VIEW), [0])],
    ("as_strided", "the buffer"): [(VIEW, [0])],
    ("as_strided_scatter", "a batch of both, under `jax.vmap`"): [(mapped(WRITE_VIEW), [0, 0])],
    ("as_strided_scatter", "the buffer, or `updates`"): [(WRITE_VIEW, [0, None]), (WRITE_VIEW, [None, 0])],
}
FREE, SUMMED, GATHERED, ASKED, UNSAID = "0", "one all-reduce", "all-gather", "`out_sharding=`", "not promised"
SUMMED_TWICE = "two all-reduces"


def documented():
    """The rows of the table: (operator, what is sharded) to (on an Auto mesh, on an Explicit one, of the gradient)."""
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", DOCUMENT.read_text(), re.MULTILINE)
    return {(operator, what): (auto, explicit, back) for operator, what, auto, back, explicit in rows}


def test_the_table_is_complete():
    assert list(documented()) == list(ROWS)
    autos, explicits, backs = map(set, zip(*documented().values(), strict=True))
    assert autos == {FREE, SUMMED, GATHERED, UNSAID}
    assert explicits == {FREE, ASKED}
    assert backs == {FREE, SUMMED, SUMMED_TWICE, GATHERED, UNSAID}


def mesh_of(kind):
    return jax.make_mesh((8,), ("d",), axis_types=(kind,), devices=jax.devices("cpu"))


def on_mesh(mesh, operands, dims, dtype):
    """The operands as they are, and sharded."""
    arrays = [with_negative_zeros(random_bits(a, dtype)) if isinstance(a, tuple) else a for a in operands]
    specs = [P() if d is None else P(*[None] * d, "d") for d in dims]
    return arrays, [jax.device_put(a, NamedSharding(mesh, s)) for a, s in zip(arrays, specs, strict=True)]


def collectives(function, sharded, expected):
    """Those of the compiled program, whose result is compared."""
    compiled = jax.jit(lambda *x: function(*x)).lower(*sharded).compile()
    result = compiled(*sharded)
    jax.tree.map(assert_same_bits, result, expected)
    return COLLECTIVE.findall(compiled.as_text()), result


def named(parameter):
    return f"{parameter[0]} {parameter[1]}".replace("`", "") if isinstance(parameter, tuple) else None


def each_row(**others):
    """Every row, with one of the other parameters after the other, and with --exhaustive with every one."""
    (name, values), every = *others.items(), [*itertools.product(ROWS, *others.values())]
    sample = [row for n, row in enumerate(every) if n % len(values) == n // len(values) % len(values)]
    parameters = [pytest.param(*row, marks=() if row in sample else pytest.mark.exhaustive) for row in every]
    return pytest.mark.parametrize(("row", name), parameters, ids=named)


def cases(row, exhaustive):
    """Of many pictures every fifth, which has every dimension, order and data format; of others the first and last."""
    every = ROWS[row]
    return every if exhaustive else every[::5] if len(every) > 4 else [every[0], *every[1:][-1:]]


every_type = each_row(dtype=["float32", "uint8"])
every_kind = each_row(kind=[AxisType.Auto, AxisType.Explicit])


@pytest.mark.thinned(18)
@every_type
def test_an_auto_mesh_costs_what_the_table_says(row, dtype, exhaustive):
    says = documented()[row][0]
    mesh = mesh_of(AxisType.Auto)
    for (function, operands), dims in cases(row, exhaustive):
        arrays, sharded = on_mesh(mesh, operands, dims, dtype)
        found, result = collectives(function, sharded, function(*arrays))
        if says == FREE:
            assert not found
            assert "d" in result.sharding.spec
        elif says == SUMMED:
            assert found == ["all-reduce"]
        elif says == GATHERED:
            assert set(found) >= {"all-gather"}


@pytest.mark.thinned(11)
@every_type
def test_an_explicit_mesh_costs_what_the_table_says(row, dtype, exhaustive):
    says = documented()[row][1]
    mesh = mesh_of(AxisType.Explicit)
    for (function, operands), dims in cases(row, exhaustive):
        arrays, sharded = on_mesh(mesh, operands, dims, dtype)
        expected = function(*arrays)
        with jax.set_mesh(mesh):
            if says == FREE:
                found, result = collectives(function, sharded, expected)
                assert not found
                assert "d" in jax.typeof(result).sharding.spec
                assert_same_bits(function(*sharded), expected)  # outside jax.jit
                continue
            rule = "on an Explicit mesh the sharding of the output must follow from the operands', or out_sharding"
            with pytest.raises(dml_jax.ConstraintError, match=rule):
                jax.eval_shape(function, *sharded)
            for asked in (P(), NamedSharding(mesh, P())):
                found, _ = collectives(partial(function, out_sharding=asked), sharded, expected)
                assert (found == ["all-reduce"]) == (documented()[row][0] == SUMMED)


FREE_ROWS = [row for row, says in documented().items() if says[0] == FREE] if DOCUMENT.exists() else []
# By the beginning of an operator's name, the operation that it chooses in.
OPERATIONS = {
    "gather": "gather",
    "scatter": "scatter",
    "depth_to": "permute",
    "space_to": "permute",
    "as_strided": "view",
}
CHOSEN = {
    (row, variant.name): None
    for row in FREE_ROWS
    for name, operation in OPERATIONS.items()
    for variant in VARIANTS
    if row[0].startswith(name) and variant.operation == operation
}


def test_every_operator_has_forms_that_are_chosen():
    assert {operator for (operator, _), _ in CHOSEN} == {operator for operator, _ in FREE_ROWS}


@pytest.mark.thinned(16)
@pytest.mark.parametrize(("row", "form"), CHOSEN, ids=named)
def test_forms_that_are_chosen_on_many_devices_are_as_free_as_the_plain_one(row, form, exhaustive):
    """Also on platforms that choose them, and with sizes that do not fill the words of every device."""
    mesh = mesh_of(AxisType.Auto)
    for (function, operands), dims in cases(row, exhaustive):
        arrays, sharded = on_mesh(mesh, operands, dims, np.uint8)
        with dml_jax.use_form(form):
            found, _ = collectives(function, sharded, function(*arrays))
        assert not found


def test_two_axes_of_a_mesh_shard_two_dimensions():
    for kind in (AxisType.Auto, AxisType.Explicit):
        mesh = jax.make_mesh((4, 2), ("a", "b"), axis_types=(kind,) * 2, devices=jax.devices("cpu"))
        x, i = random_bits(X, np.float32), below(64, (16, 8, 32))
        with jax.set_mesh(mesh):
            arrays = [jax.device_put(array, NamedSharding(mesh, P("a", None, "b"))) for array in (x, i)]
            found, result = collectives(partial(dml_jax.gather_elements, axis=1), arrays, ELEMENTS[0](x, i))
            assert not found
            assert result.sharding.spec == P("a", None, "b")


def test_an_operand_that_every_device_has_is_cut_on_an_explicit_mesh():
    """Which JAX cannot know on an Auto one: there, shard both alike."""
    mesh = mesh_of(AxisType.Explicit)
    function, operands = WRITE_ND
    with jax.set_mesh(mesh):
        arrays, sharded = on_mesh(mesh, operands, [None, None, 2], np.float32)
        found, result = collectives(function, sharded, function(*arrays))
    assert not found
    assert result.sharding.spec == P(None, None, "d")


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_out_sharding_is_the_sharding_of_the_output(kind):
    mesh = mesh_of(kind)
    for (function, operands), dims in ROWS["gather", "`input` along `axis`"]:
        arrays, sharded = on_mesh(mesh, operands, dims, np.float32)
        with jax.set_mesh(mesh):
            for spec in (P("d"), P(None, "d"), P(None, None, None, "d")):
                for asked in (spec, NamedSharding(mesh, spec)):
                    result = function(*sharded, out_sharding=asked)
                    assert result.sharding.is_equivalent_to(NamedSharding(mesh, spec), result.ndim)
                    assert_same_bits(result, function(*arrays))


def test_an_out_sharding_that_does_not_fit_is_refused():
    mesh = mesh_of(AxisType.Auto)
    x, i = jnp.zeros((4, 16)), np.int32([0, 1])
    gather = partial(dml_jax.gather, x, i, 1)
    with pytest.raises(dml_jax.DataTypeError, match=r"out_sharding must be a jax.sharding.NamedSharding, or"):
        gather(out_sharding="d")
    with pytest.raises(dml_jax.ConstraintError, match="there is no mesh: pass a NamedSharding, or call under"):
        gather(out_sharding=P("d"))
    for spec, fact in (
        (P("d"), "dimension 0 of the output has size 4, and 'd' has 8 devices"),
        (P(None, None, "d"), "the output has 2 dimensions and the sharding 3"),
    ):
        with pytest.raises(dml_jax.ConstraintError, match=fact):
            gather(out_sharding=NamedSharding(mesh, spec))
    with jax.set_mesh(mesh):
        for spec, fact in (
            (P("e"), "the mesh has no axis 'e', only"),
            (P(None, ("d", "d")), "'d' would shard two dimensions"),
            (P(unreduced={"d"}), "a result that is still to be added up is none"),
        ):
            with pytest.raises(dml_jax.ConstraintError, match=fact):
                gather(out_sharding=spec)

        def local(x):
            return dml_jax.gather(x, i, 1, out_sharding=P("d"))

        with pytest.raises(dml_jax.ConstraintError, match=r"'d' is a Manual axis of jax.shard_map here"):
            jax.shard_map(local, in_specs=P("d"), out_specs=P("d"))(jnp.zeros((8, 16)))


def test_an_out_sharding_of_another_mesh_is_refused():
    mesh = mesh_of(AxisType.Explicit)
    x, i = np.zeros((8, 16), np.float32), np.int32([0, 1])
    with pytest.raises(dml_jax.ConstraintError, match="no operand is on its Explicit mesh: put them there, or call"):
        dml_jax.gather(x, i, 1, out_sharding=NamedSharding(mesh, P("d")))
    with jax.set_mesh(mesh):
        sharded = jax.device_put(x, NamedSharding(mesh, P("d")))
        with pytest.raises(dml_jax.ConstraintError, match=r"its mesh is .* and that of the operands is"):
            dml_jax.gather(sharded, i, 1, out_sharding=NamedSharding(mesh_of(AxisType.Auto), P("d")))
        with pytest.raises(dml_jax.ConstraintError, match="dimension 0 is UNCONSTRAINED, which only Auto meshes know"):
            dml_jax.gather(sharded, i, 1, out_sharding=P(P.UNCONSTRAINED))
    mixed = jax.make_mesh((4, 2), ("a", "b"), axis_types=(AxisType.Explicit, AxisType.Auto), devices=jax.devices("cpu"))
    with jax.set_mesh(mixed), pytest.raises(dml_jax.ConstraintError, match="'b' is an Auto axis beside Explicit ones"):
        dml_jax.gather(jax.device_put(x, NamedSharding(mixed, P("a"))), i, 1, out_sharding=P("b"))


def test_an_auto_mesh_may_leave_dimensions_to_the_compiler():
    with jax.set_mesh(mesh_of(AxisType.Auto)):
        result = dml_jax.gather(
            np.zeros((8, 16), np.float32), np.int32([0, 1]), 0, out_sharding=P(P.UNCONSTRAINED, "d")
        )
    assert result.sharding.spec == P(None, "d")


@pytest.mark.thinned(2)
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_what_is_read_of_a_sharded_buffer_keeps_its_bits(kind, dtype):
    mesh = mesh_of(kind)
    buffer = with_negative_zeros(random_bits((3072,), dtype))
    for sizes, strides in (((20, 30), (17, 3)), ((40, 64), (70, 1)), ((60, 50), (1, 50))):
        with jax.set_mesh(mesh):
            sharded = jax.device_put(buffer, NamedSharding(mesh, P("d")))
            result = jax.jit(partial(dml_jax.as_strided, sizes=sizes, strides=strides, out_sharding=P()))(sharded)
        assert_same_bits(result, dml_jax.as_strided(buffer, sizes, strides))


COLUMNS = (partial(dml_jax.gather, axis=-1), [(16, 64), below(64, (32,))])


@pytest.mark.thinned(2)
@pytest.mark.parametrize("form", ["plain", "axis_last", "assembled_words"])
@pytest.mark.parametrize("dtype", sampled(["float32", "float16", "bfloat16"], ["float16"]))
def test_what_is_read_of_a_sharded_table_keeps_its_bits(form, dtype):
    mesh = mesh_of(AxisType.Auto)
    for function, operands in (GATHER, ELEMENTS, LAST, COLUMNS):
        dims = [{LAST[0]: 2}.get(function, 1), None]
        arrays, sharded = on_mesh(mesh, operands, dims, dtype)
        with dml_jax.use_form(form):
            assert_same_bits(jax.jit(lambda *x, f=function: f(*x))(*sharded), function(*arrays))


def test_what_does_not_follow_on_an_explicit_mesh_is_refused_with_the_reason():
    mesh = jax.make_mesh((4, 2), ("a", "b"), axis_types=(AxisType.Explicit,) * 2, devices=jax.devices("cpu"))
    x, i = np.zeros((8, 64, 8), np.float32), np.zeros((8, 4, 8), np.int32)

    def put(array, *spec):
        return jax.device_put(array, NamedSharding(mesh, P(*spec)))

    with jax.set_mesh(mesh):
        for operands, fact in (
            (
                (put(x, None, "a"), i),
                "dimension 1 of input is sharded over 'a', along which the devices must communicate",
            ),
            ((put(x, "a"), put(i, "b")), "dimension 0 of indices is sharded over 'b', and the same dimension of ano"),
            ((put(x, "a"), put(i, None, "a")), "'a' would shard two dimensions of the output"),
        ):
            with pytest.raises(dml_jax.ConstraintError, match=fact):
                dml_jax.gather_elements(*operands, axis=1)
        rows = put(np.zeros((1, 2, 4, 4), np.float32), None, None, "a")
        with pytest.raises(
            dml_jax.ConstraintError, match="dimension 2 of the output has size 2, and 'a' has 4 devices"
        ):
            dml_jax.space_to_depth(rows, 2)


@pytest.mark.parametrize("kind", sampled([AxisType.Auto, AxisType.Explicit], [AxisType.Explicit]))
def test_derivatives_on_a_mesh(kind, exhaustive):
    """Of every row that costs nothing: forward and back, equal to those of one device; a twelfth of them by default."""
    mesh = mesh_of(kind)
    free = [row for row, (auto, explicit, _) in documented().items() if (auto, explicit) == (FREE, FREE)]
    for row in free if exhaustive else free[::12]:
        (function, operands), dims = ROWS[row][0]
        arrays, sharded = on_mesh(mesh, operands, dims, np.uint8)
        arrays, sharded = (
            [a.astype(np.float32) if a.dtype == np.uint8 else a for a in some] for some in (arrays, sharded)
        )
        floats = [k for k, a in enumerate(arrays) if a.dtype == np.float32]
        sharded = [arrays[k] if d is None else a for k, (a, d) in enumerate(zip(sharded, dims, strict=True))]

        def total(*x, function=function):
            return (function(*x) ** 2).sum()

        expected = jax.jit(jax.grad(total, floats))(*arrays)
        with jax.set_mesh(mesh):
            actual = jax.jit(jax.grad(total, floats))(*sharded)
            tangents = [sharded[k] for k in floats]

            def of_floats(*x, function=function, sharded=sharded, floats=floats):
                return function(*(x[floats.index(k)] if k in floats else a for k, a in enumerate(sharded)))

            assert_same_bits(*jax.jvp(jax.jit(of_floats), tangents, tangents))
            output = of_floats(*tangents)
            transpose = lambda y, f=of_floats, x=tangents: jax.linear_transpose(f, *x)(y)  # noqa: E731
            if kind == AxisType.Auto or row[0] == "as_strided_scatter":  # see the document
                transpose = jax.jit(transpose)
            # Outside jax.jit, where what every device has is a NumPy array.
            back = jax.jit(lambda y, f=of_floats, x=tangents: jax.vjp(f, *x)[1](y))(output)
            for a, b in zip(transpose(output), back, strict=True):
                assert_same_bits(a, b)
        for a, b in zip(actual, expected, strict=True):
            assert_same_bits(a, b)


@pytest.mark.thinned(4)
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("reduction", ["mean", "max"])
def test_reductions_of_updates_alone_on_a_mesh(kind, reduction):
    """Updates are counted where they are: beside the axis, and behind indexed dimensions, nothing is sent."""
    rows = (
        ("scatter_elements", "`input`, `indices`, `updates`, not along `axis`"),
        *(row for row in ROWS if row[0] == "scatter_nd" and "behind" in row[1]),
    )
    for (function, operands), dims in (case for row in rows for case in ROWS[row]):
        arrays, sharded = on_mesh(mesh_of(kind), operands, dims, np.int8)

        def both_ways(x, at, updates, function=function):
            reduced = partial(function, indices=at, reduction=reduction, include_self=False)
            x, updates = x.astype(np.float32), updates.astype(np.float32)
            output, pull_back = jax.vjp(lambda x, updates: reduced(x, updates=updates), x, updates)
            return output, *pull_back(output)

        found, _ = collectives(both_ways, sharded, jax.jit(both_ways)(*arrays))
        assert not found


@pytest.mark.thinned(14)
@every_kind
def test_a_gradient_costs_what_the_table_says(row, kind, exhaustive):
    """Of the sharding of its operand, as an update of it has."""
    _, explicit, says = documented()[row]
    mesh = mesh_of(kind)
    for (function, operands), dims in cases(row, exhaustive):
        called = partial(function, out_sharding=P()) if kind == AxisType.Explicit and explicit == ASKED else function
        _, sharded = on_mesh(mesh, operands, dims, np.float32)
        at = [k for k, array in enumerate(sharded) if array.dtype == np.float32]

        def back(cotangent, *arrays, called=called, at=at):
            def of_floats(*floats):
                return called(*(floats[at.index(k)] if k in at else array for k, array in enumerate(arrays)))

            return jax.vjp(of_floats, *(arrays[k] for k in at))[1](cotangent)

        with jax.set_mesh(mesh):
            cotangent = jax.jit(lambda *arrays, called=called: called(*arrays))(*sharded)
            alike = tuple(sharded[k].sharding for k in at) if kind == AxisType.Auto else None
            compiled = jax.jit(back, out_shardings=alike).lower(cotangent, *sharded).compile()
        found = COLLECTIVE.findall(compiled.as_text())
        expected = {FREE: [], SUMMED: ["all-reduce"], SUMMED_TWICE: ["all-reduce"] * 2, GATHERED: ["all-gather"] * 2}
        assert says == UNSAID or found == expected[says]


RECEIVED = re.compile(
    r"= \(?\w+\[([\d,]*)\].* (?:all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter)\("
)


@pytest.mark.thinned(6)
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("ids_are_sharded", [False, True])
def test_a_training_step_of_a_table_sharded_by_rows_moves_no_row(kind, dtype, ids_are_sharded):
    mesh, of_batch = mesh_of(kind), P("d") if ids_are_sharded else P()
    table, targets = (jnp.asarray(RNG.integers(-2, 3, shape), dtype) for shape in ((4096, 16), (32, 16)))
    ids = below(4096, (32,))

    def step(table, ids, targets):
        def loss(table):
            read = dml_jax.gather(table, ids, 0, out_sharding=of_batch if kind == AxisType.Explicit else None)
            return (read * targets).astype(jnp.float32).sum()

        return table - jax.grad(loss)(table)

    expected = table - jax.grad(lambda t: (dml_jax.gather(t, ids, 0) * targets).astype(jnp.float32).sum())(table)
    with jax.set_mesh(mesh):
        specs = (P("d"), of_batch, of_batch)
        arrays = [jax.device_put(x, NamedSharding(mesh, s)) for x, s in zip((table, ids, targets), specs, strict=True)]
        out = NamedSharding(mesh, P("d")) if kind == AxisType.Auto else None
        compiled = jax.jit(step, out_shardings=out).lower(*arrays).compile()
        assert_same_bits(compiled(*arrays), expected)
    received = [int(sizes.split(",")[0] or 1) for sizes in RECEIVED.findall(compiled.as_text())]
    assert len(received) == len(COLLECTIVE.findall(compiled.as_text()))
    assert all(rows <= 32 for rows in received)  # ids and cotangents of the batch
    assert ids_are_sharded or not received
