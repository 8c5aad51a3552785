"""Mutated files of every kind that dml_jax reads: each is read, or refused with an error of the library.

40 inputs of each kind by default, 5,000 with --exhaustive. A number is a seed: a failing input says how to repeat it.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
KINDS = [
    "fuzz_batches.npy_file",
    "fuzz_batches.batch_record",
    "fuzz_models.graph_file",
    "fuzz_models.model_file",
    "fuzz_models.descriptor",
    "fuzz_models.artifact",
    "fuzz_onnx.onnx_file",
]
SAMPLE, ALL, PART = 40, 5000, 700
PARTS = [
    pytest.param(range(SAMPLE), id="sample"),
    *(
        pytest.param(range(first, min(first + PART, ALL)), id=str(first), marks=pytest.mark.exhaustive)
        for first in range(SAMPLE, ALL, PART)
    ),
]


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as Linux tells it")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("numbers", PARTS)
def test_no_input_ends_in_a_traceback_a_signal_or_a_gigabyte(kind, numbers):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)]), "JAX_PLATFORMS": "cpu"}
    arguments = [sys.executable, TESTS / "fuzzing.py", kind, str(numbers[0]), str(numbers[-1] + 1)]
    ran = subprocess.run(arguments, env=environment, capture_output=True, text=True)
    last = int([str(numbers[0]), *ran.stdout.split()][-1])  # it may end before it says a number
    repeat = f"python tests/fuzzing.py {kind} {last} {last + 1}"
    assert ran.returncode == 0, f"input {last} ended with {ran.returncode}; `{repeat}` repeats it\n{ran.stderr[-5000:]}"
    assert last == numbers[-1]
