"""docs/coming_from.md: every line of its tables is executed, against loops over elements and against the libraries."""

import doctest
import inspect
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

import dml_jax
from dml_jax.catalogue import STRUCTS

os.environ.setdefault("KERAS_BACKEND", "jax")  # before TensorFlow, which may import Keras

PAGE = (Path(__file__).parents[1] / "docs" / "coming_from.md").read_text(encoding="utf-8")
SECTIONS = (
    *("torch", "TensorFlow", "Keras", "ONNX Runtime", "DirectMLX and DirectML", "Functions of DirectMLX"),
    *("NumPy", "jax.numpy and jax.lax"),
)
OURS = ("gather", "gather_elements", "gather_nd", "scatter_elements", "scatter_nd", "depth_to_space", "space_to_depth")
STRIDED = ("as_strided", "as_strided_scatter")


class Table(NamedTuple):
    """A table of the page, under a heading."""

    section: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


def tables():
    """The tables of the page."""
    found, section, table = [], "", []
    for line in [*PAGE.splitlines(), ""]:
        if line.startswith("#"):
            section = line.lstrip("# ")
        if line.startswith("|"):
            table.append(tuple(cell.strip() for cell in line[1:-1].split("|")))
        elif table:
            header, _, *rows = table
            found.append(Table(section, header, rows))
            table = []
    return found


TABLES = tables()
AT_A_GLANCE = [t for t in TABLES if t.section == "Indices at a glance"]
INDEX_VALUES = [t for t in AT_A_GLANCE if t.header[1] in ("read", "write")]
INDEX_TYPES = [t for t in AT_A_GLANCE if t.header[1] == "index types"]
EQUIVALENTS = [t for t in TABLES if t.header[1:] == ("here", "what differs")]
OUTCOMES = [t for t in TABLES if t.header[1:] == ("gives", "here", "gives")]
DIRECTMLX = [t for t in TABLES if t.header == ("DirectMLX", "struct", "descriptor", "function")]
METHODS = [t for t in TABLES if t.header == ("DirectMLX", "GraphBuilder", "what differs")]
DESCRIPTORS = [t for t in TABLES if t.header == ("descriptor", "function")]


def code(cell):
    """The code that fills a cell; None for a cell without."""
    assert cell.count("`") in (0, 2), cell
    match = re.fullmatch("`(.+)`", cell)
    assert match or "`" not in cell, cell
    return match and match[1]


def defined():
    """What the blocks of the page define: the arrays, and our functions."""
    names = {}
    for example in doctest.DocTestParser().get_examples(PAGE):
        exec(example.source, names)
    return names


NAMES = defined()
ARRAYS = {name: value for name, value in NAMES.items() if isinstance(value, np.ndarray)}


def onnx_names(_):
    import onnx_building as building  # skips where ONNX Runtime is not installed

    def operator(name):
        def run(*inputs, **attributes):
            given = {f"input{n}": array for n, array in enumerate(inputs)}
            node = building.helper.make_node(name, [*given], ["output"], **attributes)
            return building.runtime(building.model([node], given, ["output"]), given)[0]

        return run

    names = ("Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND", "DepthToSpace", "SpaceToDepth")
    return {name: operator(name) for name in names}


def torch_names(arrays):
    torch = pytest.importorskip("torch")
    return {"torch": torch} | {name: torch.from_numpy(array) for name, array in arrays.items()}


def pyg_names(arrays):
    utils = pytest.importorskip("torch_geometric.utils")
    return {"scatter": utils.scatter} | torch_names(arrays)


def tensorflow_names(arrays):
    tf = pytest.importorskip("tensorflow")
    tf.config.set_visible_devices([], "GPU")  # where it has other rules
    return {"tf": tf} | {name: tf.constant(array) for name, array in arrays.items()}


def keras_names(arrays):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        keras = pytest.importorskip("keras")
    if keras.backend.backend() != "jax":
        pytest.skip("the page is about Keras on JAX")
    if not hasattr(keras.ops, "depth_to_space"):
        pytest.skip("Keras has depth_to_space from 3.14 on")
    return {"keras": keras} | {name: jnp.asarray(array) for name, array in arrays.items()}


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
# With a table of a few functions only.
ALL_LIBRARIES = LIBRARIES | {"Keras": keras_names, "PyG": pyg_names}


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


