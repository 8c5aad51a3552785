"""Messages about work that takes long, on the standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

import click

from ..errors import escaped

__all__ = ["told_if_long"]

FIRST, THEN = 10, 30  # seconds


@contextmanager
def told_if_long(doing: Callable[[], str]) -> Iterator[None]:
    """Context that prints `doing()` after 10 seconds, and then every 30, for someone who may want to press Ctrl-C."""
    is_done = Event()

    def tell() -> None:
        seconds = FIRST
        while not is_done.wait(FIRST if seconds == FIRST else THEN):
            click.echo(f"{seconds} s: {escaped(doing())}", err=True)
            seconds += THEN

    thread = Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()
