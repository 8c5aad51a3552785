"""Random descriptors of every operator, type, rank and class of strides, against NumPy's views and the oracles.

`pytest -n auto tests/test_strided_operators.py --strided-cases 10000` runs more of them.
"""

from collections import Counter
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits, assert_scattered, together
from strided_cases import INPUT_CLASSES, OUTPUT_CLASSES, expected, make, seen

import dml_jax
from dml_jax import DataType
from dml_jax.catalogue import DESCS

PARTS = 16


@pytest.mark.parametrize("part", range(PARTS))
def test_random_descriptors(part, strided_case_count):
    """Every eighth case is called on its own; the others share programs, which compile several times faster."""
    numbers = range(part, strided_case_count, PARTS)
    cases = [make(number) for number in numbers]
    done = 0
    for x64 in (False, True):
        with jax.enable_x64(x64):
            alone = [case for case in cases if case.x64 == x64 and case.number // PARTS % 8 == 0]
            others = [case for case in cases if case.x64 == x64 and case not in alone]
            outputs = [call(case, *arrays(case)) for case in alone]
            outputs += together([(partial(call, case), *arrays(case)) for case in others])
            for case, output in zip(alone + others, outputs, strict=True):
                try:
                    check(case, output)
                except BaseException as error:
                    error.add_note(f"strided_cases.make({case.number}) is {case}")
                    raise
                done += 1
    assert done == len(numbers) > 0


def arrays(case):
    """The buffers of the inputs, and what is bound to the output; 64-bit ones as words while x64 is off."""
    desc = case.desc
    buffers = [case.buffers[name] for name in (*desc.input_names(), *["output"] * case.bound)]
    return [b.view(np.uint32) if b.dtype.itemsize == 8 and not case.x64 else b for b in buffers]


def call(case, *buffers):
    run = dml_jax.compile_operator(case.desc)
    if case.bound:
        *buffers, out = buffers
        return run(*buffers, out=jnp.array(out))
    return run(*buffers)


def check(case, output):
    """The output's elements are the oracle's, and those between them are what they were."""
    desc, before = case.desc, case.buffers["output"]
    if not case.bound:
        before = np.zeros(desc.output.element_span, before.dtype)
    assert output.dtype == (np.uint32 if before.dtype.itemsize == 8 and not case.x64 else before.dtype)
    after = np.array(output).view(before.dtype)
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
    for cls in DESCS:
        op = cls.operator_type
        ranks = {4} if "SPACE" in op else set(range(1, 9))
        wanted = {(op, "type", t.name) for t in DataType} | {(op, "rank", r) for r in ranks}
        wanted |= {(op, "bound", b, x) for b in (False, True) for x in (False, True)}
        wanted |= {(op, "output", c) for c in OUTPUT_CLASSES}
        wanted |= {(op, name, c) for name in cls.input_names() for c in INPUT_CLASSES}
        assert not wanted - set(found)
