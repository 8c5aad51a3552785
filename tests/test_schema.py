"""The structs beside the headers of DirectML: ids, fields in their order, kinds, and which execute in place."""

import json
from pathlib import Path

import pytest

from dml_jax.catalogue import STRUCTS

HEADERS = json.loads((Path(__file__).parent / "data/structs.json").read_text())
# Where the schema of DxDispatch differs from the page of the operator, whose word is taken: (struct, field or flag).
SLIPS = {
    ("ACTIVATION_HARD_SWISH", "in_place"),
    ("ACTIVATION_SWISH", "in_place"),
    ("BATCH_NORMALIZATION_GRAD", "Epsilon"),
    ("ELEMENT_WISE_IS_INFINITY", "in_place"),
}
# The schema has a BOOL as one or the other.
NUMBERS = {"enum": "uint", "bool": "uint"}
every_struct = pytest.mark.parametrize("name", [name for name in HEADERS if name in STRUCTS])


def test_the_ids_count():
    assert [one["id"] for one in HEADERS.values()] == [*range(1, 178)]


def test_every_operator_of_the_headers_has_a_struct():
    assert STRUCTS.keys() - HEADERS.keys() == {"SCATTER"}  # which is another name of SCATTER_ELEMENTS there, too
    assert HEADERS.keys() - STRUCTS.keys() == set()
    assert len({*STRUCTS.values()}) == 177


def fields(name):
    """DirectML's fields of a struct here, with the counts of arrays before the first array that each counts."""
    found = []
    for field, kind in zip(STRUCTS[name].directml_names().values(), STRUCTS[name].fields().values(), strict=True):
        if kind.counted_by and kind.counted_by not in (one[0] for one in found):
            found.append((kind.counted_by, "uint", False))
        found.append((field, NUMBERS.get(kind.kind, kind.kind), kind.is_optional))
    return found


@every_struct
def test_fields_in_their_order(name):
    of_header = [
        (field, NUMBERS.get(kind, kind), optional == ["optional"]) for field, kind, *optional in HEADERS[name]["fields"]
    ]
    slips = {field for struct, field in SLIPS if struct == name}
    assert [one if one[0] not in slips else (*one[:2], True) for one in fields(name)] == of_header


@every_struct
def test_execution_in_place(name):
    """Of an operator without an input nothing can be in place, whatever its flag."""
    if not STRUCTS[name].input_names():
        return
    assert STRUCTS[name].in_place == (HEADERS[name]["in_place"] != ((name, "in_place") in SLIPS))