def vmap(function):
    return lambda *batches: np.stack([function(*items) for items in zip(*batches, strict=True)])


BY_ELEMENTS = {name: written(oracle) if name.startswith("scatter") else oracle for name, oracle in ORACLES.items()}
BY_ELEMENTS["jax"] = SimpleNamespace(vmap=vmap)


def copies(**more):
    """The arrays, as no one has written to them."""
    return {name: array.copy() for name, array in (ARRAYS | more).items()}


def here(source, **more):
    """What an expression of ours gives; its operands stay as they are."""
    arrays = copies(**more)
    result = eval(source, NAMES | arrays)
    for name, array in arrays.items():
        assert_same_bits(array, (ARRAYS | more)[name])
    return result


def by_elements(source, **more):
    """What an expression of ours gives by loops over elements."""
    return eval(source, NAMES | copies(**more) | BY_ELEMENTS)


def executed(source, names):
    """The value of an expression; None for a statement."""
    try:
        expression = compile(source, "coming_from.md", "eval")
    except SyntaxError:
        return exec(source, names)
    return eval(expression, names)


def there(library, source, **more):
    """What a line of a library gives: the value of an expression, or the array that a statement writes to."""
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
    """The library of a section's tables."""
    return table.header[0]


def lines(kinds, library=None):
    """The rows of some tables, of one library or of all."""
    return [row for table in kinds for row in table.rows if library in (None, library_of(table))]


def test_every_table_is_of_a_kind_that_is_executed():
    kinds = [*INDEX_VALUES, *INDEX_TYPES, *EQUIVALENTS, *OUTCOMES, *DIRECTMLX, *METHODS, *DESCRIPTORS]
    assert sorted(kinds) == sorted(TABLES)
    one_each = (INDEX_TYPES, DIRECTMLX, METHODS, DESCRIPTORS)
    assert [len(kind) for kind in (INDEX_VALUES, EQUIVALENTS, *one_each)] == [2, 7, 1, 1, 1, 1]
    assert tuple(dict.fromkeys(t.section for t in TABLES)) == ("Indices at a glance", *SECTIONS)
    assert {library_of(t) for t in [*EQUIVALENTS, *OUTCOMES]} == {*ALL_LIBRARIES}
    assert {row[0] for row in lines(AT_A_GLANCE)} == {"here", *LIBRARIES}
    for table in TABLES:
        assert {len(row) for row in table.rows} == {len(table.header)}, table.section


@pytest.mark.parametrize("table", [t for t in EQUIVALENTS if library_of(t) in LIBRARIES], ids=library_of)
def test_a_section_has_every_function_and_says_where_there_is_no_equivalent(table):
    ours = " ".join(code(row[1]) or "" for row in table.rows)
    assert [name for name in (*OURS, *STRIDED) if not re.search(rf"\b{name}\(", ours)] == []
    for row in table.rows:
        assert all(code(cell) or cell == "none" for cell in row[:2]), row
        assert code(row[0]) or code(row[1]), row


def test_code_that_words_mention_is_in_a_line_that_is_executed():
    """An option such as `reduction="add"`, or a statement: a recipe in words alone is tested by nothing."""
    prose = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL).splitlines()
    words = [line for line in prose if not line.startswith("|")] + [row[2] for row in lines(EQUIVALENTS)]
    mentioned = {text for text in re.findall(r"`([^`]+=[^`]+)`", "\n".join(words)) if "..." not in text}
    assert mentioned > {'order="CRD"', "jit_compile=True"}
    executed = " ".join(cell for row in lines(TABLES) for cell in row if re.fullmatch("`[^`]+`", cell))
    assert {text for text in mentioned if text not in executed} == set()


def equivalents_of_ours():
    return [source for row in lines(EQUIVALENTS) if (source := code(row[1]))]


@pytest.mark.thinned(2)
@pytest.mark.parametrize("source", dict.fromkeys(equivalents_of_ours()))
def test_a_line_of_ours_is_what_loops_over_elements_give(source):
    assert_same_bits(here(source), by_elements(source))


