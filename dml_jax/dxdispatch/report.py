"""Reports of a run: buffers that are printed or written to files, and the times of dispatches."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..atomic_write import write_whole
from ..compiled.compile import CompiledOperator
from ..errors import ConstraintError
from .binding import HostBuffers
from .buffer_printing import pieces, told
from .commands import Print, WriteFile
from .dispatch import Dispatched
from .output_files import encode, resolve_target
from .timing import Timing, report


@dataclass(frozen=True)
class Report:
    """Where the results of commands go: see `run_model`."""

    say: Callable[[str], None]
    timing: Timing
    folder: Path
    record: Callable[[str, Sequence[float]], None] | None = None
    show: Callable[[str], None] | None = None
    tells_commands: bool = False

    def command(self, i: int, form: Any) -> AbstractContextManager[None]:
        """Returns the context of a command, which is told before and after it if commands are."""
        return told(i, form, self.say) if self.tells_commands else nullcontext()

    def dispatched(self, done: Dispatched) -> None:
        """Says how long a dispatch took, and where its outputs are."""
        if self.record:
            self.record(done.dispatchable, done.samples)
        for line in report(done.dispatchable, done.samples, self.timing):
            self.say(line)
        if done.operator and self.timing.verbosity >= 1:
            self.say(_memory_line(done.operator, done.in_place))

    def printed(self, command: Print, buffers: HostBuffers) -> None:
        """Shows the values of a buffer."""
        text = pieces(command.buffer, buffers.values(command.buffer), command.verbose)
        if self.show:
            for piece in text:
                self.show(piece)
        else:
            for line in "".join(text).splitlines():
                self.say(line)

    def written(self, command: WriteFile, buffers: HostBuffers) -> None:
        """Writes a buffer to a file.

        Raises:
          ConstraintError: it cannot be written; the file is not there then, or as it was.
        """
        buffer, data, shape = buffers.content(command.buffer)
        try:
            content = encode(buffer, data, command.target, command.dimensions or shape)
            write_whole(resolve_target(command.target, self.folder), *content)
        except OSError as error:
            raise ConstraintError(f"cannot write {command.target!r}: {error}") from None
        self.say(f"Resource {command.buffer!r} written to {str(self.folder / command.target)!r}")


def _memory_line(operator: CompiledOperator, in_place: bool) -> str:
    """Returns a line about the memory of a dispatch, by XLA, and whether the output stayed in its buffer."""
    memory = operator.memory(bound=True)
    output = "written in place, 0 bytes allocated" if in_place else f"moved, {memory.output} bytes allocated"
    return f"Memory: output of {memory.output} bytes {output}; {memory.temporary} bytes temporary"
