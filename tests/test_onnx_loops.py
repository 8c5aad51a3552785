"""Loop and Scan, compared with ONNX Runtime and by hand: unrolled, as `lax.scan`, and as `lax.while_loop`."""

import jax
import numpy as np
import pytest
from checks import assert_same_bits, sampled
from onnx_building import helper, model, numpy_helper, runtime
from onnx_loops import UPDATES, RandomLoop, RandomScan, value

import dml_jax
from dml_jax.onnx import Backend, NotConstantError, OnnxError, loop_execution, to_jax

make = helper.make_node
LOOPS = range(36)  # each way to say how often, each condition before and each one after, in all combinations
SCANS = range(36)


def as_tuple(results):
    return results if isinstance(results, tuple) else (results,)


def jitted(function, inputs):
    return jax.jit(lambda x: as_tuple(function(*x)))(list(inputs))


def test_the_random_models_have_every_kind():
    loops, scans = list(map(RandomLoop, LOOPS)), list(map(RandomScan, SCANS))
    ways = {(g.trips, g.condition, g.end) for g in loops}
    assert {(t, c, e) for t in ("known", "data") for c in RandomLoop.CONDITIONS for e in RandomLoop.ENDS} <= ways
    assert {("none", c, e) for c in ("known", "data") for e in ("number", "data")} <= ways
    for models in (loops, scans):
        assert {name for g in models for name in g.updates} >= set(UPDATES)
        assert {g.states for g in models} >= {1, 2}
        assert {g.rows for g in models} == {0, 1, 2}
    assert {g.count for g in loops} == {0, 1, 3, 12}
    assert {g.length for g in scans} == {1, 3, 12}
    assert {g.grows for g in loops} == {g.is_known for g in loops} == {True, False}
    assert {g.opset for g in scans} == set(RandomScan.VERSIONS)
    assert {g.has_lengths for g in scans if g.opset == 8} == {True, False}


@pytest.mark.parametrize("seed", sampled(LOOPS, [5, 13, 20, 27, 35]))
def test_a_random_loop_is_that_of_onnx_runtime(seed):
    """Under jit it is refused where the number of iterations decides a shape and is data; with a maximum it is not."""
    g = RandomLoop(seed)
    wanted = runtime(g.model, g.inputs)
    function, arrays = to_jax(g.model), list(g.inputs.values())
    with jax.enable_x64(True):
        if g.is_known or not (g.rows or g.grows):
            made = jitted(function, arrays)
        else:
            with pytest.raises(NotConstantError):
                jitted(function, arrays)
            made = Backend.run_model(g.model, g.inputs)
    for y, expected in zip(made, wanted, strict=True):
        assert_same_bits(y, expected)
    if g.rows and not g.grows:
        with jax.enable_x64(True):
            made = jitted(to_jax(g.model, maximum=dict.fromkeys(g.row_names, 5)), arrays)
        wanted[g.states :] = [padded(rows, 5) for rows in wanted[g.states :]]
        for y, expected in zip(made, wanted, strict=True):
            assert_same_bits(y, expected)


def padded(rows, count):
    return np.concatenate([rows, np.zeros((count, *rows.shape[1:]), rows.dtype)])[:count]


# By seed, whether no state that is int64 could exceed 32 bits, and no shape depends on data.
NARROW = {0: True, 1: False, 2: True, 6: False, 13: True, 17: False, 23: True, 33: True}


@pytest.mark.parametrize("seed", sampled(NARROW, [1, 13]))
def test_a_random_loop_while_x64_is_off(seed):
    """int64 that is data is exact, or refused if it might not fit 32 bits."""
    g = RandomLoop(seed)
    wide = [name for name, x in g.inputs.items() if x.dtype == np.int64]
    maximum = {} if g.is_known else dict.fromkeys(g.row_names, 14)
    function = to_jax(g.model, int32=wide, maximum=maximum)
    inputs = [x.astype(np.int32) if name in wide else x for name, x in g.inputs.items()]
    if not NARROW[seed]:
        with pytest.raises((dml_jax.DataTypeError, NotConstantError)):
            jitted(function, inputs)
        return
    wanted = runtime(g.model, g.inputs)
    if maximum:
        wanted[g.states :] = [padded(rows, 14) for rows in wanted[g.states :]]
    for y, expected in zip(jitted(function, inputs), wanted, strict=True):
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("seed", sampled(SCANS, [0, 6, 11, 13]))
def test_a_random_scan_is_that_of_onnx_runtime(seed):
    g = RandomScan(seed)
    with jax.enable_x64(True):
        made = jitted(to_jax(g.model), g.inputs.values())
    for i, (y, expected) in enumerate(zip(made, runtime(g.model, g.inputs), strict=True)):
        if g.has_lengths and i >= g.states:  # beyond the length of an example nothing is specified; here it is 0
            for one, other, length in zip(y, expected, g.inputs["lengths"], strict=True):
                assert_same_bits(one, padded(other[:length], len(other)))
        else:
            assert_same_bits(y, expected)


