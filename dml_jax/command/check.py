"""What `dml-jax check` finds in a file: the operators that are accepted, and every fault."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.feature_level import FeatureLevel
from ..dxdispatch.model_file import Fault, Model, ModelError, read_model
from ..errors import ConstraintError

__all__ = ["Checked", "check_model", "check_onnx"]


@dataclass(frozen=True)
class Checked:
    """What `check` finds in one file.

    Args:
      path: the file.
      operators: where, and the DirectML operator that is accepted there.
      faults: all of them.
      lines: the lines about what is accepted.
    """

    path: Path
    operators: Sequence[tuple[str, str]]
    faults: Sequence[Fault]
    lines: Sequence[str]

    def as_json(self) -> dict[str, Any]:
        """What `check --json` prints of the file."""
        return {
            "path": str(self.path),
            "valid": not self.faults,
            "operators": [{"where": where, "operator": operator} for where, operator in self.operators],
            "faults": [{"where": fault.where, "what": fault.what} for fault in self.faults],
        }


def check_model(path: Path, level: FeatureLevel, output: Path | None) -> Checked:
    """Checks a DxDispatch model file; `output` is the folder that it would write to."""
    try:
        model = read_model(path, feature_level=level, output=output)
    except ModelError as error:
        return Checked(path, [], error.faults, [])
    operators = [(f"dispatchable {name!r}", d.desc.operator_type) for name, d in model.dispatchables.items()]
    return Checked(path, operators, [], [f"valid at feature level {level}, {_counted(model)}"])


def check_onnx(path: Path, level: FeatureLevel) -> Checked:
    """Checks the nodes of an ONNX model that DirectML has an operator for."""
    from ..onnx.model_files import check_model as check_nodes

    operators, faults = [], []
    try:
        for where, found in check_nodes(path, level):
            if isinstance(found, ConstraintError):
                faults.append(Fault(where, str(found)))
            else:
                operators.append((where, found))
    except ConstraintError as error:
        faults.append(Fault("", str(error)))
    lines = [f"{where}: {operator} is accepted at feature level {level}" for where, operator in operators]
    return Checked(path, operators, faults, lines)


def _counted(model: Model) -> str:
    parts = (
        (len(model.buffers), "resource"),
        (len(model.dispatchables), "dispatchable"),
        (len(model.commands), "command"),
    )
    return ", ".join(f"{count} {what}{'s' * (count != 1)}" for count, what in parts)
