"""Collects the cases of all operators' test files, by name and in the order of the catalogue."""

from importlib import import_module
from pathlib import Path

from dml_jax.catalogue import PAGES

_FILES = (path.stem.removeprefix("test_") for path in (Path(__file__).parent / "operators").glob("test_*.py"))
_FOUND = {name for name in _FILES if not name.endswith("_corners")}
# Those of the catalogue, then what is left over, which test_promises.py names.
_NAMES = [*(name for name in PAGES if name in _FOUND), *sorted(_FOUND - {*PAGES})]

FILES = {name: import_module(f"operators.test_{name}") for name in _NAMES}


def _said(what):
    return {name: getattr(file, what) for name, file in FILES.items() if hasattr(file, what)}


ORACLES = _said("oracle")
# Promises about bits and sharding, which change no value and which no oracle knows.
WITHOUT_EFFECT = ("deterministic", "unique_indices", "indices_are_sorted", "out_sharding")
CASES = _said("CASE")
BREAKS = _said("BREAKS")
# The calls that all promises hold for: CASE, then each of VARIANTS as a change of it.
VARIANTS = {
    name if variant is None else f"{name} {variant}": case.changed(**changes)
    for name, case in CASES.items()
    for variant, changes in ((None, {}), *_said("VARIANTS").get(name, {}).items())
}
# By the operator type of the struct.
STRUCTS = {struct.name: struct for structs in _said("STRUCTS").values() for struct in structs}
# Those that the default run tests: of a table, whose rows share their code, every eighth.
SAMPLED = {
    struct.name for structs in _said("STRUCTS").values() for struct in (structs[::8] if len(structs) > 20 else structs)
}
DESCS = {name: struct.desc for name, struct in STRUCTS.items()}
