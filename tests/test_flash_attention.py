"""Attention by cuDNN: what it is asked for, beside attention in float64, query by query.

Without a GPU a function of jax.nn in float32 stands in for cuDNN; on a GPU cuDNN itself runs.
"""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_oracle import attended, seen_keys
from variant_cases import chosen_on

from dml_jax import use_form
from dml_jax.operations.attention import attend
from dml_jax.operations.programs.variant_selection import watch_choices

pytestmark = pytest.mark.device
REAL = jax.nn.dot_product_attention


@pytest.fixture(autouse=True)
def cudnn(monkeypatch):
    """The calls of cuDNN, by their arguments."""
    calls = []

    def noted(q, k, v, *, bias, implementation, **given):
        assert implementation == "cudnn"
        calls.append(given | {"bias": bias, "queries": q.shape})
        if jax.default_backend() == "gpu":
            return REAL(q, k, v, bias=bias, implementation=implementation, **given)
        if q.shape[3] % 8:
            raise NotImplementedError
        wide = [x if x is None else x.astype(np.float32) for x in (q, k, v, bias)]
        return REAL(*wide, **given).astype(q.dtype)

    monkeypatch.setattr(jax.nn, "dot_product_attention", noted)
    return calls


def random_call(seed):
    """Operands of 16 bits, what `attend` is asked; and for the oracle, which keys are seen, and the bias."""
    rng = np.random.default_rng(seed)
    dtype = [jnp.float16, jnp.bfloat16][seed % 2]
    batch, groups, shared, queries, keys = rng.integers(1, [4, 3, 3, 9, 9])
    heads, asked = groups * shared, {}

    def floats(*shape):
        return jnp.asarray(rng.standard_normal(shape), dtype)

    def part():
        return [rng.choice([1, n]) for n in (batch, heads, queries, keys)]

    lengths, starts, before, after = np.full(batch, keys), 0, None, None
    bias, seen = np.float64(0), np.bool_(True)
    if rng.random() < 0.4:
        asked["added"] = [jnp.where(rng.random(shape := part()) < 0.2, -np.inf, floats(*shape))]
        seen, bias = np.array(asked["added"][0]) != -np.inf, np.asarray(asked["added"][0], np.float64)
    if rng.random() < 0.3:
        asked["mask"] = jnp.asarray(rng.random(part()) < 0.7)
        seen = seen & np.asarray(asked["mask"])
    if rng.random() < 0.3:
        asked |= {"kept": jnp.asarray(rng.random(part()) < 0.7), "filter_value": -10000.0}
        bias = bias + np.where(asked["kept"], 0, -10000.0)
    if rng.random() < 0.4:
        lengths = rng.integers(0, keys + 1, batch)
        asked["lengths"] = jnp.asarray(lengths, jnp.int32)
    if rng.random() < 0.6:
        starts = [0, int(keys - queries), rng.integers(0, keys, batch)][rng.integers(3)]
        before, after = ([None, int(rng.integers(4))][rng.integers(2)] for _ in range(2))
        after = 0 if rng.random() < 0.5 else after
        asked |= {"starts": starts if isinstance(starts, int) else jnp.asarray(starts, jnp.int32)}
        asked |= {"window": (before, after)}
    seen = seen & seen_keys(queries, lengths, keys, starts, before, after)
    data = [floats(batch, count, rows, 16) for count, rows in ((heads, queries), (groups, keys), (groups, keys))]
    return data, asked, seen, np.where(np.isneginf(bias), 0, bias), floats(batch, heads, queries, 16)


def forms(asked, dtype, form="flash_attention"):
    """`attend` by cuDNN."""

    def function(*data):
        with use_form(form):
            return attend(*data, dtype=dtype, scale=0.3, of_nothing=0.0, **asked)

    return function


def output_and_slopes(asked, cotangent):
    """The output and the slope of each operand, in one program."""

    def function(*data):
        output, pull = jax.vjp(forms(asked, cotangent.dtype), *data)
        return output, *pull(cotangent)

    return jax.jit(function)


@pytest.mark.parametrize("seed", range(12))
def test_random_calls_and_their_derivatives(seed, cudnn):
    data, asked, seen, bias, cotangent = random_call(seed)
    found = output_and_slopes(asked, cotangent)(*data)
    right = attended(*data, seen, cotangent, scale=0.3, bias=bias)
    assert cudnn
    for name, one, other in zip(("output", "of_query", "of_key", "of_value"), found, vars_of(right), strict=True):
        error = np.abs(np.asarray(one, np.float64) - other).max(initial=0)
        assert error <= 8 * float(jnp.finfo(one.dtype).eps) * max(1, np.abs(other).max(initial=0)), name


