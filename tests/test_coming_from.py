"""docs/coming_from.md and its pages: every line is executed, against loops over elements and against the libraries."""

import re

import jax
import numpy as np
import pytest
from checks import assert_agrees, assert_same_bits
from coming_from_page import (
    ALL_LIBRARIES,
    DESCRIPTORS,
    EQUIVALENTS,
    INDEX_TYPES,
    INDEX_VALUES,
    LIBRARIES,
    METHODS,
    OUTCOMES,
    TABLES,
    TEXT,
    all_hold,
    by_elements,
    code,
    here,
    library_of,
    lines,
    outcome,
    skip_without,
    there,
)

import dml_jax
from dml_jax.catalogue import FUNCTIONS, STRUCTS

OURS = ("gather", "gather_elements", "gather_nd", "scatter_elements", "scatter_nd", "depth_to_space", "space_to_depth")
STRIDED = ("as_strided", "as_strided_scatter")


def test_every_table_is_of_a_kind_that_is_executed():
    kinds = [*INDEX_VALUES, *INDEX_TYPES, *EQUIVALENTS, *OUTCOMES, *METHODS, *DESCRIPTORS]
    assert sorted(kinds) == sorted(TABLES)
    assert [len(kind) for kind in (INDEX_VALUES, INDEX_TYPES, METHODS, DESCRIPTORS)] == [2, 1, 1, 1]
    assert {library_of(t) for t in [*EQUIVALENTS, *OUTCOMES]} == {*ALL_LIBRARIES}
    assert {row[0] for row in lines([*INDEX_VALUES, *INDEX_TYPES])} == {"here", *LIBRARIES}
    for table in TABLES:
        assert {len(row) for row in table.rows} == {len(table.header)}, table.header


def uses(name, sources):
    """Whether one of some expressions calls a function."""
    return any(re.search(rf"\b{name}\(", source) for source in sources)


def test_every_function_is_beside_a_call_of_another_library():
    beside = [ours for row in lines(EQUIVALENTS) if code(row[0]) and (ours := code(row[1]))]
    assert [name for name in FUNCTIONS if not uses(name, beside)] == []


def test_a_line_has_code_or_says_where_there_is_no_equivalent():
    for row in lines(EQUIVALENTS):
        assert all(code(cell) or cell == "none" for cell in row[:2]), row
        assert code(row[0]) or code(row[1]), row


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_section_has_every_function_of_indices_blocks_and_strides(library):
    ours = [source for row in lines(EQUIVALENTS, library) if (source := code(row[1]))]
    assert [name for name in (*OURS, *STRIDED) if not uses(name, ours)] == []


def test_code_that_words_mention_is_in_a_line_that_is_executed():
    """An option such as `reduction="add"`, or a statement: a recipe in words alone is tested by nothing."""
    prose = re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL).splitlines()
    words = [line for line in prose if not line.startswith("|")]
    mentioned = {text for text in re.findall(r"`([^`]+=[^`]+)`", "\n".join(words)) if "..." not in text}
    assert mentioned > {'order="CRD"', "jit_compile=True"}
    executed = " ".join(cell for row in lines(TABLES) for cell in row if re.fullmatch("(≈ )?`[^`]+`", cell))
    assert {text for text in mentioned if text not in executed} == set()


def units(row):
    """How many of its last places a float of a line may differ by, where the line says so; else None: not at all."""
    return 8 if row[1].startswith("≈") else None


def agree(actual, expected, units):
    """As `assert_agrees`, output by output; integers of another library may be of another width."""
    actual, expected = (x if isinstance(x, (tuple, list)) else [x] for x in (actual, expected))
    for result, right in zip(actual, expected, strict=True):
        both = np.asarray(result), np.asarray(right)
        widest = [x.astype(np.int64) if x.dtype.kind in "iu" else x for x in both]
        assert_agrees(*widest, units)


OF_OURS = dict.fromkeys((source, units(row)) for row in lines(EQUIVALENTS) if (source := code(row[1])))


@pytest.mark.thinned(2)
@pytest.mark.parametrize(("source", "units"), OF_OURS)
def test_a_line_of_ours_is_what_loops_over_elements_give(source, units):
    results, expected = map(jax.tree.leaves, (here(source), by_elements(source)))
    for result, right in zip(results, expected, strict=True):
        assert_agrees(result, right, units)


@pytest.mark.parametrize("library", ALL_LIBRARIES)
def test_a_library_gives_the_numbers_of_the_equivalent(library, exhaustive):
    def same(theirs, ours, units):
        result = there(library, theirs)
        if ours:
            agree(result, by_elements(ours), units)

    cases = [(source, code(row[1]), units(row)) for row in lines(EQUIVALENTS, library) if (source := code(row[0]))]
    assert len(cases) > (10 if library in LIBRARIES else 0)
    skip_without(library)
    all_hold(same, cases if exhaustive else cases[::6])


@pytest.mark.thinned(2)
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


@pytest.mark.thinned(2)
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


@pytest.mark.thinned(2)
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
    """The one that the table names, or that of its name in lower case."""
    named = {code(row[0]).removeprefix("dml::"): code(row[1]) for row in lines(METHODS)}
    assert {*named} <= {*DIRECTMLX_FUNCTIONS.split(), "Graph::Compile"}
    methods = {name.replace("_", ""): name for name in dir(dml_jax.GraphBuilder)}
    assert {*named.values()} <= {*methods.values()}
    others = [name.lower() for name in DIRECTMLX_FUNCTIONS.split() if name not in named]
    assert [name for name in others if not {name, f"elementwise{name}"} & methods.keys()] == []


def test_every_struct_and_order_that_is_named_exists():
    named = re.findall(r"\bDML_\w+_OPERATOR_DESC\b", TEXT)
    assert {name.removeprefix("DML_").removesuffix("_OPERATOR_DESC") for name in named} <= {*STRUCTS}
    orders = re.findall(r"\bDML_DEPTH_SPACE_ORDER_(\w+)", TEXT)
    assert orders
    assert {*orders} <= {*dml_jax.DepthSpaceOrder.__members__}


@pytest.mark.parametrize("row", lines(DESCRIPTORS), ids=lambda row: row[0].partition("(")[0].strip("`"))
def test_a_descriptor_computes_what_the_function_does(row):
    descriptor, function = map(code, row)
    expected = by_elements(function)
    assert_same_bits(here(descriptor), expected)
    assert_same_bits(here(function), expected)
