"""`BatchFunction`: NumPy batches in, NumPy batches out, whoever reads them; compiled once, on all devices."""

import copy
import operator
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial, wraps

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from batch_jobs import environment
from checks import assert_same_bits
from operator_cases import f32

import dml_jax
from dml_jax import descs
from dml_jax.batch import BatchFunction

X = np.random.default_rng(0).random((21, 3), np.float32)
Y = np.arange(21, dtype=np.int32)


# What goes in and comes out.


def both(x, y):
    return {"twice": 2 * x, "sum": x + y[:, None].astype(np.float32)}


KINDS = {
    "an array": (lambda x: 2 * x, X, 2 * X),
    "a tuple": (lambda x, y: both(x, y)["sum"], (X, Y), X + np.float32(Y)[:, None]),
    "a list, as DataLoader gives": (lambda x, y: (x, -y), [X, Y], (X, -Y)),
    "columns": (both, {"y": Y, "x": X}, {"twice": 2 * X, "sum": X + np.float32(Y)[:, None]}),
}


@pytest.mark.parametrize("devices", [1, 8])
@pytest.mark.parametrize(("fn", "given", "wanted"), KINDS.values(), ids=KINDS)
def test_whole_and_shorter_batches(fn, given, wanted, devices):
    """The results of 8, 8 and 5 rows are those of all rows."""
    function = BatchFunction(fn, batch_size=8)
    with jax.default_device(jax.devices("cpu")[3]) if devices == 1 else nullcontext():
        parts = [function(jax.tree.map(lambda a: a[i : i + 8], given)) for i in (0, 8, 16)]  # noqa: B023
    assert {type(part) for part in parts} == {type(wanted)}
    for result, array in zip(zip(*map(jax.tree.leaves, parts), strict=True), jax.tree.leaves(wanted), strict=True):
        assert {type(part) for part in result} == {np.ndarray}
        assert_same_bits(np.concatenate(result), array)


def test_it_is_traced_once_and_every_device_has_rows_of_its_own():
    traced, seen = [], []

    def told(x):
        traced.append(x.shape)
        jax.debug.callback(lambda part: seen.append(len(part)), x)
        return x

    function = BatchFunction(told, batch_size=16)
    for count in (16, 5, 16):
        function(X[:count])
    jax.effects_barrier()
    assert traced == [(2, 3)]
    assert seen == [2] * 8 * 3


def test_shorter_batches_have_no_rows_of_zeros():
    """They are filled up with the last row, for which `fn` is defined; zeros may give NaNs or a loop without end."""
    seen = []

    def told(x):
        jax.debug.callback(lambda part: seen.extend(np.asarray(part).tolist()), x)
        return x / x

    with jax.debug_nans(True):
        assert_same_bits(BatchFunction(told, batch_size=16)(X[3:8]), np.ones((5, 3), np.float32))
    jax.effects_barrier()
    assert len(seen) == 16
    assert seen.count(X[7].tolist()) == 12
    assert all(row in X[3:8].tolist() for row in seen)


@pytest.mark.parametrize("rows", [8, 11, 16])
def test_rows_without_elements(rows):
    given = np.zeros((rows, 0), np.float32)
    result = BatchFunction(lambda x: (x, x.sum(1), jnp.zeros((*x.shape, 2))), batch_size=np.int64(16))(given)
    assert [array.shape for array in result] == [(rows, 0), (rows,), (rows, 0, 2)]


def test_results_are_the_callers():
    """The next batch overwrites neither them nor what it is given."""
    function = BatchFunction(lambda x: x)
    one, other = function(X), function(-X)
    other[:] = 0
    assert_same_bits(one, X)
    assert_same_bits(function(X), X)


SHARED = {
    "in order": ([{"w": X.T, "b": np.float32(1)}], lambda x, layer: x @ layer["w"] + layer["b"]),
    "by name": ({"w": jnp.asarray(X.T), "b": np.float32(1)}, lambda x, *, b, w: x @ w + b),
}


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize(("shared", "fn"), SHARED.values(), ids=SHARED)
def test_shared_trees_of_arrays(shared, fn, columns):
    if columns:
        fn = (lambda layer, x, f=fn: f(x, layer)) if isinstance(shared, list) else fn
    function = BatchFunction(fn, shared=shared)
    np.testing.assert_allclose(function({"x": X} if columns else X), X @ X.T + 1, rtol=1e-6)