@pytest.mark.parametrize("library", ALL_LIBRARIES)
def test_a_library_has_the_bits_of_the_equivalent(library):
    def same(theirs, ours):
        result = there(library, theirs)
        if ours:
            assert_same_bits(result, by_elements(ours))

    cases = [(source, code(ours)) for theirs, ours, _ in lines(EQUIVALENTS, library) if (source := code(theirs))]
    assert len(cases) > (10 if library in LIBRARIES else 0)
    skip_without(library)
    all_hold(same, cases)


@pytest.mark.parametrize("library", ["here", *LIBRARIES])
def test_an_index_means_what_the_first_tables_say(library):
    def means(source, value, expected):
        at = np.array([eval(value)])
        result = outcome(library, source, at=at)
        if isinstance(expected, str):
            assert result == expected
        else:
            assert_same_bits(result, expected)
        if library == "here":
            assert_same_bits(by_elements(source, at=at), expected)

    cases = [
        (code(source), value, code(error) if cell == "error" else np.array(cell.split(), np.float32))
        for table in INDEX_VALUES
        for name, source, *cells, error in table.rows
        if name == library
        for value, cell in zip(table.header[2:-1], cells, strict=True)
    ]
    assert cases
    skip_without(library)
    all_hold(means, cases)


def accepted(result):
    """Whether an index type is taken, told by what it reads of `v` at (1, 0, 1)."""
    if isinstance(result, str):
        return "no"
    return {(11, 10, 11): "yes", (10, 12): "mask"}[tuple(result.tolist())]


@pytest.mark.parametrize("library", ["here", *LIBRARIES])
def test_an_index_type_means_what_the_first_tables_say(library):
    def means(source, dtype, cell):
        assert accepted(outcome(library, source, at=np.array([1, 0, 1], dtype))) == cell

    cases = [
        (code(source), dtype, cell)
        for table in INDEX_TYPES
        for name, source, *cells in table.rows
        if name == library
        for dtype, cell in zip(table.header[2:], cells, strict=True)
    ]
    assert cases
    skip_without(library)
    all_hold(means, cases)


@pytest.mark.parametrize("library", ["here", *map(library_of, OUTCOMES)])
def test_the_rest_is_as_stated(library):
    def gives(source, expected):
        result = outcome(library, source)
        assert isinstance(result, str) == expected.endswith("Error")
        if isinstance(result, str):
            assert result == expected
        else:
            np.testing.assert_array_equal(result, eval(expected))

    cells = [
        row[2:] if library == "here" else row[:2] for row in lines(OUTCOMES, None if library == "here" else library)
    ]
    cases = [(source, code(expected)) for line, expected in cells if (source := code(line))]
    assert cases
    skip_without(library)
    all_hold(gives, cases)


def in_words(name):
    """gather_nd as DirectMLX's GatherND."""
    return "".join("ND" if word == "nd" else word.capitalize() for word in name.split("_"))


def in_directmlx(cls):
    """The parameters of DirectMLX's function: all fields but the output, without the suffix Tensor."""
    names = [name.removesuffix("Tensor") for field, name in cls.directml_names().items() if field != "output"]
    return [name[0].lower() + name[1:] for name in names]


@pytest.mark.parametrize("row", lines(DIRECTMLX), ids=lambda row: row[2].strip("`"))
def test_the_names_of_directml_are_those_of_the_descriptor(row):
    call, struct, descriptor, function = (code(cell) for cell in row)
    cls = getattr(dml_jax, descriptor)
    assert STRUCTS[struct.removeprefix("DML_").removesuffix("_OPERATOR_DESC")] is cls
    name, parameters = re.fullmatch(r"(\w+)\((.+)\)", function).groups()
    given = [parameter.rpartition("=") for parameter in parameters.split(", ")]
    bound = inspect.signature(getattr(dml_jax, name)).bind(
        *(value for key, _, value in given if not key), **{key: value for key, _, value in given if key}
    )
    assert all(value == key for key, value in bound.arguments.items())
    if call:
        operator, fields = re.fullmatch(r"dml::(\w+)\((.+)\)", call).groups()
        assert operator == in_words(name)
        assert fields.split(", ") == in_directmlx(cls)


