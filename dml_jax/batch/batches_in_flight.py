"""`InFlight`: waits until fewer than N batches are in flight, that is, until JAX has released the memory of others."""

import time
import weakref

import jax
import numpy as np

PATIENCE = 5.0  # seconds; more than a garbage collection of JAX ever takes


class InFlight:
    """The batches of one source that JAX has, which releases an array some time after its work has ended."""

    def __init__(self) -> None:
        self._owners: list[weakref.ref] = []

    def passed(self, batch: np.ndarray) -> np.ndarray:
        """Returns the batch as an array that nobody else has, and counts it until JAX has released it."""
        if batch.nbytes == 0:
            return batch
        owner = np.frombuffer(batch.reshape(-1).view(np.uint8).data, np.uint8)
        self._owners.append(weakref.ref(owner))
        return owner.view(batch.dtype).reshape(batch.shape)

    def wait(self, most: int) -> None:
        """Returns when fewer than `most` batches are still held."""
        deadline = time.monotonic() + PATIENCE
        while self._count() >= most and time.monotonic() < deadline:
            jax.device_put(np.uint8(0)).block_until_ready()  # JAX frees what it no longer needs when it is called
            time.sleep(1e-4)

    def _count(self) -> int:
        self._owners = [owner for owner in self._owners if owner() is not None]
        return len(self._owners)
