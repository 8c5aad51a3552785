"""benchmarks.programs: equal programs compare equal however they are divided into functions, others do not."""

import shutil
from base64 import b64decode, b64encode
from pathlib import Path

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.mlir import ir
from jax.interpreters import mlir

import dml_jax
from benchmarks import programs

X = jax.ShapeDtypeStruct((3,), "float32")


def scaled(x, by=2.0):
    return jnp.sin(x) * by


def renamed(x):
    return scaled(x)


INNER = {"called": jax.jit(scaled), "renamed": jax.jit(renamed), "nested": jax.jit(lambda x: jax.jit(renamed)(x))}
OTHER = {
    "constant": lambda x: scaled(x, 3.0),
    "function": lambda x: jnp.cos(x) * 2.0,
    "operand": lambda x: jnp.sin(2.0 * x),
}
OUTER = {
    "twice": lambda inner: lambda x: inner(inner(x)) - inner(x),
    "while": lambda inner: lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, inner(c[1])), (0, x))[1],
    "case": lambda inner: lambda x: lax.cond(x[0] > 0, inner, lambda x: inner(x) + 1, x),
    "called": lambda inner: jax.jit(lambda x: jnp.where(x > 0, inner(x), x)),
    "composite": lambda inner: lambda x: lax.composite(lambda x: inner(x), "dml_jax.test")(x),
    "gradient": lambda inner: jax.grad(lambda x: inner(x).sum()),
}


def lines(function, *arrays, **options):
    text = jax.export.export(jax.jit(function, **options), platforms=["cuda"])(*(arrays or [X])).mlir_module()
    with mlir.make_ir_context():
        return programs.canonical(ir.Module.parse(text))


@pytest.mark.thinned
@pytest.mark.parametrize("outer", OUTER.values(), ids=OUTER)
@pytest.mark.parametrize("inner", INNER.values(), ids=INNER)
def test_functions_and_their_names_make_no_difference(inner, outer):
    assert lines(outer(inner)) == lines(outer(scaled))


@pytest.mark.thinned
@pytest.mark.parametrize("outer", OUTER.values(), ids=OUTER)
@pytest.mark.parametrize("other", OTHER.values(), ids=OTHER)
def test_what_they_do_makes_one(other, outer):
    assert lines(outer(jax.jit(other))) != lines(outer(jax.jit(scaled)))


LONG = np.arange(2000, dtype=np.float32)
DIFFERENT = {
    "order of operands": (lambda x, y: x - y, lambda x, y: y - x),
    "order of results": (lambda x, y: (x + 1, y), lambda x, y: (y, x + 1)),
    "which argument": (lambda x, y: jnp.sin(x) + 0 * y, lambda x, y: jnp.sin(y) + 0 * x),
    "attribute": (lambda x, y: x[::2], lambda x, y: x[:2]),
    "type": (lambda x, y: x.astype("float16"), lambda x, y: x.astype("bfloat16")),
    "region": (lambda x, y: lax.reduce_max(x, (0,)), lambda x, y: lax.reduce_min(x, (0,))),
    "long constant": (lambda x, y: LONG, lambda x, y: np.where(LONG == 1999, np.float32(0), LONG)),
}


@pytest.mark.parametrize("pair", DIFFERENT.values(), ids=DIFFERENT)
def test_every_part_counts(pair):
    first, second = (lines(function, X, X) for function in pair)
    assert first == lines(pair[0], X, X)
    assert first != second


def test_a_donated_argument_counts():
    assert lines(scaled, donate_argnums=0) != lines(scaled)


def test_the_list_passes_to_another_process_and_this_package_exports_it():
    found = programs.listed("1 KiB") + programs.listed("GATHER_ND FLOAT64 padded") + programs.listed("batch_dims")
    found += programs.listed("bfloat16 8 MiB, forward") + programs.listed("activate relu")
    assert {"gather", "cast", "activate"} <= {program.operator for program in found}
    assert [programs.from_line(programs.as_line(program)) for program in found] == found
    assert len({program.name for program in found}) == len(found) >= 10
    assert {"forward", "gradient", "buffers"} <= {program.way for program in found}
    for program in found:
        assert len(programs.exported(program, "cuda")) > 3


def test_a_tree_that_has_a_class_in_another_module_reads_it():
    relu = dml_jax.Activation("ACTIVATION_RELU")
    program = programs.Program("relu", "call", "activate", {"activation": relu}, (((3,), "float32"),), False)
    module = relu.__class__.__module__.encode()
    line = b64encode(b64decode(programs.as_line(program)).replace(module, module[:-3] + b"xyz"))
    assert programs.from_line(line) == program


def test_what_has_no_array_is_not_mapped():
    assert [program.way for program in programs.listed("fill_value_constant uint8 8 MiB")] == ["forward"]


def test_forms_of_platforms_differ():
    (program,) = programs.listed("rows of 1024 bytes uint8 random 8 MiB, forward")
    assert programs.exported(program, "cpu") != programs.exported(program, "cuda")


# One operator computes something else, another is gone.
CHANGED = """
from .operators import gather_nd as _rest
def gather_nd(*args, **given): return -_rest(*args, **given)
from . import operators
del operators.scatter_nd
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize(("change", "status"), [("", 0), (CHANGED, 1)], ids=["unchanged", "changed"])
def test_trees_are_compared(change, status, tmp_path, capfd):
    shutil.copytree(Path(dml_jax.__file__).parent, tmp_path / "dml_jax")
    with open(tmp_path / "dml_jax" / "__init__.py", "a") as file:
        file.write(change)
    assert programs.compared(tmp_path, "rows of 16 bytes float32 1 KiB") == status  # of both
    output = capfd.readouterr().out
    assert f"4 programs compared, {4 * status} differ" in output
    assert ("stablehlo.negate" in output) == ("has no attribute 'scatter_nd'" in output) == bool(status)


@pytest.mark.exhaustive
def test_bad_usage(tmp_path, capfd):
    with pytest.raises(SystemExit) as caught:
        programs.main(["no-such-commit"])
    assert caught.value.code == 2
    assert "no-such-commit" in capfd.readouterr().err
    assert programs.compared(tmp_path, "no such program") == 2
