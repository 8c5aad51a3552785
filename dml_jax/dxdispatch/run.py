"""Runs a model: binds it to memory, dispatches its operators on a JAX device, and reports, command by command."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .binding import bound_to
from .commands import Print, WriteFile
from .dispatch import dispatch
from .faults import faults_at
from .model_file import Model
from .report import Report
from .timing import Timing


def run_model(
    model: Model,
    device: Any,
    say: Callable[[str], None],
    *,
    timing: Timing | None = None,
    output: Path | None = None,
    record: Callable[[str, Sequence[float]], None] | None = None,
    show: Callable[[str], None] | None = None,
    tells_commands: bool = False,
) -> None:
    """Executes the commands of a model, in order; buffers keep their changes.

    Args:
      model: without faults.
      device: where the operators run.
      say: takes each line that DxDispatch would print.
      timing: how often dispatches are repeated, and the lines about their times.
      output: the folder that files go to; the model's own by default.
      record: takes the dispatchable of every dispatch, and the milliseconds of each iteration.
      show: takes the printed text of buffers, in pieces with their line ends; by default `say` takes it line by line.
      tells_commands: whether a line before each command, and one after it, say which it is.

    Raises:
      ModelError: the device has too little memory, and nothing is run; or a file cannot be written, and it is not
        there then, or as it was.
    """
    with bound_to(device, model) as bound:
        report = Report(say, timing or Timing(), output or model.path.parent, record, show, tells_commands)
        for i, command in enumerate(model.commands):
            with faults_at(model.path, f"command {i}"), report.command(i, model.forms[i]):
                match command:
                    case Print():
                        report.printed(command, bound.buffers)
                    case WriteFile():
                        report.written(command, bound.buffers)
                    case _:
                        report.dispatched(dispatch(command, bound, report.timing))
