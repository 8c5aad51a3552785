"""Random graphs of the whole catalogue against the oracles, node by node, and NumPy's views of the bytes between."""

from functools import partial
from itertools import product

import jax
import pytest
from catalogue_cases import STRUCTS
from checks import sampled, together
from graph_draws import draw, rounds
from strided_cases import arrays, call, check

from dml_jax import Constant

pytestmark = pytest.mark.device

AT_ONCE = rounds(STRUCTS)  # graphs in which every struct occurs
FIRST = range(0, 60 * AT_ONCE, AT_ONCE)


@pytest.mark.parametrize("first", sampled(FIRST, [0]))
def test_random_graphs(first, exhaustive):
    """A sixth of them by default. The first is called on its own; the others share programs, which compile faster."""
    numbers = range(first, first + AT_ONCE)[:: 1 if exhaustive else 6]
    cases = [draw(STRUCTS, number) for number in numbers]
    for x64 in (False, True):
        with jax.enable_x64(x64):
            of_state = [case for case in cases if case.x64 == x64]
            alone, shared = [c for c in of_state if c.number == first], [c for c in of_state if c.number > first]
            made = [call(case, *arrays(case)) for case in alone]
            made += together([(partial(call, case), *arrays(case)) for case in shared])
            for case, outputs in zip(alone + shared, made, strict=True):
                try:
                    check(case, outputs, case.wanted, case.units)
                except BaseException as error:
                    error.add_note(f"graph_draws.draw(STRUCTS, {case.number}), x64={x64}, bound={case.bound}")
                    raise


@pytest.mark.exhaustive
def test_the_random_graphs_cover_everything():
    """Every struct in those of one `first`; every kind of edge, owned inputs and shared ports in an exhaustive one."""
    cases = [draw(STRUCTS, number) for number in range(3 * AT_ONCE)]
    operators = {node.operator_type for case in cases[:AT_ONCE] for node in case.desc.nodes.values()}
    assert operators == {*STRUCTS, "CONSTANT"}
    kinds = {kind_of(case.desc, *edge) for case in cases for edge in case.desc.edges.items()}
    assert kinds == {"input", "constant", "output", "other type", "other sizes", "other strides"}
    assert {(case.bound, case.x64) for case in cases} == {*product([False, True], repeat=2)}
    assert any(tensor.flags for case in cases for tensor in case.desc.inputs.values())
    assert any(len({*case.desc.edges.values()}) < len(case.desc.edges) for case in cases)


def kind_of(desc, reader, source):
    if isinstance(reader, str):
        return "output"
    if isinstance(source, str):
        return "input"
    if isinstance(desc.nodes[source[0]], Constant):
        return "constant"
    written, read = (desc.nodes[name].ports()[port] for name, port in (source, reader))
    if written.data_type != read.data_type:
        return "other type"
    return "other strides" if written.sizes == read.sizes else "other sizes"
