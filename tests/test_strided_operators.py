"""Random descriptors of every operator, type, rank and class of strides, against NumPy's views and the oracles.

`pytest -n auto tests/test_strided_operators.py --strided-cases 10000` runs more of them.
"""

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits, assert_scattered
from strided_cases import INPUT_CLASSES, OUTPUT_CLASSES, expected, make, seen

import dml_jax
from dml_jax import DataType
from dml_jax.descriptors.registry import CLASSES

PARTS = 16


@pytest.mark.parametrize("part", range(PARTS))
def test_random_descriptors(part, strided_case_count):
    done = 0
    for number in range(part, strided_case_count, PARTS):
        case = make(number)
        try:
            check(case)
        except BaseException as error:
            error.add_note(f"strided_cases.make({number}) is {case}")
            raise
        done += 1
    assert done == len(range(part, strided_case_count, PARTS)) > 0


def check(case):
    """The output's elements are the oracle's, and those between them are what they were."""
    desc, before = case.desc, case.buffers["output"]
    with jax.enable_x64(case.x64):
        run = dml_jax.compile_operator(desc)
        inputs = [case.buffers[name] for name in desc.input_names()]
        if case.bound:
            after = run(*inputs, out=jnp.array(before.view(run.buffers["output"].dtype)))
        else:
            before = np.zeros(desc.output.element_span, before.dtype)
            after = run(*inputs)
    assert after.dtype == run.buffers["output"].dtype
    after = np.array(after).view(before.dtype)
    assert after.shape == before.shape
    wanted = expected(case)
    if isinstance(wanted, dict):
        input = seen(case.buffers["input"], desc.input)
        assert_scattered(seen(after, desc.output), input, wanted)
    else:
        assert_same_bits(seen(after, desc.output), wanted)
    # What no coordinate addresses is as it was.
    seen(after, desc.output)[...] = seen(before, desc.output)
    assert_same_bits(after, before)


def test_the_cases_cover_everything(strided_case_count):
    """Every operator with every data type, rank and class of strides, in and out, bound and not."""
    found = Counter()
    for number in range(strided_case_count):
        case = make(number)
        desc = case.desc
        op = desc.operator_type
        found.update(
            {
                (op, "type", desc.input.data_type.name),
                (op, "rank", len(desc.input.sizes)),
                (op, "bound", case.bound, case.x64),
                (op, "output", case.classes["output"]),
                *((op, name, case.classes[name]) for name in desc.input_names()),
            }
        )
    for cls in CLASSES:
        op = cls.operator_type
        ranks = {4} if "SPACE" in op else set(range(1, 9))
        wanted = {(op, "type", t.name) for t in DataType} | {(op, "rank", r) for r in ranks}
        wanted |= {(op, "bound", b, x) for b in (False, True) for x in (False, True)}
        wanted |= {(op, "output", c) for c in OUTPUT_CLASSES}
        wanted |= {(op, name, c) for name in cls.input_names() for c in INPUT_CLASSES}
        assert not wanted - set(found)