# By hand.

X = np.float32([[1, -2, 3], [-4, 5, -6]])
STATE = [("number", np.int64, []), ("go", np.bool_, []), ("s", np.float32)]


def graph(nodes, inputs, outputs):
    return helper.make_graph(list(nodes), "body", *([value(*one) for one in ones] for ones in (inputs, outputs)))


def loop_model(nodes, inputs, *, trips="M", cond="", rows=(), constants=None, end=("go_out", np.bool_), outputs=None):
    """A Loop with a state `s` that is `s_out` after each iteration, and rows by name; `M` is 20 unless it is given."""
    keep = make("Identity", ["go"], ["go_out"])
    body = graph([keep, *nodes], STATE, [end, ("s_out", np.float32), *((row, np.float32) for row in rows)])
    names = ["y", *(f"{row}s" for row in rows)]
    loop = make("Loop", [trips, cond, "x"], names, name="loop", body=body)
    constants = ({} if "M" in inputs or not trips else {"M": np.int64(20)}) | (constants or {})
    return model([loop], inputs, names if outputs is None else outputs, constants)


HALVE = make("Mul", ["s", "factor"], ["s_out"], name="halve")
HALF = {"factor": np.float32(0.5)}
BELOW = [make("ReduceSum", ["s"], ["sum"], keepdims=0), make("Less", ["one", "sum"], ["goes_on"])]
WHILE = {"trips": "", "cond": "yes", "end": ("goes_on", np.bool_)}
YES = {"yes": np.array(True), "one": np.float32(1)}


def primitives(function, *inputs):
    return {eqn.primitive.name for eqn in jax.make_jaxpr(function)(*inputs).eqns}


def test_a_count_that_is_known_is_unrolled_or_a_scan():
    for trips, wanted in ((loop_execution.FEW, False), (loop_execution.FEW + 1, True)):
        function = to_jax(loop_model([HALVE], {"x": X}, constants=HALF | {"M": np.int64(trips)}))
        assert ("scan" in primitives(function, X)) == wanted
        assert_same_bits(jax.jit(function)(X), X / 2**trips)
        slope = jax.grad(lambda x, function=function: function(x).sum())(X)
        assert_same_bits(slope, np.full_like(X, 0.5**trips))
        factor = jax.grad(lambda p, function=function: function(X, parameters=p).sum())({"factor": np.float32(0.5)})
        np.testing.assert_allclose(factor["factor"], trips * 0.5 ** (trips - 1) * X.sum(), rtol=1e-5)


def test_a_count_that_is_data_has_derivatives_forwards_alone():
    proto = loop_model([HALVE], {"x": X, "M": np.asarray(3)}, constants=HALF)
    function = to_jax(proto, int32=["M"])
    assert "while" in primitives(function, X, np.int32(3))
    y, tangent = jax.jit(lambda x, n: jax.jvp(lambda x: function(x, n), (x,), (x,)))(X, np.int32(11))
    assert_same_bits(y, X / 2**11)
    assert_same_bits(tangent, X / 2**11)
    jacobian = jax.jit(jax.jacfwd(function))(X, np.int32(11))
    assert_same_bits(jacobian.reshape(6, 6), np.eye(6, dtype=np.float32) / 2**11)
    of_one = jax.grad(lambda x, n: function(x, n).sum())
    for slope, n in ((jax.jit(of_one), 11), (jax.vmap(of_one, (None, 0)), [11])):
        with pytest.raises(NotConstantError, match=r"^Loop node 'loop': the number of .* jax\.grad, .*static="):
            slope(X, np.int32(n))
    known = to_jax(proto, static={"M": 11})
    assert_same_bits(jax.grad(lambda x: known(x).sum())(X), np.full_like(X, 0.5**11))