def test_shared_arrays_are_those_of_the_beginning():
    table = np.arange(64, dtype=np.float32)
    function = BatchFunction(lambda x, table: x + table.sum(), shared=[table])
    before = function(X)
    table[:] = 0
    assert_same_bits(function(X), before)
    assert_same_bits(copy.deepcopy(function)(X), before)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint32, jnp.bfloat16, jnp.float8_e4m3fn, jnp.int4, ">f4"])
def test_types(dtype):
    x = (Y % 7).astype(dtype)
    assert_same_bits(
        BatchFunction(lambda x: x[:, None], batch_size=30)(x), x.astype(x.dtype.newbyteorder("="))[:, None]
    )


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_64_bit_types(dtype, x64):
    """Where it is made with x64 on, it and its copies have them, whatever the process that calls it has set."""
    x, function = Y.astype(dtype) * 2**33, BatchFunction(twice, batch_size=30)
    if x64:
        with jax.enable_x64(False):
            assert_same_bits(function(x), 2 * x)
            assert_same_bits(pickle.loads(pickle.dumps(function))(x), 2 * x)
    else:
        with pytest.raises(dml_jax.DataTypeError, match=r"batch of type \w*64 needs 64-bit types, but jax_enable_x64"):
            function(x)


def test_threads_call_it_at_once():
    function = BatchFunction(twice, batch_size=21)
    parts = [X + np.float32(i) for i in range(40)]
    with ThreadPoolExecutor(8) as pool:
        for result, part in zip(pool.map(function, parts), parts, strict=True):
            assert_same_bits(result, 2 * part)


def test_a_loop_over_a_dataloader_of_torch():
    torch = pytest.importorskip("torch")
    data = torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
    function = BatchFunction(both, batch_size=8)
    sums = [function(batch)["sum"] for batch in torch.utils.data.DataLoader(data, batch_size=8)]
    assert_same_bits(np.concatenate(sums), X + np.float32(Y)[:, None])
    with pytest.raises(dml_jax.DataTypeError, match=r"batch\[0\] must be .* requires grad"):
        function([torch.from_numpy(X).requires_grad_(), torch.from_numpy(Y)])


# Copies and pickles.


def twice(x):
    return 2 * x


def rows(run, x):
    return jax.vmap(run)(x)


def doubled_rows(run, x):
    return jax.vmap(run)(x, x)


def of_onnx():
    helper = pytest.importorskip("onnx").helper
    x, y = (helper.make_tensor_value_info(name, 1, ["n", 3]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "twice", [x], [y])
    from dml_jax.onnx import to_jax

    return to_jax(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))


def of_desc():
    tensor = f32(1, 1, 1, 3)
    return descs.ElementWiseAddDesc(tensor, tensor, tensor)


def of_graph():
    graph = dml_jax.GraphBuilder()
    x = graph.input("x", f32(1, 1, 1, 3))
    return graph.build({"y": 2 * x})


TWICE = {
    "a function": lambda: twice,
    "an ONNX model": of_onnx,
    "a descriptor": lambda: partial(doubled_rows, of_desc().compute),
    "a graph": lambda: partial(rows, of_graph().compute),
    "a compiled operator": lambda: partial(rows, dml_jax.compile_operator(of_graph())),
}
COPIES = {"pickle": lambda value: pickle.loads(pickle.dumps(value)), "deepcopy": copy.deepcopy, "copy": copy.copy}


@pytest.mark.parametrize("name", TWICE)
def test_copies_compute_the_same(name):
    shape = (21, 1, 1, 1, 3) if name in ("a descriptor", "a graph") else X.shape
    function = BatchFunction(TWICE[name](), batch_size=32)
    assert_same_bits(function(X.reshape(shape)), 2 * X.reshape(shape))
    for again in COPIES.values():
        assert_same_bits(again(function)(X.reshape(shape)), 2 * X.reshape(shape))


