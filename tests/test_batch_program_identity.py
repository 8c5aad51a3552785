"""A job goes on with the program that it began with: another one is refused, whatever made the difference."""

import subprocess
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from batch_jobs import environment

from dml_jax.batch import BatchError, BatchFunction, map_batches
from dml_jax.batch.program_identity import known_of

X = np.arange(800, dtype=np.float32).reshape(400, 2)
SCALE = 2.0
ROW = {0: jax.ShapeDtypeStruct((2,), np.float32)}


def known(fn, row=ROW):
    return known_of(BatchFunction(fn)._program(row, 1, devices=1))


def scaled(factor, *, offset=0):
    return lambda x: x * factor + offset


def by_global(x):
    return x * SCALE


@jax.jit
def by_helper(x):
    return jnp.sin(by_global(x))


class Scaled:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return x * self.factor


LONG = np.arange(2000, dtype=np.float32).reshape(1000, 2)
CHANGED_LONG = np.where(np.arange(2000).reshape(1000, 2) == 1234, 0, LONG)

OTHERS = {
    "its code": (lambda x: x + 2, lambda x: x - 2),
    "a constant": (lambda x: x * 2, lambda x: x * 3),
    "a sign of zero": (lambda x: x * 0.0, lambda x: x * -0.0),
    "the last bit of a constant": (scaled(1.0), scaled(np.nextafter(np.float32(1), np.float32(2)))),
    "the type of the result": (lambda x: x.astype(np.int8), lambda x: x.astype(np.int16)),
    "a bound number": (scaled(2), scaled(3)),
    "a bound array": (scaled(np.float32([[1, 2]])), scaled(np.float32([[1, 3]]))),
    "a bound array of jax": (scaled(jnp.float32([[1, 2]])), scaled(jnp.float32([[1, 3]]))),
    "an element of a long array": tuple(
        (lambda x, a=a: x + jnp.sin(a).sum(0, keepdims=True)) for a in (LONG, CHANGED_LONG)
    ),
    "an attribute of an object": (Scaled(2), Scaled(3)),
    "behind jit and vmap": (jax.jit(jax.vmap(scaled(2))), jax.jit(jax.vmap(scaled(3)))),
    "a partial": (partial(jnp.power, 2.0), partial(jnp.power, 3.0)),
    "random numbers": tuple(
        (lambda x, seed=seed: x + jax.random.normal(jax.random.key(seed), x.shape)) for seed in (0, 1)
    ),
    "the order of operands": (lambda x: x[:, 0] - x[:, 1], lambda x: x[:, 1] - x[:, 0]),
}


@pytest.mark.parametrize(("one", "other"), OTHERS.values(), ids=OTHERS)
def test_another_program_is_seen(one, other):
    assert known(one) != known(other)
    assert known(one) == known(one)


@pytest.mark.parametrize("fn", [by_global, by_helper, lambda x: jax.vmap(by_global)(x)])
def test_a_global_is_seen_however_it_is_reached(fn, monkeypatch):
    before = known(fn)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    jax.clear_caches()  # a new process has none
    assert known(fn) != before


def named(x):
    return jnp.where(x > 0, x, jax.jit(scaled(2))(x))


def renamed(x):
    # elsewhere, with other names inside
    def inner(y):
        return y * 2 + 0

    return jnp.where(x > 0, x, jax.jit(inner)(x))


SAME = {
    "made again": lambda: scaled(np.float32(2), offset=np.float32(1)),
    "an object": lambda: Scaled(2.0),
    "callbacks": lambda: lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x),
    "printed": lambda: lambda x: (jax.debug.print("{}", x), x)[1],
}


@pytest.mark.parametrize("make", SAME.values(), ids=SAME)
def test_the_same_function_made_again_is_the_same(make):
    assert known(make()) == known(make())


def test_names_and_places_do_not_count():
    assert known(named) == known(renamed)


@pytest.mark.parametrize("name", ["$1", "0", "main", "a b"])
def test_names_like_those_that_symbols_get(name):
    def twice(x):
        return jax.jit(inner)(x) + jax.jit(other)(x)

    def inner(x):
        return jnp.sin(x)

    def other(x):
        return jnp.cos(x)

    before = known(twice)
    inner.__name__ = other.__name__ = name
    jax.clear_caches()
    assert known(twice) == before


PROGRAM = """
import sys, jax
jax.config.update("jax_num_cpu_devices", int(sys.argv[1]))
import numpy as np, dml_jax
from dml_jax.batch import BatchFunction
from dml_jax.batch.program_identity import known_of
table = {"b": 2.0, "a": np.arange(100, dtype=np.float32)}
def fn(x):
    return dml_jax.depth_to_space(x, 2) * sum(v.sum() for v in table.values() if isinstance(v, np.ndarray)) * table["b"]
print(known_of(BatchFunction(fn)._program({0: jax.ShapeDtypeStruct((8, 2, 2), np.float32)}, 1, devices=1)))
"""


def test_every_process_finds_the_same():
    """Whatever its hashes of strings and its number of devices are."""
    runs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM, str(count)],
            env={**environment(), "PYTHONHASHSEED": str(count)},
            check=True,
            capture_output=True,
            text=True,
        )
        for count in (1, 5)
    ]
    assert runs[0].stdout == runs[1].stdout
    assert "stablehlo.multiply" in runs[0].stdout