def vars_of(right):
    return right.output, right.of_query, right.of_key, right.of_value


def rows_of(*counts, dtype=jnp.float16, batch=2, heads=4, size=16):
    rng = np.random.default_rng(len(counts))
    return [jnp.asarray(rng.standard_normal((batch, heads, rows, size)), dtype) for rows in counts]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({}, {"is_causal": False}),
        ({"starts": 0, "window": (None, 0)}, {"is_causal": True}),
        ({"starts": 0, "window": (3, 0)}, {"is_causal": True, "local_window_size": (3, 0)}),
        ({"lengths": jnp.array([5, 8], jnp.int32)}, {"is_causal": False}),
    ],
    ids=["all", "causal", "window", "lengths"],
)
def test_no_array_of_flags_where_cudnn_knows_the_exclusion(asked, told, cudnn):
    jax.jit(forms(asked, jnp.float16)).lower(*rows_of(8, 8, 8))
    assert {name: cudnn[-1][name] for name in told} == told
    assert cudnn[-1]["mask"] is None
    assert (cudnn[-1]["key_value_seq_lengths"] is None) == ("lengths" not in asked)


def test_one_query_of_a_causal_window_has_as_many_keys_as_its_own_place_says(cudnn):
    asked = {"starts": jnp.array([2, 7], jnp.int32), "window": (None, 0)}
    jax.jit(forms(asked, jnp.float16)).lower(*rows_of(1, 8, 8))
    assert cudnn[-1]["mask"] is None
    assert cudnn[-1]["key_value_seq_lengths"] is not None


@pytest.mark.parametrize("queries", [1, 8])
def test_windows_of_any_size(queries):
    asked = {"starts": jnp.array([2, 7], jnp.int32)}
    data = rows_of(queries, 8, 8)
    right = jax.jit(forms(asked, jnp.float16, "plain"))(*data)
    found = jax.jit(forms(asked | {"window": (2**62, 2**31 - 1)}, jnp.float16))(*data)
    np.testing.assert_allclose(np.float32(found), np.float32(right), atol=2e-3)


def test_keys_that_no_query_sees_may_be_nan():
    query, key, value = rows_of(8, 8, 8)
    asked = {"lengths": jnp.array([5, 8], jnp.int32)}
    spoilt = [rows.at[0, :, 5:].set(np.nan) for rows in (key, value)]
    function = output_and_slopes(asked, query)
    for clean, dirty in zip(*(function(query, *rows) for rows in ((key, value), spoilt)), strict=True):
        np.testing.assert_array_equal(clean, dirty)


@pytest.mark.parametrize("axes", [(0, 0, 0, 0), (0, None, None, None), (None, 1, 0, None), (2, 0, 1, 0)])
def test_vmap_is_more_rows_of_the_batch(axes):
    """Of float32, whose derivatives are those of the plain form."""
    rng = np.random.default_rng(1)
    shapes = [(2, 4, 6, 16), (2, 2, 5, 16), (2, 2, 5, 16), (1, 4, 6, 5)]
    data = [jnp.asarray(rng.standard_normal(np.insert(shape, a or 0, 3) if a is not None else shape), jnp.float16)
            for shape, a in zip(shapes, axes, strict=True)]  # fmt: skip

    def loss(form, dtype, *data):
        data = [x.astype(dtype) for x in data]
        output = forms({"added": data[3:], "lengths": jnp.array([3, 5], jnp.int32)}, dtype, form)(*data[:3])
        return (output.astype(np.float32) ** 2).sum()

    def slopes(form, dtype):
        return jax.jit(jax.vmap(jax.grad(partial(loss, form, dtype), (0, 1, 2, 3)), axes))(*data)

    for one, other in zip(slopes("flash_attention", jnp.float16), slopes("plain", jnp.float32), strict=True):
        np.testing.assert_allclose(one, other, rtol=0.02, atol=0.02)


# On a mesh.


