"""`Hosts`: the processes that share a job, connected by `jax.distributed`."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import jax

from .errors import BatchError

PATIENCE = 300.0  # seconds to wait for the other processes to start
GRACE = 3.0  # seconds in which the others leave, before the coordinator ends and takes those along that have not


@dataclass(frozen=True)
class Hosts:
    """The place of this process among those that run the same command.

    Args:
      coordinator: HOST:PORT of process 0, where it listens.
      index: of this process.
      count: of processes.
    """

    coordinator: str
    index: int
    count: int

    @contextmanager
    def joined(self) -> Iterator[None]:
        """Connects to the other processes for the block; one that was killed may come back while process 0 is there.

        Raises:
          BatchError: there is no process 0, or not all have started.
        """
        if self.index:
            self._await_coordinator()
        jax.config.update("jax_enable_recoverability", True)  # the others go on when one is lost
        try:
            jax.distributed.initialize(self.coordinator, self.count, self.index, initialization_timeout=int(PATIENCE))
        except (RuntimeError, ValueError) as error:
            raise BatchError(f"{self.coordinator}: the processes did not meet: {error}") from None
        try:
            yield
        finally:
            if self.index == 0:
                time.sleep(GRACE)
            jax.distributed.shutdown()

    def _await_coordinator(self) -> None:
        host, _, port = self.coordinator.rpartition(":")
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection((host.strip("[]"), int(port)), timeout=1).close()
                return
            except OSError as error:
                if time.monotonic() > deadline:
                    what = f"process 0 cannot be reached for {PATIENCE:.0f} s ({error})"
                    raise BatchError(f"{self.coordinator}: {what}; start it there, then this again") from None
                time.sleep(0.2)
