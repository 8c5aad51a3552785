"""Graphs that are wrong on purpose: a ConstraintError or a valid graph comes out, and nothing else."""

import copy

import numpy as np
import pytest
from catalogue_cases import STRUCTS
from graph_draws import draw
from operator_cases import f32, u32
from test_model_robustness import ODD, places

from dml_jax import (
    Constant,
    ConstraintError,
    DepthToSpaceDesc,
    GatherDesc,
    GraphDesc,
    SplitDesc,
    TensorDesc,
    desc_from_json,
    desc_to_json,
)
from dml_jax.desc_json import read_desc
from dml_jax.errors import Faults

GRAPHS = 3
# Odd keys too: JSON has none, but a mapping of Python may.
KEYS = [None, 3, "", "\ud800", ("a", "b")]


def valid_or_faults(form):
    """Whether the form is at fault; the first of its faults is what is raised."""
    faults = Faults()
    desc = read_desc(form, faults)
    assert (desc is None) == bool(faults.errors)
    assert all(isinstance(error, ConstraintError) and str(error) for error in faults.errors)
    if desc is not None:
        assert desc_from_json(desc_to_json(desc)) == desc
        return False
    with pytest.raises(ConstraintError) as caught:
        desc_from_json(form)
    assert str(caught.value) == str(faults.errors[0])
    return True


@pytest.mark.parametrize("number", range(GRAPHS))
def test_any_value_anywhere_is_valid_or_a_fault(number, exhaustive):
    """One value after the other is replaced by odd ones: by all of them, or by every eighth, beginning elsewhere."""
    form = desc_to_json(draw(STRUCTS, number).desc)
    count = 0
    for at, (holder, key) in enumerate(places(form)):
        kept = holder[key]
        for odd in ODD if exhaustive else ODD[at % 8 :: 8]:
            holder[key] = odd
            count += valid_or_faults(form)
        holder[key] = kept
    assert not valid_or_faults(form)
    assert count > 100


@pytest.mark.parametrize("number", range(GRAPHS))
def test_what_is_missing_renamed_or_there_twice_is_valid_or_a_fault(number, exhaustive):
    form = desc_to_json(draw(STRUCTS, number).desc)
    count = 0
    for at, (holder, key) in enumerate(places(copy.deepcopy(form))):
        if at % (1 if exhaustive else 8) == number % 8:
            kept = copy.copy(holder)
            changes = [lambda h, k: h.pop(k)]
            if isinstance(holder, dict):
                changes += [lambda h, k, name=name: h.__setitem__(name, h.pop(k)) for name in KEYS]
            else:
                changes += [lambda h, k: h.append(h[k])]
            for change in changes:
                change(holder, key)
                count += valid_or_faults(_root(form, holder, kept))
                holder.clear()
                holder.update(kept) if isinstance(holder, dict) else holder.extend(kept)
    assert count > 20
