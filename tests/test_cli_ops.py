"""`dml-jax ops`: the operators, from the rule data."""

import re

import pytest
from documented_models import dml_jax_command, printed_json

from dml_jax.catalogue import DESCS, STRUCTS


def test_ops_lists_every_operator():
    result = dml_jax_command("ops")
    assert result.exit_code == 0
    for name in ("GATHER", "GATHER_ND1", "SCATTER", "SPACE_TO_DEPTH1"):
        assert f"\n{name}\t" in result.output


@pytest.mark.parametrize(
    ("name", "function"), {"GATHER_ND1": "dml_jax.gather_nd", "ELEMENT_WISE_LOG": "jax.numpy.log"}.items()
)
def test_ops_says_which_function_computes_it(name, function):
    assert f"\nfunction: {function}\n" in dml_jax_command("ops", name).output
    assert printed_json("ops", name)["operators"][0]["function"] == function
    (line,) = (line for line in dml_jax_command("ops").output.splitlines() if line.startswith(f"{name}\t"))
    assert line.split("\t")[2] == function


@pytest.mark.parametrize("name", ["gather_nd1", "DML_OPERATOR_SCATTER_ELEMENTS", "DEPTH_TO_SPACE1"])
def test_ops_shows_rules_and_levels(name):
    cls = STRUCTS[name.removeprefix("DML_OPERATOR_").upper()]
    output = dml_jax_command("ops", name).output
    for text in cls.wordings().values():
        assert f"- {text}\n" in output
    assert "- DimensionCount must be in [1, 8]\n" in output
    for row in cls.support:
        assert f"\n{row.since} " in output


@pytest.mark.parametrize("cls", DESCS, ids=lambda cls: cls.operator_type)
def test_ops_lists_the_values_of_enumerations(cls):
    values = {
        cls.directml_names()[name]: [*field.values] for name, field in cls.fields().items() if field.kind == "enum"
    }
    (operator,) = printed_json("ops", cls.operator_type)["operators"]
    assert {field["name"]: field["values"] for field in operator["fields"] if "values" in field} == values
    output = dml_jax_command("ops", cls.operator_type).output
    assert ("values:\n" in output) == bool(values)
    for name, names in values.items():
        assert f"  - {name}: {', '.join(names)}\n" in output


def test_ops_names_the_orders_as_directml_does():
    assert "  - Order: DEPTH_COLUMN_ROW, COLUMN_ROW_DEPTH\n" in dml_jax_command("ops", "DEPTH_TO_SPACE1").output


def test_ops_says_which_functions_a_row_is_about():
    lines = dml_jax_command("ops", "REDUCE").stdout.split("\n\n")[-1].splitlines()
    assert re.search(r"^4_1 +ARGMAX, ARGMIN +1 to 8 ", "\n".join(lines), re.MULTILINE)
    rows = printed_json("ops", "REDUCE")["operators"][0]["feature_levels"]
    newest = next(row for row in rows if row["given"] == {"field": "Function", "values": ["L1", "SUM_SQUARE"]})
    assert (newest["since"], newest["tensors"][0]["name"]) == ("5_0", "InputTensor")


def test_ops_unknown_name():
    result = dml_jax_command("ops", "GATHR")
    assert result.exit_code == 2
    assert "did you mean 'GATHER'" in result.stderr


def test_ops_breaks_no_line_where_a_program_reads():
    rows = [line.split("\t") for line in dml_jax_command("ops").stdout.splitlines()]
    assert [row[0] for row in rows[1:]] == [cls.operator_type for cls in DESCS]
    assert {len(row) for row in rows} == {4}
    table = dml_jax_command("ops", "GATHER_ND1").stdout.split("\n\n")[-1].splitlines()
    assert [line.split()[0] for line in table[1:]] == [str(row.since) for row in STRUCTS["GATHER_ND1"].support]