class Twice(BatchFunction):
    def __init__(self, name):
        super().__init__(twice)
        self.name = name

    def __call__(self, batch):
        return super().__call__(batch[self.name])


def test_copies_have_the_class_and_its_attributes():
    function = Twice("a")
    function({"a": X})
    for again in COPIES.values():
        assert_same_bits(again(function)({"a": X}), 2 * X)


def test_lambdas_are_pickled_by_cloudpickle():
    cloudpickle = pytest.importorskip("cloudpickle")
    function = BatchFunction(jax.vmap(lambda x, s: s * x, in_axes=(0, None)), shared=[np.float32(2)])
    assert_same_bits(pickle.loads(cloudpickle.dumps(function))(X), 2 * X)


def test_another_process_reads_it(tmp_path):
    """With another number of devices, and x64 off."""
    with jax.enable_x64(True):
        function = BatchFunction(operator.mul, batch_size=32, shared=[np.int64(2**40)])
    (tmp_path / "function.pickle").write_bytes(pickle.dumps(function))
    code = """
import pickle, numpy as np
print(pickle.load(open("function.pickle", "rb"))(np.arange(3)).tolist())
"""
    line = [sys.executable, "-c", code]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=True, env=environment())
    assert done.stdout == f"[0, {2**40}, {2**41}]\n"


# What can be wrong.


BATCHES = {
    "too long": ({"x": np.zeros((9, 3), np.float32), "y": Y[:9]}, "at most 8 rows, but it has 9"),
    "empty": ({"x": X[:0], "y": Y[:0]}, "at least one row, but it has none"),
    "no columns": ({}, r"an array or a column at least, but it is \{\}"),
    "lengths": ({"x": X[:3], "y": Y[:4]}, r"the same number of rows, but batch\['x'\] has 3, batch\['y'\] has 4"),
    "a column is missing": ({"x": X[:3]}, r"must be x: float32\[any,3\], y: int32\[any\], .*this one is x: float32"),
    "a column more": ({"x": X[:3], "y": Y[:3], "z": Y[:3]}, r"this one is x: float32\[any,3\], .*, z: int32\[any\]"),
    "another type": ({"x": X[:3], "y": X[:3, 0]}, r"this one is .* y: float32\[any\]; another BatchFunction"),
    "another size": ({"x": X[:3, :2], "y": Y[:3]}, r"this one is x: float32\[any,2\]"),
    "objects": ({"y": np.array([{}, None])}, r"batch\['y'\] must be .*: row 0 is dict and row 1 is NoneType;"),
    "objects alike": ({"y": np.array([{}, {}])}, r"its type is object: its rows are dict; numpy.stack"),
    "sizes": ({"y": np.array([*X[:2], X[2, :2]], object)}, r"row 0 is float32\[3\] and row 2 is float32\[2\]"),
    "texts": ({"y": np.array(["a", "b"])}, r"batch\['y'\].dtype must be a type that JAX has, but it is <U1"),
    "texts of any length": ({"y": np.array(["a"], np.dtypes.StringDType())}, "y.*dtype must be a type that JAX has"),
    "a number": ({"x": X[:2], "y": 3}, r"batch\['y'\] must be an array of numbers, but it is int; numpy.asarray"),
    "a mask": ({"x": np.ma.zeros(3)}, r"batch\['x'\] must be an array without a mask, .*; its filled\(value\) is one"),
    "a number as a name": ({"x": X[:2], 0: Y[:2]}, "the names of batch must be texts, but one is 0"),
    "no dimension": ({"x": X[:2], "y": np.float32(3)}, r"batch\['y'\] must have a leading dimension"),
}


@pytest.mark.parametrize(("batch", "message"), BATCHES.values(), ids=BATCHES)
def test_a_wrong_batch_is_told(batch, message):
    """And the next one that is right is computed."""
    function = BatchFunction(both, batch_size=8)
    right = {"x": X[:8], "y": Y[:8]}
    function(right)
    with pytest.raises(dml_jax.ConstraintError, match=f"^BatchFunction: .*{message}"):
        function(batch)
    assert_same_bits(function(right)["twice"], 2 * X[:8])