@pytest.mark.parametrize("trips", ["", "M"])
def test_a_condition_that_is_data_ends_a_loop(trips):
    """The greatest number is how exporters write that there is no other end."""
    constants = HALF | YES | ({"M": np.int64(2**63 - 1)} if trips else {})
    proto = loop_model([HALVE, *BELOW], {"x": X[:1] ** 2}, **WHILE | {"trips": trips}, constants=constants)
    function = to_jax(proto)
    assert "while" in primitives(function, X[:1])
    wanted = X[:1] ** 2 / 32  # before the iterations the sums are 14, 7, 3.5, 1.75 and 0.875
    for x in (X[:1] ** 2, X[:1]):
        assert_same_bits(jax.jit(function)(x), runtime(proto, {"x": x})[0])
    assert_same_bits(jax.jit(function)(X[:1] ** 2), wanted)
    many = jax.jit(jax.vmap(function))(np.stack([X[:1] ** 2, 100 * X[:1] ** 2]))
    assert_same_bits(many[0], wanted)
    assert_same_bits(many[1], runtime(proto, {"x": 100 * X[:1] ** 2})[0])


def test_without_a_condition_that_of_the_body_is_ignored():
    never = make("Constant", [], ["never"], value=numpy_helper.from_array(np.array(False)))
    end = {"end": ("never", np.bool_)}
    for trips in (3, 30):
        known = loop_model([HALVE, never], {"x": X}, **end, constants=HALF | {"M": np.int64(trips)})
        data = loop_model([HALVE, never], {"x": X, "M": np.asarray(3)}, **end, constants=HALF)
        assert_same_bits(jax.jit(to_jax(known))(X), X / 2**trips)
        assert_same_bits(jax.jit(to_jax(data, int32=["M"]))(X, np.int32(trips)), X / 2**trips)
    once = loop_model([HALVE, never], {"x": X}, **end, cond="yes", constants=HALF | YES)
    assert_same_bits(jax.jit(to_jax(once))(X), X / 2)


ROWS = make("Identity", ["s"], ["row"])


def test_rows_of_an_unknown_number_need_a_maximum_if_they_are_read():
    proto = loop_model([HALVE, ROWS], {"x": X, "M": np.asarray(3)}, rows=["row"], constants=HALF)
    rows = np.stack([X, X / 2, X / 4])
    assert_same_bits(to_jax(proto)(X, np.asarray(3))[1], rows)  # outside of jit the number is there
    rule = r"Loop node 'loop': the number of iterations must be known, because it is the size of the scan output 'rows'"
    with pytest.raises(NotConstantError, match=rule + r".*maximum=\{'rows': 100\}"):
        jax.jit(to_jax(proto, int32=["M"]))(X, np.int32(3))
    unread = loop_model([HALVE, ROWS], {"x": X, "M": np.asarray(3)}, rows=["row"], constants=HALF, outputs=["y"])
    assert_same_bits(jax.jit(to_jax(unread, int32=["M"]))(X, np.int32(3)), X / 8)
    for maximum in (2, np.int64(3), 5):
        function = to_jax(proto, int32=["M"], maximum={"rows": maximum})
        for made in (function(X, np.int32(3)), jax.jit(function)(X, np.int32(3))):
            assert_same_bits(made[0], X / 8)
            assert_same_bits(made[1], padded(rows, maximum))
    for maximum, text in [
        (
            {"row": 1},
            "maximum must name outputs of Loop, or first outputs of Compress, NonMaxSuppression, NonZero, Unique: "
            "rows, y, but it has 'row'",
        ),
        ({"rows": -1}, "maximum['rows'] must be an integer of at least 0, but it is -1"),
        ({"rows": 1.5}, "maximum['rows'] must be an integer of at least 0, but it is 1.5"),
        ([3], "maximum must be a dict by name, but it is list"),
        ({"y": 1}, "maximum must be of a scan output, but 'y' is a state"),
    ]:
        with pytest.raises(OnnxError) as caught:
            to_jax(proto, maximum=maximum)(X, np.asarray(3))
        assert text in str(caught.value)


