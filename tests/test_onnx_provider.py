"""The table of the operators of ONNX Runtime's DirectML provider, compared with what is done."""

from pathlib import Path

import pytest
from onnx_building import helper

from dml_jax.onnx import UnsupportedError
from dml_jax.onnx.contrib_schemas import qualified
from dml_jax.onnx.node_reader import Reader
from dml_jax.onnx.operator_table import ONNX_OPERATORS, find_schema

# By docs/OperatorKernels.md of microsoft/onnxruntime (001d12d2), without those that the provider makes itself.
COUNTS = {"": 164, "com.microsoft": 29}


def rows():
    page = (Path(__file__).parent.parent / "docs" / "onnx.md").read_text()
    table = page.partition("<!-- provider -->\n")[2].partition("<!-- end -->")[0]
    for line in table.splitlines()[2:]:
        domain, names, here = line.strip("| ").split(" | ")
        yield domain.replace("ai.onnx", ""), names.split(", "), here


def is_done(domain, name):
    """Whether there is a function, or a body whose operators are done."""
    schema = find_schema(domain, name)
    if qualified(domain, name) in ONNX_OPERATORS or schema is None:
        return schema is not None
    names = [f"x{i}" for i in range(schema.min_input)]
    try:
        Reader({domain: schema.since_version}).step(helper.make_node(name, names, ["y"], domain=domain))
    except UnsupportedError:
        return False
    return True


def test_the_table_has_every_operator_once():
    for domain, count in COUNTS.items():
        names = [name for one, some, _ in rows() if one == domain for name in some]
        assert len(names) == len(set(names)) == count
    assert {domain for domain, _, _ in rows()} == set(COUNTS)


@pytest.mark.parametrize(("domain", "names", "here"), list(rows()))
def test_a_row_says_whether_its_operators_are_done(domain, names, here):
    says = here == "yes" or here.startswith("yes, ")
    assert [name for name in names if is_done(domain, name) != says] == []
