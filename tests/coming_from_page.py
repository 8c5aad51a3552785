"""Tables of docs/coming_from.md and its pages, and runners of their lines: dml_jax, loops, or the other library."""

import doctest
import os
import re
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from catalogue_cases import ORACLES
from checks import assert_same_bits, bits

os.environ.setdefault("KERAS_BACKEND", "jax")  # before TensorFlow, which may import Keras

DOCS = Path(__file__).parents[1] / "docs"
FILES = [DOCS / "coming_from.md", *sorted(DOCS.glob("coming_from/*.md"))]
TEXT = "\n".join(file.read_text(encoding="utf-8") for file in FILES)


class Table(NamedTuple):
    """A table of a page."""

    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


def tables():
    """The tables of the pages."""
    found, table = [], []
    for line in [*TEXT.splitlines(), ""]:
        if line.startswith("|"):
            table.append(tuple(cell.strip() for cell in line[1:-1].split("|")))
        elif table:
            header, _, *rows = table
            found.append(Table(header, rows))
            table = []
    return found


TABLES = tables()
INDEX_VALUES = [t for t in TABLES if t.header[1] in ("read", "write")]
INDEX_TYPES = [t for t in TABLES if t.header[1] == "index types"]
EQUIVALENTS = [t for t in TABLES if t.header[1:] == ("here",)]
OUTCOMES = [t for t in TABLES if t.header[1:] == ("gives", "here", "gives")]
METHODS = [t for t in TABLES if t.header == ("DirectMLX", "GraphBuilder", "what differs")]
DESCRIPTORS = [t for t in TABLES if t.header == ("descriptor", "function")]


def code(cell):
    """The code that fills a cell, behind the sign of equal but for the last bits; None for a cell without."""
    assert cell.count("`") in (0, 2), cell
    match = re.fullmatch("(?:≈ )?`(.+)`", cell)
    assert match or "`" not in cell, cell
    return match and match[1]


def defined():
    """The names that blocks of the pages define: arrays, and our functions."""
    names = {}
    for example in doctest.DocTestParser().get_examples(TEXT):
        exec(example.source, names)
    return names


NAMES = defined()
ARRAYS = {name: value for name, value in NAMES.items() if isinstance(value, np.ndarray)}


def onnx_names(_):
    import onnx_building as building  # skips where ONNX Runtime is not installed

    def operator(schema):
        def run(*inputs, **attributes):
            given = {f"input{n}": np.asarray(array) for n, array in enumerate(inputs) if array is not None}
            # Of Split, which has no limit, as many as its sizes.
            count = schema.max_output if schema.max_output < 9 else len(inputs[1])
            outputs = [f"output{n}" for n in range(count)]
            names = ["" if array is None else f"input{n}" for n, array in enumerate(inputs)]
            node = building.helper.make_node(schema.name, names, outputs, **attributes)
            results = building.runtime(building.model([node], given, outputs), given)
            return results if count > 1 else results[0]

        return run

    return {schema.name: operator(schema) for schema in building.onnx.defs.get_all_schemas()}


def torch_names(arrays):
    torch = pytest.importorskip("torch")
    return {"torch": torch, "F": torch.nn.functional} | {
        name: torch.from_numpy(array) for name, array in arrays.items()
    }


def pyg_names(arrays):
    utils = pytest.importorskip("torch_geometric.utils")
    return {"scatter": utils.scatter, "softmax": utils.softmax} | torch_names(arrays)


def tensorflow_names(arrays):
    tf = pytest.importorskip("tensorflow")
    tf.config.set_visible_devices([], "GPU")  # where it has other rules
    return {"tf": tf} | {name: tf.constant(array) for name, array in arrays.items()}


def keras_names(arrays):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        keras = pytest.importorskip("keras")
    if keras.backend.backend() != "jax":
        pytest.skip("the lines are for Keras on JAX")
    if not hasattr(keras.ops, "depth_to_space"):
        pytest.skip("Keras has depth_to_space from 3.14 on")
    return {"keras": keras} | {name: jnp.asarray(array) for name, array in arrays.items()}


