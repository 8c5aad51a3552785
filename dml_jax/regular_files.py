"""Opens regular files only: no pipe or device, for which a program would wait, and no symbolic link on request."""

import errno
import os
import stat
from pathlib import Path

# Not all systems have each of them. O_NONBLOCK: a pipe that nobody writes to is opened at once, and refused.
_FLAGS = sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """Opens a regular file and returns its descriptor.

    Args:
      path: the file.
      flags: those of `os.open`; with O_NOFOLLOW the file may be no symbolic link.

    Raises:
      OSError: it cannot be opened, is not a regular file, or has an impossible name.
    """
    try:
        file = os.open(path, flags | _FLAGS, 0o666)
    except ValueError:  # a NUL, or characters that the system cannot encode
        raise OSError(errno.EINVAL, "No file can have such a name") from None
    except OSError as error:
        if error.errno == errno.ELOOP and os.path.islink(path):
            raise OSError(errno.ELOOP, "Is a symbolic link; remove it") from None
        raise
    try:
        mode = os.fstat(file).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EISDIR) if stat.S_ISDIR(mode) else "Not a regular file")
    except BaseException:
        os.close(file)
        raise
    return file
