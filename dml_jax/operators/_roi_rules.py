"""Rules and feature levels of the operators of regions of interest (ROI)."""

from typing import Annotated

from ..core.rules import Operands, Rule, at_least, custom, if_given
from ..core.structs.feature_level_tables import FLOATS, RANK_4, Support
from ..core.structs.fields import Float, IndexInput, Input, UInt
from ..core.tensors.data_type import DataType
from ._reduce import FieldFunction, ReduceFunction

# Rules of functions.


def _no_pictures(x: Operands) -> str | None:
    sizes = x["input"].shape
    is_right = len(sizes) == 4 and 0 not in (sizes[0], *sizes[2:]) and all(isinstance(n, int) for n in sizes[2:])
    return None if is_right else f"it is {sizes}"


PICTURES = custom(
    "pictures(input)", "{input}.{sizes} must be (N, C, H, W), not empty, with H and W known while tracing", _no_pictures
)


def height_and_width(name: str) -> Rule:
    """Returns the rule that an attribute has two numbers."""

    def broken_by(x: Operands) -> str | None:
        return None if len(x[name]) == 2 else f"there are {len(x[name])}"

    return custom(f"height_and_width({name})", f"{{{name}}} must be two numbers, of height and width", broken_by)


def at_most_32768(name: str) -> Rule:
    """Returns the rule of sizes and counts, products of two of which must be integers of 32 bits."""

    def broken_by(x: Operands) -> str | None:
        value = x[name]
        return None if max(value if isinstance(value, tuple) else (value,)) <= 2**15 else f"it is {value}"

    return custom(f"at_most_32768({name})", f"{{{name}}} must be at most 32768", broken_by)


# Fields of structs.

Regions = Annotated[Input, "(R, 4), leading sizes of 1 before that: x1, y1, x2, y2 of each region."]
BatchIndices = Annotated[IndexInput, "(R,), likewise: in which picture each region lies."]
ReductionOfSamples = Annotated[FieldFunction, "AVERAGE or MAX, a `ReduceFunction`: of the samples of an element."]
ScaleX = Annotated[Float, "the factor of x coordinates."]
ScaleY = Annotated[Float, "the factor of y coordinates."]
LeastSamples = Annotated[UInt, "of an element along each dimension; at least 1."]
MostSamples = Annotated[UInt, "as `minimum_samples_per_output`; at most as many as the whole picture would need."]

# Rules of structs.


def _leading(name: str, sizes: tuple[int | None, ...], text: str, resampled: str) -> Rule:
    """A tensor of regions has so many last dimensions, and 1s before them."""

    def broken_by(x: Operands) -> str | None:
        actual, regions = x[name].sizes, x[resampled].sizes[0]
        wanted = tuple(regions if n is None else n for n in sizes)
        more = actual[: len(actual) - len(wanted)]
        is_right = len(actual) <= 4 and actual[len(more) :] == wanted and all(n == 1 for n in more)
        return None if is_right else f"they are {actual}, and there are {regions} regions"

    text = f"{{{name}}}.{{sizes}} must be {text} of {{{resampled}}}, after sizes of 1, and 4 at most"
    return custom(f"regions({name})", text, broken_by)


def _same_channels(resampled: str, pictures: str) -> Rule:
    def broken_by(x: Operands) -> str | None:
        one, other = x[resampled].sizes, x[pictures].sizes
        return None if one[1:2] == other[1:2] else f"they are {one} and {other}"

    text = f"{{{resampled}}}.{{sizes}} must have the channels of {{{pictures}}}"
    return custom(f"channels({resampled})", text, broken_by)


def _neither(x: Operands) -> str | None:
    function = x["reduction_function"]
    accepted = (ReduceFunction.AVERAGE, ReduceFunction.MAX)
    return None if function in accepted else f"it is {function.name}"


def _fewer(x: Operands) -> str | None:
    most, least = x["maximum_samples_per_output"], x["minimum_samples_per_output"]
    return None if most >= least else f"they are {most} and {least}"


def struct_rules(resampled: str, pictures: str) -> tuple[Rule, ...]:
    """Returns the rules of a struct with these tensors of regions and of whole pictures."""
    return (
        if_given(pictures, _same_channels(resampled, pictures)),
        _leading("roi", (None, 4), "(R, 4), R as", resampled),
        _leading("batch_indices", (None,), "(R,), R as", resampled),
        custom("one_of(reduction_function)", "{reduction_function} must be one of AVERAGE, MAX", _neither),
        at_least("minimum_samples_per_output", 1),
        custom(
            "at_least(maximum_samples_per_output)",
            "{maximum_samples_per_output} must be at least {minimum_samples_per_output}",
            _fewer,
        ),
    )


def since(level: str) -> tuple[Support, ...]:
    """Returns the table of a struct of that level, whose indices may have 64 bits from 5_0 on."""
    newest = Support.of("5_0", RANK_4, input=FLOATS, batch_indices=(DataType.UINT64, DataType.UINT32))
    return newest, Support.of(level, RANK_4, input=FLOATS, batch_indices=(DataType.UINT32,))