def scipy_names(_):
    from scipy import ndimage, signal, special

    return {"ndimage": ndimage, "signal": signal, "special": special}


def jax_names(arrays):
    # Indices stay NumPy's, so that it is JAX's functions that narrow them.
    kept = {name: jnp.asarray(array) for name, array in arrays.items() if name != "at"}
    return {"jax": jax, "jnp": jnp, "lax": jax.lax} | kept


LIBRARIES = {
    "torch": torch_names,
    "TensorFlow": tensorflow_names,
    "ONNX": onnx_names,
    "NumPy": lambda _: {},
    "JAX": jax_names,
}
# With tables of some functions only.
ALL_LIBRARIES = LIBRARIES | {"Keras": keras_names, "PyG": pyg_names, "SciPy": scipy_names}


def written(oracle):
    """A scatter's oracle as a function: without a reduction, no element of the page's examples has two updates."""

    def scattered(input, *operands, reduction=None, **attributes):
        found = oracle(input, *operands, reduction=reduction, **attributes)
        if reduction:
            return found
        output = input.copy()
        for at, updates in found.items():
            assert len(updates) <= 1
            output[at] = [output[at], *updates][-1]
        return output

    return scattered


def unpooled(input, indices, output_sizes):
    """The oracle of max_unpooling as a function: no two elements of the page's examples go to one place."""
    output = np.empty(output_sizes, input.dtype)
    for at, candidates in ORACLES["max_unpooling"](input, indices, output_sizes).items():
        (output[at],) = candidates
    return output


def vmap(function):
    return lambda *batches: np.stack([function(*items) for items in zip(*batches, strict=True)])


BY_ELEMENTS = {name: written(oracle) if name.startswith("scatter") else oracle for name, oracle in ORACLES.items()}
BY_ELEMENTS["max_unpooling"] = unpooled
BY_ELEMENTS["jax"] = SimpleNamespace(vmap=vmap)


def copies(**more):
    """The arrays, as no one has written to them."""
    return {name: array.copy() for name, array in (ARRAYS | more).items()}


def here(source, **more):
    """The value of one of our expressions; its operands stay as they are."""
    arrays = copies(**more)
    result = eval(source, NAMES | arrays)
    for name, array in arrays.items():
        assert_same_bits(array, (ARRAYS | more)[name])
    return result


def by_elements(source, **more):
    """The value of one of our expressions, by loops over elements."""
    return eval(source, NAMES | copies(**more) | BY_ELEMENTS)


def executed(source, names):
    """The value of an expression; None for a statement."""
    try:
        expression = compile(source, "coming_from.md", "eval")
    except SyntaxError:
        return exec(source, names)
    return eval(expression, names)


def there(library, source, **more):
    """The result of a line in a library: an expression's value, or the array that a statement writes to."""
    arrays = copies(**more)
    names = {"np": np} | arrays | ALL_LIBRARIES[library](arrays)
    before = {name: np.asarray(names[name]).copy() for name in arrays}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = executed(source, names)
    if result is not None:
        return result
    written = [name for name in arrays if bits(names[name]).tobytes() != bits(before[name]).tobytes()]
    assert len(written) == 1, f"{source} writes to {written}"
    return names[written[0]]


def outcome(library, source, **more):
    """The result of a library, or ours, or the name of the exception."""
    try:
        return np.asarray(here(source, **more) if library == "here" else there(library, source, **more))
    except Exception as error:
        return type(error).__name__


def skip_without(library):
    """Skips where a library is not installed."""
    if library != "here":
        ALL_LIBRARIES[library]({})


def all_hold(check, cases):
    """Raises if a check fails, naming every case that does."""
    failed = []
    for case in cases:
        try:
            check(*case)
        except Exception as error:
            failed.append(f"{case}: {type(error).__name__}: {error}")
    if failed:
        raise AssertionError("\n".join(failed))


def library_of(table):
    """The library of a table."""
    return table.header[0]


def lines(kinds, library=None):
    """The rows of some tables, of one library or of all."""
    return [row for table in kinds for row in table.rows if library in (None, library_of(table))]
