"""A fingerprint of a lowered program, by which a resumed run recognizes that the function computes something else."""

import hashlib
from collections import Counter
from types import SimpleNamespace
from typing import Any

import jax
import jaxlib.version
from jax.extend.mlir import ir

from .batch_program import BatchProgram

SHOWN = 50  # constants that are recorded one by one
LONG = 16  # elements; of a longer constant only the type is shown


def known_of(program: BatchProgram) -> dict[str, Any]:
    """Returns the versions of JAX, how often each operation occurs, the constants in brief, and a checksum of all.

    It is the same in every process, whatever functions, files and meshes are called: symbols are renamed, and places
    and shardings left out.
    Only a program of the same versions can be compared.
    """
    module = program.lowered()
    for number, top in enumerate([*module.body]):
        if "arg_attrs" in top.attributes:
            del top.attributes["arg_attrs"]
        if top.operation.name == "sdy.mesh":
            top.operation.erase()
        elif "sym_name" in top.attributes:
            old = top.attributes["sym_name"].value
            ir.SymbolTable.replace_all_symbol_uses(old, f"${number}", module.operation)
            ir.SymbolTable.set_symbol_name(top.operation, f"${number}")
    module.operation.attributes["sym_name"] = ir.StringAttr.get("$", module.context)
    operations: Counter[str] = Counter()
    constants: list[str] = []

    def see(operation: ir.Operation) -> ir.WalkResult:
        operations[operation.name] += 1
        if operation.name == "stablehlo.constant" and len(constants) < SHOWN:
            text = str(operation.get_asm(large_elements_limit=LONG))
            constants.append(text.partition("stablehlo.constant ")[2].strip())
        return ir.WalkResult.ADVANCE

    module.operation.walk(see)
    checksum = hashlib.sha256()
    module.operation.print(file=SimpleNamespace(write=checksum.update), binary=True)
    made_by = f"jax {jax.__version__}, jaxlib {jaxlib.version.__version__}"
    return {
        "made_by": made_by,
        "operations": dict(sorted(operations.items())),
        "constants": constants,
        "sha256": checksum.hexdigest()[:32],
    }
