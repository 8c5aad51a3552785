"""Functions over .npy files that need not fit in memory, in batches that overlap and can be gone on with."""

from .errors import BatchError
from .mapping import Progress, map_batches
from .npy import NpyFile

__all__ = ["BatchError", "NpyFile", "Progress", "map_batches"]
