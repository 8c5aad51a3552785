"""The command `dml-jax`; without the extra `cli` it says how to get it."""

import io
import os
import signal
import sys
import time
from threading import Thread


def main() -> None:
    """Runs the command line and exits with its status."""
    signal.signal(signal.SIGINT, _interrupted)
    _watch_for_interrupts()
    _open_standard_streams()
    try:
        _run()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done, but for Python's own shutdown


def _open_standard_streams() -> None:
    """Opens streams that the caller closed, as by `>&-`: else the next open file gets their number, and their text."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the least number that is free
    sys.stdout = sys.stdout or _ClosedOutput()
    sys.stderr = sys.stderr or os.fdopen(2, "w")


class _ClosedOutput(io.StringIO):
    """A standard output that the caller closed: lost text is an error, but only when all work is done."""

    has_lost = False

    def write(self, text: str) -> int:
        self.has_lost |= text != ""
        return len(text)


def _run() -> None:
    try:
        import click
        import PIL  # noqa: F401
        import rich  # noqa: F401
    except ImportError as error:
        sys.exit(f"dml-jax: the command needs {error.name}; install it in a clone: pip install '.[cli]'")
    from contextlib import suppress

    from .command.main import command

    try:
        command(prog_name="dml-jax", standalone_mode=False)
        sys.stdout.flush()
        if isinstance(sys.stdout, _ClosedOutput) and sys.stdout.has_lost:
            sys.exit("error: cannot write the output: it is closed")
    except click.ClickException as error:
        with suppress(OSError):  # nobody reads the standard error
            error.show()
        sys.exit(error.exit_code)
    except OSError as error:  # of the standard output: those of files are told as faults
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        # Where the reader went away, as `head` does, there is nobody to tell.
        sys.exit(1 if isinstance(error, BrokenPipeError) else f"error: cannot write the output: {error.strerror}")


def _watch_for_interrupts() -> None:
    """Ends the command also while XLA compiles, as Python runs no signal handler before that returns."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)

    def watch() -> None:
        while number := os.read(read, 1):
            time.sleep(0.3)  # by then the handler has run, if it can
            if number[0] != signal.SIGINT:
                continue
            if signal.getsignal(signal.SIGINT) is _interrupted:
                _interrupted()
            elif check := getattr(sys.modules.get("dml_jax.command.bench_run"), "check_interrupted", None):
                check()

    Thread(target=watch, daemon=True).start()


def _interrupted(*_: object) -> None:
    """Leaves at once: an exception raised here could be swallowed by the callback that it interrupts."""
    # The module may be being imported right now.
    if discard := getattr(sys.modules.get("dml_jax.atomic_write"), "discard_unfinished", None):
        discard()
    os.write(2, b"interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    main()