def test_shapes_may_change_where_the_count_is_known():
    """Rows that are appended: 20 times are more than what is unrolled at once."""
    append = make("Concat", ["s", "x"], ["s_out"], axis=0)
    proto = loop_model([append], {"x": X})
    assert_same_bits(jax.jit(to_jax(proto))(X), np.tile(X, (21, 1)))
    data = to_jax(loop_model([append], {"x": X, "M": np.asarray(3)}), int32=["M"])
    assert_same_bits(data(X, np.int32(2)), np.tile(X, (3, 1)))
    with pytest.raises(
        NotConstantError, match=r"changes the types of the state, from float32\[2, 3\] to float32\[4, 3\]"
    ):
        jax.jit(data)(X, np.int32(2))


def test_a_loop_of_no_iterations():
    nodes = [HALVE, ROWS]
    proto = loop_model(nodes, {"x": X}, rows=["row"], constants=HALF | {"M": np.int64(0)})
    y, rows = jax.jit(to_jax(proto))(X)
    assert_same_bits(y, X)
    assert_same_bits(rows, np.zeros((0, 2, 3), np.float32))
    growing = [make("Concat", ["s", "x"], ["s_out"], axis=0), ROWS]
    proto = loop_model(growing, {"x": X}, rows=["row"], constants={"M": np.int64(0)})
    assert [y.shape for y in jax.jit(to_jax(proto))(X)] == [(2, 3), (0, 2, 3)]
    negative = loop_model([HALVE], {"x": X}, constants=HALF | {"M": np.int64([-1])})
    assert_same_bits(to_jax(negative)(X), X)
    inputs = {"x": X, "t": np.zeros((2, 0, 3), np.float32)}
    node = make(
        "Scan", ["x", "t"], ["y", "z"], num_scan_inputs=1, body=SCANNED, scan_input_axes=[1], scan_output_axes=[-1]
    )
    y, z = jax.jit(to_jax(model([node], inputs, ["y", "z"])))(*inputs.values())
    assert_same_bits(y, X)
    assert_same_bits(z, np.zeros((2, 3, 0), np.float32))


SCANNED = graph(
    [make("Add", ["s", "e"], ["s_out"]), make("Mul", ["s", "e"], ["row"])],
    [("s", np.float32), ("e", np.float32)],
    [("s_out", np.float32), ("row", np.float32)],
)


def test_gradients_of_a_scan():
    """Of y = x + sum(t), and of rows x * t + (t before) * t."""
    t = np.arange(12, dtype=np.float32).reshape(12, 1)
    node = make("Scan", ["x", "t"], ["y", "z"], num_scan_inputs=1, body=SCANNED)
    function = to_jax(model([node], {"x": X, "t": t}, ["y", "z"]))
    assert "scan" in primitives(function, X, t)
    slopes = jax.jit(jax.grad(lambda x, t: sum(y.sum() for y in function(x, t)), argnums=(0, 1)))(X, t)
    np.testing.assert_allclose(slopes[0], np.full_like(X, 1 + t.sum()), rtol=1e-6)
    np.testing.assert_allclose(slopes[1], 6 + X.sum() + 6 * (t.sum() - t), rtol=1e-6)


def test_numbers_of_iterations_are_indices_while_x64_is_off():
    """The number of an iteration is int64 in the model, and int32 on the device."""
    nodes = [make("Gather", ["x", "number"], ["row"], axis=0), make("Add", ["s", "row"], ["s_out"])]
    x = np.arange(30, dtype=np.float32)
    body = graph([make("Identity", ["go"], ["g"]), *nodes], STATE, [("g", np.bool_), ("s_out", np.float32)])
    node = make("Loop", ["M", "", "zero"], ["y"], body=body)
    constants = {"M": np.int64(30), "zero": np.float32(0)}
    function = to_jax(model([node], {"x": x}, ["y"], constants))
    assert "scan" in primitives(function, x)
    assert_same_bits(jax.jit(function)(x), x.sum())


