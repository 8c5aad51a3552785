"""The tables of elementwise operators: edge values of every type, and what each row promises beside all structs."""

import jax
import numpy as np
import pytest
from checks import sampled, together
from elementwise_cases import TYPES, assert_numbers, descriptor, numbers_of, pairs
from operators import test_binary, test_unary

ROWS = {**test_unary.ROWS, **test_binary.ROWS}


def calls_of(data_type):
    """Every row that takes a type, with all its fields: the name, the descriptor, and the edges of its inputs."""
    for name, row in ROWS.items():
        newest = row.levels[0].types
        first, *others = (newest.get(one, {data_type}) for one in row.inputs)
        if data_type not in first:
            continue
        for other in sorted(others[0] if others else {data_type}):
            outputs = sorted(newest.get(row.output, {data_type}))
            arrays = pairs(len(row.inputs), TYPES[data_type], TYPES[other])
            types = dict(zip(row.inputs, (data_type, other), strict=False))
            for i, fields in enumerate(row.fields):
                types[row.output] = outputs[i % len(outputs)]
                yield name, row, descriptor(name, row, types, arrays[0].shape, fields), arrays


@pytest.mark.parametrize("data_type", sampled([*TYPES], ["FLOAT32", "FLOAT16", "INT8", "UINT32"]))
def test_edges(data_type):
    """Zeros of both signs, NaN, infinities, subnormals, divisors of 0, shifts of all bits, the ends of integers."""
    with jax.enable_x64(TYPES[data_type].itemsize == 8):
        cases = [*calls_of(data_type)]
        results = together([(desc.compute, *arrays) for *_, desc, arrays in cases])
        for (name, row, desc, arrays), made in zip(cases, results, strict=True):
            wanted = numbers_of(row, desc, *arrays)
            kept = np.all([~(abs(a.astype(np.float64)) > row.most) | (a.dtype.kind != "f") for a in arrays], axis=0)
            if row.on_bits:
                made = np.asarray(made)
                made = made.view(wanted.dtype)
            try:
                assert_numbers(made[kept], wanted[kept], row.units, row.signed_zeros)
            except AssertionError as error:
                error.add_note(f"{name}: {desc}")
                raise
