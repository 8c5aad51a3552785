"""A function that was edited is another job: its fingerprint changes with it, and with nothing else."""

import subprocess
import sys
from functools import partial

import jax
import numpy as np
import pytest
from batch_jobs import ITEM, environment

from dml_jax.batch import BatchError, map_batches
from dml_jax.batch.function_code import code_of


def scaled(factor, *, offset=0):
    return lambda x: x * factor + offset


def with_default(factor):
    def function(x, factor=factor):
        return x * factor

    return function


def recursive(factor):
    def function(x, depth=2):
        return function(x, depth - 1) * factor if depth else x

    return function


class Scaled:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return x * self.factor

    def method(self, x):
        return x * self.factor


def multiplied(x, factor):
    return x * factor


EDITED = {
    "its code": (lambda x: x + 2, lambda x: x - 2),
    "a constant": (lambda x: x * 2, lambda x: x * 3),
    "a type of constant": (lambda x: x * 1, lambda x: x * 1.0),
    "a sign of zero": (lambda x: x * 0.0, lambda x: x * -0.0),
    "a name": (lambda x: np.sin(x), lambda x: np.cos(x)),
    "an inner function": (lambda x: (lambda y: y + 1)(x), lambda x: (lambda y: y + 2)(x)),
    "a set": (lambda x: x in {1, 2}, lambda x: x in {1, 3}),
    "a bound number": (scaled(2), scaled(3)),
    "a bound list": (scaled([2, {"a": 1}]), scaled([2, {"a": 2}])),
    "a bound function": (scaled(lambda: 2), scaled(lambda: 3)),
    "a default": (with_default(2), with_default(3)),
    "a function that calls itself": (recursive(2), recursive(3)),
    "behind jit and vmap": (jax.jit(jax.vmap(scaled(2))), jax.jit(jax.vmap(scaled(3)))),
    "a partial": (partial(multiplied, factor=2), partial(multiplied, factor=3)),
    "a method": (Scaled(2).method, Scaled(2)),
}


@pytest.mark.parametrize(("before", "after"), EDITED.values(), ids=EDITED)
def test_an_edit_is_seen(before, after):
    assert code_of(before) != code_of(after)
    assert code_of(before) == code_of(before)


SAME = {
    "bound anew": lambda: scaled(np.float32(2), offset=(1, "a")),
    "calls itself": lambda: recursive(2),
    "an object": lambda: Scaled(object()),
    "a bound object": lambda: scaled(object()),
    "a builtin": lambda: np.sin,
    "jax.numpy": lambda: jax.numpy.sin,
}


@pytest.mark.parametrize("make", SAME.values(), ids=SAME)
def test_the_same_function_made_again_has_the_same_code(make):
    assert code_of(make()) == code_of(make())


def test_every_process_finds_the_same_code():
    """Whatever its hashes of strings are, and however often it has run the function."""
    text = """
from dml_jax.batch.function_code import code_of
def made(factor):
    return lambda x: {"a": 1, "b": factor}[x] if x in {"a", "b", "c"} else [x for _ in range(factor)]
fn = made(3)
for _ in range(%d):
    fn("a")
print(code_of(fn))
"""
    runs = [
        subprocess.run(
            [sys.executable, "-c", text % count],
            env={**environment(), "PYTHONHASHSEED": str(count)},
            check=True,
            capture_output=True,
            text=True,
        )
        for count in (1, 5000)
    ]
    assert runs[0].stdout == runs[1].stdout
    assert len(runs[0].stdout) > 16


def test_an_edited_lambda_does_not_continue_the_job_of_the_other(tmp_path):
    array, out = np.ones((8, *ITEM), np.float32), tmp_path / "out.npy"

    def stop(now):
        if now.rows >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        map_batches(scaled(2), array, out, batch_size=2, progress=stop)
    with pytest.raises(
        BatchError, match=r"function_code was '.*' and is '.*'; undo .* or start over with restart=True"
    ):
        map_batches(scaled(3), array, out, batch_size=2)
    map_batches(scaled(3), array, out, batch_size=2, restart=True)
    np.testing.assert_array_equal(np.load(out), 3 * array)
