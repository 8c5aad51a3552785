"""Durable writes: system calls repeated until all bytes are written, and fsync of files and folders."""

import os
from collections.abc import Callable
from pathlib import Path

sync_data: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_at(file: int, content: memoryview, offset: int) -> None:
    """Writes all of `content`; one call of the system writes at most 2 GiB."""
    while len(content):
        written = os.pwrite(file, content, offset)
        content, offset = content[written:], offset + written


def append(file: int, content: bytes) -> None:
    """Writes all of `content` where the file ends; one call of the system may write a part of it."""
    while content:
        content = content[os.write(file, content) :]


def begin_writing_back(file: int, offset: int, size: int) -> None:
    """Starts writing these bytes back to the disk and does not wait, so that the final fsync has less to do."""
    if hasattr(os, "posix_fadvise") and size:  # macOS has none
        os.posix_fadvise(file, offset, size, os.POSIX_FADV_DONTNEED)
