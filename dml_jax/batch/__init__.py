"""Functions over .npy files that need not fit in memory, in batches that overlap, resumable after an interruption."""

from .errors import BatchError
from .mapping import Progress, map_batches
from .npy import NpyFile

__all__ = ["BatchError", "NpyFile", "Progress", "map_batches"]