def mesh_of(*kinds, shape=None):
    devices = jax.devices()
    shape = shape or ((len(devices) // 2, 2) if len(devices) > 1 else (1, 1))
    return jax.make_mesh(shape, ("batch", "heads"), axis_types=kinds, devices=devices[: shape[0] * shape[1]])


EXPLICIT = (jax.sharding.AxisType.Explicit,) * 2


def on(mesh, spec, *arrays):
    return [jax.device_put(x, jax.NamedSharding(mesh, spec)) for x in arrays]


def call_on(mesh, spec, groups=2):
    """Arguments of a call whose lengths each device has whole, and its oracle's results."""
    rng = np.random.default_rng(1)
    shapes = (8, 4, 6, 16), (8, groups, 10, 16), (8, groups, 10, 16), (8, 4, 6, 16)
    *data, cotangent = (jnp.asarray(rng.standard_normal(shape), jnp.float16) for shape in shapes)
    lengths = rng.integers(1, 11, 8)
    right = attended(*data, seen_keys(6, lengths, 10), cotangent, scale=0.3)
    return *on(mesh, spec, *data, cotangent), *on(mesh, jax.P(), jnp.asarray(lengths, jnp.int32)), right


@pytest.mark.parametrize("spec", [jax.P("batch", "heads"), jax.P(("batch", "heads")), jax.P("heads", "batch")], ids=str)
def test_each_device_of_an_explicit_mesh_attends_to_its_rows_and_heads(spec, cudnn):
    mesh = mesh_of(*EXPLICIT)
    groups = 2 if mesh.size == 1 or spec != jax.P("heads", "batch") else 4
    *data, cotangent, lengths, right = call_on(mesh, spec, groups)

    def function(lengths, *data):
        output, pull = jax.vjp(forms({"lengths": lengths}, jnp.float16), *data)
        return output, *pull(cotangent)

    program = jax.jit(function).lower(lengths, *data).compile()
    part = jax.NamedSharding(mesh, spec).shard_shape(data[0].shape)
    assert cudnn[-1]["queries"] == (part[0], part[2], part[1], part[3])  # cuDNN has heads behind queries
    assert not re.search(r"all-(gather|reduce|to-all)|collective-permute", str(program.as_text()))
    for one, other in zip(program(lengths, *data), vars_of(right), strict=True):
        assert one.sharding.is_equivalent_to(data[0].sharding, 4)
        np.testing.assert_allclose(np.float64(one), other, rtol=0.01, atol=0.01)


@pytest.mark.skipif(jax.device_count() == 1, reason="one device has every row and head")
@pytest.mark.parametrize(
    ("kinds", "spec"),
    [
        (EXPLICIT, jax.P("batch")),
        (EXPLICIT, jax.P(None, None, "heads")),
        ((jax.sharding.AxisType.Auto,) * 2, jax.P("batch", "heads")),
        ((jax.sharding.AxisType.Explicit, jax.sharding.AxisType.Auto), jax.P("batch", "heads")),
    ],
    ids=["an axis is left", "queries", "Auto", "one Auto"],
)
def test_other_divisions_run_plainly(kinds, spec):
    mesh = mesh_of(*kinds)
    *data, cotangent, lengths, right = call_on(mesh, jax.P())
    query, cotangent = on(mesh, spec, data[0], cotangent)
    key, value = on(mesh, jax.P(*spec[:2]), *data[1:])
    with jax.set_mesh(mesh), watch_choices() as seen:
        function = output_and_slopes({"lengths": lengths}, cotangent)
        found = function(query, key, value)
    assert {choice.name for choice in seen if choice.case.devices > 1} == {"plain"}
    for one, other in zip(found, vars_of(right), strict=True):
        np.testing.assert_allclose(np.float64(one), other, rtol=0.01, atol=0.01)


def test_an_array_that_all_devices_add_has_one_gradient():
    mesh = mesh_of(*EXPLICIT)
    *data, _, _, _ = call_on(mesh, jax.P("batch", "heads"))
    (added,) = on(mesh, jax.P(), jnp.ones((1, 4, 6, 10), jnp.float16))

    def slope(form, dtype, *data):
        def loss(added, *data):
            output = forms({"added": [added]}, dtype, form)(*(x.astype(dtype) for x in data))
            return (output.astype(np.float32) ** 2).sum()

        with jax.set_mesh(mesh):
            return jax.jit(jax.grad(loss))(added.astype(dtype), *data)

    flash, plain = slope("flash_attention", jnp.float16, *data), slope("plain", jnp.float32, *data)
    np.testing.assert_allclose(np.float32(flash), np.float32(plain), rtol=0.02, atol=0.02)


@pytest.mark.parametrize(
    "spec", [jax.P(None, "batch", "heads"), jax.P("batch", None, "heads"), jax.P("heads")], ids=str
)
@pytest.mark.parametrize(
    "shape", [None, (1, min(jax.device_count(), 4)), (1, 1)], ids=["", "of one row of devices", "of one device"]
)
def test_vmap_and_second_derivatives_on_an_explicit_mesh(spec, shape):
    mesh = mesh_of(*EXPLICIT, shape=shape)
    rng = np.random.default_rng(2)
    values = [jnp.asarray(rng.standard_normal((4, 8, 4, 6, 16)), jnp.float16) for _ in range(3)]

    def slopes(query, key, value):
        function = forms({}, jnp.float16)
        loss = lambda query: (function(query, key, value).astype(np.float32) ** 2).sum()  # noqa: E731
        return jax.jvp(jax.grad(loss), (query,), (query,))[1]

    right = jax.jit(jax.vmap(slopes))(*values)
    with jax.set_mesh(mesh):
        found = jax.jit(jax.vmap(slopes))(*on(mesh, spec, *values))
    np.testing.assert_allclose(np.float32(found), np.float32(right), rtol=0.02, atol=0.02)


def test_forward_and_second_derivatives_are_those_of_the_plain_form():
    data = rows_of(6, 6, 6, batch=1, heads=1)
    flash, plain = (
        forms({"starts": 0, "window": (None, 0)}, jnp.float16, form) for form in ("flash_attention", "plain")
    )

    def both(function):
        def slope(*data):
            return jax.grad(lambda q: (function(q, *data[1:]).astype(np.float32) ** 2).sum())(data[0])

        return jax.jit(lambda *data: (jax.jvp(function, data, data)[1], jax.jvp(slope, data, data)[1]))(*data)

    for one, other in zip(both(flash), both(plain), strict=True):
        np.testing.assert_allclose(np.float32(one), np.float32(other), rtol=0.02, atol=0.02)


def large(size=64, dtype=jnp.float16, queries=512):
    return rows_of(queries, 512, 512, dtype=dtype, batch=4, heads=16, size=size)


@pytest.mark.parametrize(
    ("data", "asked", "chosen"),
    [
        (large(), {}, {"flash_attention"}),
        (large(), {"starts": 0, "window": (None, 0)}, {"flash_attention"}),
        (large(dtype=jnp.bfloat16), {"mask": np.ones((4, 1, 512, 512), bool)}, {"flash_attention"}),
        (large(dtype=jnp.float32), {}, set()),
        (large(size=20), {}, set()),
        (large(queries=2), {}, set()),
        (large(), {"softcap": 20.0}, set()),
        (large(), {"sinks": np.zeros(16, np.float32)}, set()),
        (large(), {"added": [np.zeros((1, 1, 512, 512), np.float32)]}, set()),
        (large(), {"kept": np.ones((1, 1, 1, 512), bool), "filter_value": -10000.0}, {"flash_attention"}),
        (large(), {"kept": np.ones((1, 1, 1, 512), bool), "filter_value": -3.4e38}, set()),
    ],
    ids=["all", "causal", "mask", "float32", "size", "few", "softcap", "sinks", "bias", "filter", "lowest"],
)
def test_which_calls_run_by_cudnn(data, asked, chosen):
    def function(*data):
        return attend(*data, dtype=data[0].dtype, scale=0.125, **asked)

    assert chosen_on("cuda", function, *data) == chosen
    assert chosen_on("cuda", jax.grad(lambda *data: function(*data).astype(np.float32).sum()), *data) == chosen
    assert not chosen_on("cpu", function, *data)


def test_a_single_query_runs_by_cudnn_forward_alone():
    """Its derivatives would be computed for as many queries as cuDNN takes at once."""
    shapes = [(8, 32, 1, 128), (8, 8, 4096, 128), (8, 8, 4096, 128)]
    data = [jax.ShapeDtypeStruct(shape, jnp.float16) for shape in shapes]

    def loss(*data):
        return attend(*data, dtype=jnp.float16, scale=0.125).astype(np.float32).sum()

    with watch_choices() as seen:
        jax.jit(jax.value_and_grad(loss)).trace(*data).lower(lowering_platforms=("cuda",))
    assert {choice.operation for choice in seen if choice.name == "flash_attention"} == {"attention"}


def test_an_export_for_gpus_runs_plainly_where_cudnn_is_not_there(monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("cuDNN is not detected.")

    monkeypatch.setattr(jax.nn, "dot_product_attention", refuse)
    exported = jax.export.export(jax.jit(partial(attend, dtype=jnp.float16, scale=0.125)), platforms=["cuda"])(*large())
    assert "fmha" not in exported.mlir_module()


@pytest.mark.skipif(jax.default_backend() != "gpu", reason="cuDNN keeps no scores on GPUs alone")
def test_memory_grows_with_the_length():
    def bytes_of(length):
        data = [jax.ShapeDtypeStruct((1, 4, length, 64), jnp.bfloat16)] * 3
        function = jax.grad(lambda *x: attend(*x, dtype=jnp.bfloat16, scale=0.125).astype(np.float32).sum(), (0, 1, 2))
        return jax.jit(function).lower(*data).compile().memory_analysis().temp_size_in_bytes

    assert bytes_of(32768) < 2.5 * bytes_of(16384)
    assert bytes_of(32768) < 4 * 32768 * 32768
