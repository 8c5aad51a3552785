"""Mutated files of every kind that dml_jax reads: each is read, or refused with an error of the library.

15 inputs of each kind by default, of hostile ONNX models 100, and 5,000 with --exhaustive. A number is a seed: a
failing input says how to repeat it.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
# Of each module, which a process imports once.
KINDS = {
    "fuzz_batches": ("npy_file", "batch_record"),
    "fuzz_models": ("graph_file", "model_file", "descriptor", "artifact"),
    "fuzz_onnx": ("onnx_file",),
    "fuzz_hostile": ("hostile_file",),
}
ALL, PART = 5000, 700


def parts(module):
    sample = 100 if module == "fuzz_hostile" else 15
    yield pytest.param(module, range(sample), id=f"{module}-sample")
    for first in range(sample, ALL, PART):
        numbers = range(first, min(first + PART, ALL))
        yield pytest.param(module, numbers, id=f"{module}-{first}", marks=pytest.mark.exhaustive)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as Linux tells it")
@pytest.mark.parametrize(("module", "numbers"), [part for module in KINDS for part in parts(module)])
def test_no_input_ends_in_a_traceback_a_signal_or_a_gigabyte(module, numbers):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)]), "JAX_PLATFORMS": "cpu"}
    kinds = [f"{module}.{name}" for name in KINDS[module]]
    arguments = [sys.executable, TESTS / "fuzzing.py", *kinds, str(numbers[0]), str(numbers[-1] + 1)]
    ran = subprocess.run(arguments, env=environment, capture_output=True, text=True)
    *_, last = [f"{kinds[0]} {numbers[0]}", *ran.stdout.splitlines()]  # it may end before it says one
    repeat = f"python tests/fuzzing.py {last} {int(last.split()[1]) + 1}"
    assert ran.returncode == 0, f"{last} ended with {ran.returncode}; `{repeat}` repeats it\n{ran.stderr[-5000:]}"
    assert ran.stdout.splitlines() == [f"{kind} {number}" for kind in kinds for number in numbers]
