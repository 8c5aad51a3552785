"""Messages about work that takes long, on the standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Event, Thread

import click

from ..errors import escaped

FIRST, THEN = 10, 30  # seconds


_on_standard_error = partial(click.echo, err=True)


@contextmanager
def told_if_long(doing: Callable[[], str], tell: Callable[[str], object] = _on_standard_error) -> Iterator[None]:
    """Context that tells `doing()` after 10 seconds, and then every 30, to someone who may want to press Ctrl-C.

    Args:
      doing: says what is done right now.
      tell: prints a line.
    """
    is_done = Event()

    def tell_often() -> None:
        seconds = FIRST
        while not is_done.wait(FIRST if seconds == FIRST else THEN):
            tell(f"{seconds} s: {escaped(doing())}")
            seconds += THEN

    thread = Thread(target=tell_often, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()