@pytest.mark.parametrize("trips", ["known", "data"])
def test_rows_that_are_missing_are_zeros_while_x64_is_off(trips):
    """The rows are at least 10: without the zeros after them, all sums would fit 32 bits."""
    nodes = [make("Identity", ["go"], ["g"]), make("Max", ["number", "ten"], ["row"]), make("Identity", ["s"], ["t"])]
    body = graph(nodes, STATE, [("g", np.bool_), ("t", np.float32), ("row", np.int64)])
    nodes = [
        make("Loop", ["M", "", "x"], ["y", "rows"], body=body),
        make("Sub", ["rows", "most"], ["less"]),
        make("Sub", ["less", "eight"], ["z"]),
    ]
    constants = {"ten": np.int64(10), "most": np.int64(2**31 - 1), "eight": np.int64(8)}
    count = {"M": np.asarray(20)}
    proto = model(
        nodes, {"x": X} | (count if trips == "data" else {}), ["z"], constants | (count if trips == "known" else {})
    )
    function = to_jax(proto, int32=["M"] if trips == "data" else [], maximum={"rows": 30})
    inputs = [X, np.int32(20)] if trips == "data" else [X]
    with pytest.raises(dml_jax.DataTypeError, match=r"may be any in \[-2147483655, "):
        jitted(function, inputs)
    with jax.enable_x64(True):
        (z,) = jitted(function, inputs)
    assert_same_bits(z, padded(np.maximum(np.arange(20), 10), 30) - 2**31 - 7)


def test_a_counter_that_is_known_is_exact_while_x64_is_off():
    """Numbers of 64 bits: it is unrolled, as constants."""
    add = make("Add", ["k", "far"], ["k_out"])
    body = graph(
        [make("Identity", ["go"], ["g"]), add], [*STATE[:2], ("k", np.int64)], [("g", np.bool_), ("k_out", np.int64)]
    )
    nodes = [make("Loop", ["M", "", "zero"], ["k9"], body=body), make("Equal", ["k9", "sum"], ["y"])]
    constants = {"M": np.int64(20), "zero": np.int64(0), "far": np.int64(2**33), "sum": np.int64(20 * 2**33)}
    assert_same_bits(to_jax(model(nodes, {}, ["y"], constants))(), np.array(True))


def test_a_condition_that_is_known_ends_a_loop_while_tracing():
    """The rows are as many as there are iterations: 6."""
    nodes = [HALVE, ROWS, make("Less", ["number", "five"], ["goes_on"])]
    given = WHILE | {"trips": "M"}
    constants = HALF | YES | {"five": np.int64(5), "M": np.int64([2**63 - 1])}
    proto = loop_model(nodes, {"x": X}, **given, rows=["row"], constants=constants)
    for y, wanted in zip(jax.jit(to_jax(proto))(X), runtime(proto, {"x": X}), strict=True):
        assert_same_bits(y, wanted)
    assert jax.jit(to_jax(proto))(X)[1].shape == (6, 2, 3)


def test_loops_that_do_not_end_are_refused():
    endless = loop_model([HALVE], {"x": X}, trips="", cond="yes", constants=HALF | YES)
    with pytest.raises(OnnxError, match="'loop': the loop must end, but it has no number of iterations, and its cond"):
        jax.jit(to_jax(endless))(X)
    append = make("Concat", ["s", "x"], ["s_out"], axis=0)
    proto = loop_model([append], {"x": X}, constants={"M": np.int64(1000)})
    with pytest.raises(
        OnnxError, match=r"'loop': .*at most 100 nodes may run, those of .* and of loops in each iteration"
    ):
        jax.jit(to_jax(proto, max_nodes=100))(X)


def test_errors_in_bodies_say_where():
    wrong = make("Reshape", ["s", "seven"], ["s_out"], name="fold")
    for trips in (3, 30):
        proto = loop_model([wrong], {"x": X}, constants={"seven": np.int64([7]), "M": np.int64(trips)})
        with pytest.raises(OnnxError, match=r"Loop node 'loop': Reshape node 'fold': .*7"):
            to_jax(proto)(X)
    missing = loop_model([make("Add", ["s", "nothing"], ["s_out"], name="n")], {"x": X})
    with pytest.raises(OnnxError, match="Loop node 'loop': every input must exist before the node, but 'nothing' does"):
        to_jax(missing)


