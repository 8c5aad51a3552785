"""Random broken graphs: each raises a ConstraintError or is a valid graph."""

import numpy as np
import pytest
from catalogue_cases import STRUCTS
from graph_draws import draw
from operator_cases import i8
from test_model_robustness import ODD, places

from dml_jax import ConstraintError, FeatureLevel, GraphDesc, desc_from_json, desc_to_json
from dml_jax.desc_json import read_desc
from dml_jax.errors import Faults
from dml_jax.graphs.rules import Wiring, faults

every_graph = pytest.mark.parametrize("number", range(3))
# JSON has no others than strings, but a mapping of Python may.
KEYS = ["", "\ud800", None, 3, ("a", "b")]


def is_at_fault(form, at=0):
    """Whether a form is refused: faults are ConstraintErrors; every eighth place shows that the first one is raised."""
    found = Faults()
    desc = read_desc(form, found)
    assert (desc is None) == bool(found.errors)
    assert all(isinstance(error, ConstraintError) and str(error) for error in found.errors)
    if desc is not None:
        assert desc_from_json(desc_to_json(desc)) == desc
        return False
    if at % 8 == 0:
        with pytest.raises(ConstraintError) as caught:
            desc_from_json(form)
        assert str(caught.value) == str(found.errors[0])
    return True


@pytest.mark.thinned
@every_graph
def test_any_value_anywhere_is_valid_or_a_fault(number, exhaustive):
    """One value after the other is replaced by odd ones: by all of them, or by one, beginning elsewhere."""
    form, count = desc_to_json(draw(STRUCTS, number).desc), 0
    for at, (holder, key) in enumerate(places(form)):
        kept = holder[key]
        for odd in ODD if exhaustive else ODD[at % len(ODD) :: len(ODD)]:
            holder[key] = odd
            count += is_at_fault(form, at)
        holder[key] = kept
    assert not is_at_fault(form)
    assert count > 100


@pytest.mark.thinned
@every_graph
def test_any_other_key_anywhere_is_valid_or_a_fault(number, exhaustive):
    """Every value under an odd key, and nowhere at all."""
    form, count = desc_to_json(draw(STRUCTS, number).desc), 0
    for at, (holder, key) in enumerate(places(form)):
        if isinstance(holder, dict) and (exhaustive or at % 4 == number):
            kept = dict(holder)
            del holder[key]
            count += is_at_fault(form, at)
            for odd in KEYS:
                holder[odd] = kept[key]
                count += is_at_fault(form, at)
                del holder[odd]
            holder.clear()
            holder.update(kept)
    assert not is_at_fault(form)
    assert count > 100


@pytest.mark.thinned
@every_graph
def test_edges_anywhere_are_valid_or_a_fault(number, exhaustive):
    """Edges that lead elsewhere, come from elsewhere, are missing or one more; tensors of other sizes and layouts."""
    desc, rng, count = draw(STRUCTS, number).desc, np.random.default_rng(number), 0
    ends = [*desc.edges, *desc.edges.values(), "x", "", ("x", "y"), *((node, "output") for node in desc.nodes)]
    tensors = [
        i8(4, flags="OWNED_BY_DML"),
        i8(2, 3, strides=(1, 1)),
        *desc.inputs.values(),
    ]
    for _ in range(2000 if exhaustive else 150):
        edges, given = dict(desc.edges), {"inputs": dict(desc.inputs), "outputs": dict(desc.outputs)}
        for _ in range(rng.integers(1, 4)):
            reader, source, name = (ends[i] for i in rng.integers(len(ends), size=3))
            edges[reader] = source
            if rng.random() < 0.5:
                del edges[[*edges][rng.integers(len(edges))]]
            if isinstance(name, str):
                given[rng.choice([*given])][name] = tensors[rng.integers(len(tensors))]
        errors = [*faults(Wiring(desc.nodes, edges, **given, level=FeatureLevel.of("6_4")))]
        assert all(isinstance(error, ConstraintError) and str(error).startswith("GRAPH: ") for error in errors)
        if not errors:
            GraphDesc(desc.nodes, edges, **given)
            continue
        count += 1
        with pytest.raises(ConstraintError) as caught:
            GraphDesc(desc.nodes, edges, **given)
        assert str(caught.value) == str(errors[0])
    assert count > 50
