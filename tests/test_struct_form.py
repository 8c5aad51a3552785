"""What a struct says of itself, and what `OperatorDesc` adds: DirectML's name, the dataclass and the help."""

import inspect
import re
from dataclasses import FrozenInstanceError, fields
from typing import Annotated

import pytest
from operator_cases import f32

import dml_jax
from dml_jax import OperatorDesc
from dml_jax.catalogue import DESCS
from dml_jax.core.rules import if_given, same_sizes
from dml_jax.core.structs.enumerations import FieldDirection
from dml_jax.core.structs.feature_level_tables import ALL_TYPES, RANKS_1_TO_8, levels
from dml_jax.core.structs.fields import Input, OptionalInput, Output, UInt
from dml_jax.core.structs.scalar import Scalar

Times = Annotated[UInt, "how often; at least 1."]


class StretchDesc(OperatorDesc):
    """DML_STRETCH_OPERATOR_DESC: repeats elements; made up for these tests.

    It has two paragraphs.

    Args:
      value: a number that fills
        the rest.

    Example:
      StretchDesc is a struct.
    """

    input: Input
    bias: OptionalInput
    output: Output
    times: Times
    value: Scalar
    direction: FieldDirection

    support = levels(("1_0", RANKS_1_TO_8, ALL_TYPES))
    constraints = (same_sizes("output", "input"), if_given("bias", same_sizes("bias", "output")))


HELP = """DML_STRETCH_OPERATOR_DESC: repeats elements; made up for these tests.

It has two paragraphs.

Args:
  input: any sizes.
  bias: the sizes of `output`; or None.
  output: the sizes of `input`.
  times: how often; at least 1.
  value: a number that fills
    the rest.
  direction: an `AxisDirection`, or its DirectML name in full or as suffix: INCREASING, DECREASING.

Raises:
  ConstraintError: a rule of `StretchDesc.wordings()` is broken, an unknown `direction`, or a number its field lacks.
  DataTypeError: a data type that DirectML does not take here, a field of the wrong type, or a number its type lacks.

Example:
  StretchDesc is a struct.

Source: DML_STRETCH_OPERATOR_DESC."""


def test_the_help_has_the_words_of_the_struct_and_the_usual_ones():
    assert inspect.getdoc(StretchDesc) == HELP


def test_an_example_gets_the_imports_of_the_names_that_it_uses():
    imports = {}
    for cls in (dml_jax.TileDesc, dml_jax.descs.GruDesc):
        example = inspect.getdoc(cls).partition("Example:\n")[2]
        imports[cls.operator_type] = re.findall(r"^  >>> (.*import .*)$", example, re.MULTILINE)
    assert imports == {
        "TILE": ["import numpy as np", "from dml_jax import TensorDesc, TileDesc"],
        "GRU": [
            "import numpy as np",
            "from dml_jax import Activation, TensorDesc",
            "from dml_jax.descs import GruDesc",
        ],
    }


def test_the_signature_has_the_types_that_the_constructor_takes():
    shown = [str(parameter) for parameter in inspect.signature(StretchDesc).parameters.values()]
    assert shown == [
        "input: 'TensorDesc'",
        "bias: 'TensorDesc | None'",
        "output: 'TensorDesc'",
        "times: 'int'",
        "value: 'float | number[Any]'",
        "direction: 'AxisDirection | str | int'",
    ]


@pytest.mark.parametrize("cls", DESCS, ids=lambda cls: cls.operator_type)
def test_signatures_name_types_instead_of_kinds(cls):
    words = {"Any", "None", "Sequence", "bool", "dtype", "float", "int", "number", "str", "tuple", "type"}
    words |= {"ScaleAndBias", "Size", "SupportsDType"} | {*dir(dml_jax)}
    shown = " ".join(parameter.annotation for parameter in inspect.signature(cls).parameters.values())
    assert {*re.findall(r"\w+", shown)} <= words