def test_floats_that_decide_sizes_in_a_body_are_no_parameters():
    """As a state, and from around the loop."""
    picture, scales = np.ones((1, 1, 2, 2), np.float32), np.float32([1, 1, 2, 2])
    body = graph(
        [
            make("Identity", ["go"], ["g"]),
            make("Resize", ["x", "", "s"], ["row"], mode="nearest"),
            make("Identity", ["s"], ["t"]),
        ],
        STATE,
        [("g", np.bool_), ("t", np.float32), ("row", np.float32)],
    )
    node = make("Loop", ["M", "", "scales"], ["t", "rows"], body=body)
    function = to_jax(model([node], {"x": picture}, ["rows"], {"scales": scales, "M": np.int64(2)}))
    assert not function.parameters
    assert jax.jit(lambda x: function(x, parameters={}))(picture).shape == (2, 1, 1, 4, 4)


def scan_model(body=SCANNED, inputs=("x", "t"), *, shapes=((3,), (4, 3)), outputs=("y", "z"), opset=20, **attributes):
    node = make("Scan", list(inputs), list(outputs), name="scan", **{"num_scan_inputs": 1, "body": body} | attributes)
    given = {name: np.zeros(shape, np.float32) for name, shape in zip(("x", "t"), shapes, strict=True)}
    return model([node], given, list(outputs), opset=opset)


GROWING = graph(
    [make("Concat", ["s", "e"], ["s_out"], axis=0)], [("s", np.float32), ("e", np.float32)], [("s_out", np.float32)]
)
DOUBLE = make("Cast", ["s"], ["s_out"], to=11)
BROKEN = {
    "body_inputs": (
        scan_model(inputs=["x", "x", "t"]),
        "the body must have 3 inputs and at least 2 outputs, but it has 2 and 2",
    ),
    "body_outputs": (
        scan_model(outputs=["y", "z", "w"]),
        "the body must have 2 inputs and at least 3 outputs, but it has 2 and 2",
    ),
    "scan_inputs": (scan_model(num_scan_inputs=3), "num_scan_inputs must be in [1, 2], but it is 3"),
    "no_scan_input": (scan_model(num_scan_inputs=0), "num_scan_inputs must be in [1, 2], but it is 0"),
    "axis": (scan_model(scan_input_axes=[2]), "scan_input_axes must be in [-2, 1], but it is 2"),
    "output_axis": (scan_model(scan_output_axes=[-3]), "scan_output_axes must be in [-2, 1], but it is -3"),
    "axes": (scan_model(scan_input_axes=[0, 0]), "scan_input_axes must have 1 numbers, but it has 2"),
    "direction": (scan_model(scan_input_directions=[2]), "scan_input_directions must be 0 or 1, but they are [2]"),
    "lengths": (
        scan_model(inputs=["x", "t"], shapes=((3, 3), (4, 3)), num_scan_inputs=2, outputs=["z"], body=GROWING),
        "all scan inputs must have one size along the scanned dimension, but they have [3, 4]",
    ),
    "batch": (
        scan_model(inputs=["", "x", "t"], shapes=((2, 3), (4, 3, 3)), opset=8),
        "the batch and the length of the scan inputs must be equal, and the batch of the state, but the shapes are",
    ),
    "trips": (loop_model([HALVE], {"x": X, "M": np.int64([1, 2])}, constants=HALF), "M must have one element, but its"),
    "condition": (
        loop_model([HALVE], {"x": X, "yes": np.array([True, True])}, cond="yes", constants=HALF),
        "cond must have one element, but its shape is (2,)",
    ),
    "type_of_condition": (
        loop_model([HALVE], {"x": X, "yes": np.int64(1)}, cond="yes", constants=HALF),
        "cond of Loop-19 must be one of bool, but it is int64",
    ),
    "type_of_state": (
        loop_model([DOUBLE], {"x": X}, constants={"M": np.int64(2)}),
        "an iteration must keep the types of the state, but they are float32[2, 3] before and float64[2, 3] after one",
    ),
    "rows": (
        loop_model(
            [make("Identity", ["x"], ["s_out"]), make("Range", ["one", "number", "one"], ["row"])],
            {"x": X},
            rows=["row"],
            constants={"one": np.int64(1), "M": np.int64(3)},
        ),
        "the rows of a scan output must have one shape, but they have (0,) and (1,)",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_refused(name):
    proto, text = BROKEN[name]
    function = to_jax(proto)
    inputs = [np.zeros(spec.sizes, spec.dtype) for spec in function.inputs]
    with pytest.raises(OnnxError) as caught, jax.enable_x64(True):
        function(*inputs)
    assert text in str(caught.value)
    assert str(caught.value).startswith(("Loop node 'loop': ", "Scan node 'scan': "))