# Jobs.


def interrupted(fn, out, **options):
    def stop(now):
        if now.rows >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        map_batches(fn, X, out, progress=stop, **{"batch_size": 2, **options})


def test_a_job_that_reads_another_global_does_not_go_on(tmp_path, monkeypatch):
    """It says which number has changed; `restart` begins again, and with the old number it goes on."""
    out = tmp_path / "out.npy"
    interrupted(by_global, out)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    changed = r"program.constants\[0\] was 'dense<2.0.* and is 'dense<3.0.*; undo this change .* or .* restart=True"
    with pytest.raises(BatchError, match=changed):
        map_batches(by_global, X, out)
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    assert map_batches(by_global, X, out, batch_size=50).resumed >= 4
    np.testing.assert_array_equal(np.load(out), 2 * X)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    interrupted(by_global, out, overwrite=True)
    map_batches(lambda x: -x, X, out, restart=True, overwrite=True)
    np.testing.assert_array_equal(np.load(out), -X)


@pytest.mark.parametrize("size", [2, 50])
@pytest.mark.parametrize("interrupt", [False, True])
def test_a_jitted_function_reads_its_global_again(size, interrupt, tmp_path, monkeypatch):
    """As in a new process: JAX keeps a trace for each shape, so a batch of another size would have another number."""
    out = tmp_path / "out.npy"
    if interrupt:
        interrupted(by_helper, out)
    else:
        map_batches(by_helper, X, out, batch_size=2)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    if interrupt:
        with pytest.raises(BatchError, match=r"program.constants\[0\] was 'dense<2.0.* and is 'dense<3.0"):
            map_batches(by_helper, X, out, batch_size=size)
    map_batches(by_helper, X, out, batch_size=size, overwrite=True, restart=True)
    np.testing.assert_allclose(np.load(out), np.sin(3 * X), atol=1e-5)


def test_a_tree_of_shared_arrays_is_that_of_the_beginning(tmp_path):
    def dense(x, *, layer):
        return x @ layer["w"] + layer["b"]

    out, layer = tmp_path / "out.npy", {"w": np.float32([[1, 2], [3, 4]]), "b": np.float32([[5, 6]])}
    interrupted(dense, out, shared={"layer": layer})
    with pytest.raises(BatchError, match=r"inputs\[1\].crc32 was \d+ and is \d+; undo"):
        map_batches(dense, X, out, shared={"layer": {**layer, "b": layer["b"] + 1}})
    assert map_batches(dense, X, out, shared={"layer": layer}).resumed >= 4
    np.testing.assert_array_equal(np.load(out), X @ layer["w"] + layer["b"])


def test_an_identity_with_nan_goes_on(tmp_path):
    out = tmp_path / "out.npy"
    interrupted(by_global, out, identity={"fill": np.nan})
    with pytest.raises(BatchError, match=r"identity.fill was nan and is 0"):
        map_batches(by_global, X, out, identity={"fill": 0})
    assert map_batches(by_global, X, out, identity={"fill": np.nan}).resumed >= 4


def test_the_difference_is_told_in_few_words(tmp_path):
    out = tmp_path / "out.npy"
    interrupted(lambda x: jnp.sin(x), out)
    with pytest.raises(BatchError, match=r"stablehlo.cosine was None and is 1; .*stablehlo.sine was 1 and is None"):
        map_batches(lambda x: jnp.cos(x), X, out)
    many = lambda x: jnp.stack([x[:, 0] * i for i in range(2, 90)])[-1][:, None] + jnp.sort(x)  # noqa: E731
    with pytest.raises(BatchError, match=r"program.constants was \[\] and is .*; and \d+ more; undo") as caught:
        map_batches(many, X, out)
    assert len(str(caught.value)) < 3000


def test_devices_and_batch_sizes_may_differ(tmp_path):
    out = tmp_path / "out.npy"
    interrupted(by_global, out)
    with jax.default_device(jax.devices("cpu")[2]):
        assert map_batches(by_global, X, out, batch_size=30).resumed >= 4
    np.testing.assert_array_equal(np.load(out), 2 * X)


def test_a_function_of_batches_of_one_size_goes_on(tmp_path):
    def fixed(x):
        return 2 * x.reshape(4, 2)

    def other(x):
        return 3 * x.reshape(4, 2)

    out = tmp_path / "out.npy"
    with jax.default_device(jax.devices("cpu")[0]):
        interrupted(fixed, out, batch_size=4)
        with pytest.raises(BatchError, match="program"):
            map_batches(other, X, out, batch_size=4)
        assert map_batches(fixed, X, out, batch_size=4).resumed >= 4
    np.testing.assert_array_equal(np.load(out), 2 * X)


def test_programs_of_another_version_of_jax_are_not_compared(tmp_path, monkeypatch):
    """They differ where nobody has changed anything."""
    out = tmp_path / "out.npy"
    interrupted(by_global, out)
    monkeypatch.setattr(jax, "__version__", "0.0.1")
    with pytest.raises(BatchError, match="identity was None and is 1; undo"):
        map_batches(by_helper, X, out, identity=1)
    assert map_batches(lambda x: 2 * x, X, out).resumed >= 4