@pytest.mark.parametrize("cls", DESCS, ids=lambda cls: cls.operator_type)
def test_help_names_the_members_of_enumerations(cls):
    """Those of data types are in the help of DataType; of REDUCE's functions other structs take two."""
    members = {name for field in cls.fields().values() for name in field.values} - {*dml_jax.DataType.__members__}
    if cls is not dml_jax.ReduceDesc:
        members -= {*dml_jax.ReduceFunction.__members__} - {"AVERAGE", "MAX"}
    arguments, _, _ = cls.__doc__.partition("\nRaises:")
    assert members <= {*re.findall(r"\w+", arguments)}


def test_it_is_a_frozen_dataclass():
    tensor = f32(2)
    desc = StretchDesc(tensor, None, tensor, 3, 1.5, "INCREASING")
    assert [field.name for field in fields(desc)] == ["input", "bias", "output", "times", "value", "direction"]
    assert repr(desc).startswith("StretchDesc(input=TensorDesc(data_type=")
    assert repr(desc).endswith(", times=3, value=1.5, direction=<AxisDirection.INCREASING: 0>)")
    assert hash(desc) == hash(StretchDesc(tensor, None, tensor, 3, 1.5, 0))
    with pytest.raises(FrozenInstanceError):
        desc.times = 4


@pytest.mark.parametrize("cls", DESCS, ids=lambda cls: cls.operator_type)
def test_the_first_line_of_help_begins_with_the_name_of_the_struct(cls):
    assert cls.__doc__.startswith(f"DML_{cls.operator_type}_OPERATOR_DESC: ")


def test_the_name_of_the_class_gives_that_of_the_operator():
    class MaxTwice2Desc(OperatorDesc):
        input: Input

    class UpscaleDesc(OperatorDesc):
        input: Input
        operator_type = "UP_SCALE"

    assert (MaxTwice2Desc.operator_type, UpscaleDesc.operator_type) == ("MAX_TWICE2", "UP_SCALE")


def test_structs_share_the_fields_and_the_words_of_a_base():
    class PairOfVersions(OperatorDesc, is_base=True):
        """The base of both.

        Args:
          times: how often.
        """

        input: Input
        times: UInt

    class TwiceDesc(PairOfVersions):
        """DML_TWICE_OPERATOR_DESC: repeats `input`."""

    class Twice1Desc(PairOfVersions):
        """DML_TWICE1_OPERATOR_DESC: repeats `input`.

        Args:
          axis: along which dimension.
        """

        axis: UInt

    assert (list(TwiceDesc.fields()), list(Twice1Desc.fields())) == (["input", "times"], ["input", "times", "axis"])
    assert "\n  times: how often.\n  axis: along which dimension.\n" in Twice1Desc.__doc__


# Mistakes are told where the class is defined.


def test_a_name_that_is_not_that_of_a_struct():
    with pytest.raises(TypeError, match=r"max_pooling: its name must be .* MaxPooling1Desc for .*operator_type"):

        class max_pooling(OperatorDesc):  # noqa: N801
            input: Input


def test_a_field_without_a_kind():
    with pytest.raises(TypeError, match=r"KindlessDesc\.times must have a kind .* such as UInt"):

        class KindlessDesc(OperatorDesc):
            input: Input
            times: int


def test_a_field_without_help():
    with pytest.raises(TypeError, match=r"SilentDesc\.times needs words of help: a line in Args .* or a text beside"):

        class SilentDesc(OperatorDesc):
            """DML_SILENT_OPERATOR_DESC: says nothing of a field."""

            input: Input
            times: UInt


def test_help_for_a_field_that_is_not_there():
    with pytest.raises(TypeError, match=r"OtherDesc: Args of the docstring names time, but .* input, times"):

        class OtherDesc(OperatorDesc):
            """DML_OTHER_OPERATOR_DESC: has another field.

            Args:
              time: how often.
            """

            input: Input
            times: Times


def test_a_misspelled_field_is_told_what_is_meant():
    with pytest.raises(TypeError, match=r"^StretchDesc has no field 'time'; did you mean 'times'\?$"):
        StretchDesc(time=2)  # type: ignore[call-arg]


def test_every_struct_names_its_fields_beside_one_that_it_lacks():
    for struct in DESCS:
        field = [*struct.fields()][-1]
        with pytest.raises(TypeError, match=rf"^{struct.__name__} has no field '{field}_'; .*\b{field}\b"):
            struct(**{f"{field}_": None})