# Of microsoft/DirectML, Libraries/DirectMLX.h of July 2025 (a9614e82): the functions that return expressions.
DIRECTMLX_FUNCTIONS = """
    InputTensor ConstantData Identity Abs ACos Add ASin ATan ATanYX Ceil Clip ClipGrad Cos Divide Exp Floor Log
    LogicalAnd Equals GreaterThan GreaterThanOrEqual LessThan LessThanOrEqual LogicalNot LogicalOr LogicalXor Max
    Mean Min Multiply Pow Recip Sin Sqrt DifferenceSquare Subtract Tan Threshold QuantizeLinear DequantizeLinear
    Sign IsNaN Erf Sinh Cosh Tanh ASinh ACosh ATanh If BitShiftLeft BitShiftRight BitAnd BitOr BitXor BitNot
    BitCount Round IsInfinity ModulusTruncate ModulusFloor ActivationElu ActivationHardmax ActivationHardSigmoid
    ActivationIdentity ActivationLeakyRelu ActivationLinear ActivationLogSoftmax ActivationParameterizedRelu
    ActivationParametricSoftplus ActivationRelu ActivationScaledElu ActivationScaledTanh ActivationSigmoid
    ActivationSoftmax ActivationGelu ActivationSoftplus ActivationSoftsign ActivationTanh ActivationThresholdedRelu
    ActivationShrink ActivationCelu Convolution Gemm Reduce AveragePooling MaxPooling Slice Cast Split Join Padding
    ValueScale2D Upsample2D Gather GatherElements GatherND ScatterElements ScatterND SpaceToDepth DepthToSpace Tile
    TopK BatchNormalization BatchNormalizationGrad BatchNormalizationTraining BatchNormalizationTrainingGrad
    MeanVarianceNormalization LocalResponseNormalization GRU OneHot Resample FillValueConstant FillValueSequence
    CumulativeSummation CumulativeProduct ReverseSubsequences ConvolutionInteger QuantizedLinearConvolution
    RandomGenerator NonZeroCoordinates ResampleGrad SliceGrad RoiAlign RoiAlignGrad Negate Dequantize Reinterpret
"""


def test_every_function_of_directmlx_has_its_method():
    methods = {code(row[0]).removeprefix("dml::"): code(row[1]) for row in lines(METHODS)}
    assert [*methods] == [*DIRECTMLX_FUNCTIONS.split(), "Graph::Compile"]
    assert {method for method in methods.values() if not hasattr(dml_jax.GraphBuilder, method)} == set()
    # The method of GatherND is gather_nd1, and that of IsNaN element_wise_is_nan.
    others = {"InputTensor": "input", "ConstantData": "constant", "Graph::Compile": "build"}
    unlike = {name: method for name, method in methods.items() if name.lower() not in method.replace("_", "")}
    assert unlike == others


def test_every_descriptor_that_is_named_exists_and_is_computed():
    classes = {code(row[2]) for row in lines(DIRECTMLX)}
    assert classes <= {cls.__name__ for cls in STRUCTS.values()}
    assert classes == {code(row[0]).partition("(")[0] for row in lines(DESCRIPTORS)}
    named = re.findall(r"\bDML_\w+_OPERATOR_DESC\b", PAGE)
    assert {name.removeprefix("DML_").removesuffix("_OPERATOR_DESC") for name in named} <= {*STRUCTS}
    orders = re.findall(r"\bDML_DEPTH_SPACE_ORDER_(\w+)", PAGE)
    assert orders
    assert {*orders} <= {*dml_jax.DepthSpaceOrder.__members__}


@pytest.mark.parametrize("row", lines(DESCRIPTORS), ids=lambda row: row[0].partition("(")[0].strip("`"))
def test_a_descriptor_computes_what_the_function_does(row):
    descriptor, function = map(code, row)
    expected = by_elements(function)
    assert_same_bits(here(descriptor), expected)
    assert_same_bits(here(function), expected)