COLUMNS = {
    "missing": ({"x": X}, {}, r"fn must take x: float32\[any,3\], but its arguments are \(x, y\): .*'y'"),
    "unknown": ({"x": X, "y": Y, "z": Y}, {}, r"fn must take .*, z: int32\[any\], but its arguments are .*: .*'z'"),
    "shared too": ({"x": X, "y": Y}, {"y": Y}, r"fn must take .*, shared\['y'\], but .*multiple values .*'y'"),
    "too many": ((X, Y, Y), {}, r"fn must take .*, but its arguments are \(x, y\): too many positional arguments"),
}


@pytest.mark.parametrize(("batch", "shared", "message"), COLUMNS.values(), ids=COLUMNS)
def test_columns_that_the_function_does_not_take_are_told(batch, shared, message):
    with pytest.raises(dml_jax.ConstraintError, match=f"^BatchFunction: {message}"):
        BatchFunction(both, shared=shared)(batch)


def test_a_decorator_may_give_arguments():
    """Then the signature of the function that it wraps is not what it takes."""

    @wraps(both)
    def decorated(x):
        return both(x, Y[: len(x)])["twice"]

    assert_same_bits(BatchFunction(decorated)({"x": X}), 2 * X)


def test_a_batch_longer_than_the_first_is_told():
    function = BatchFunction(twice)
    function(X[:8])
    with pytest.raises(dml_jax.ConstraintError, match="at most 8 rows, as the first had; batch_size says another"):
        function(X[:9])


RESULTS = {
    "no rows": (lambda x: {"mean": x.mean(), "x": x}, r"for a batch of \d its result\['mean'\] is float32\[\]"),
    "a row too many": (lambda x: jnp.concatenate([x, x[:1]]), r"for a batch of \d it returns float32"),
    "nothing": (lambda x: None, "it returns None; did you forget `return`"),
    "nothing inside": (lambda x: (x, None), r"its result\[1\] is NoneType"),
    "a number": (lambda x: {"a": 1}, r"its result\['a'\] is int"),
    "an empty tuple": (lambda x: (), r"it returns \(\)"),
    "a derivative by integers": (
        lambda x: jax.vjp(lambda i: i.astype(np.float32), x[:, 0].astype(np.int32))[1](x[:, 0])[0],
        r"it returns \[\('float0', 'V'\)\], no type of NumPy",
    ),
    "keys": (lambda x: jax.random.split(jax.random.key(0), len(x)), "it returns key<fry>, no type of NumPy"),
}


@pytest.mark.parametrize(("fn", "message"), RESULTS.values(), ids=RESULTS)
def test_results_that_are_no_rows_are_told(fn, message):
    rule = "BatchFunction: fn must return arrays with a row per row of its batch"
    with pytest.raises(dml_jax.ConstraintError, match=f"^{rule}, but {message}"):
        BatchFunction(fn)(X)


ARGUMENTS = {
    "fn": ({"fn": 3}, "fn must be a function, but it is int"),
    "batch_size": ({"batch_size": 0}, "batch_size must be an integer of at least 1, but it is 0"),
    "an array": ({"shared": X}, "shared must be a list of arrays or a dict of them, but it is ndarray"),
    "a path": ({"shared": ["x.npy"]}, r"shared\[0\] must be an array of numbers, but it is str"),
    "a number": ({"shared": {"w": [1]}}, r"shared\['w'\]\[0\] must be an array of numbers, but it is int"),
    "a number as a name": ({"shared": {1: X, 0: X}}, "the names of shared must be texts, but one is 1"),
    "64 bits": ({"shared": {"w": np.float64([1])}}, r"shared\['w'\] of type float64 needs 64-bit types"),
}


@pytest.mark.parametrize(("given", "message"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_wrong_arguments_are_told(given, message):
    with pytest.raises(dml_jax.ConstraintError, match=f"^BatchFunction: {message}"):
        BatchFunction(**{"fn": twice, **given})
