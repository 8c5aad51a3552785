"""Batch processing: functions as callables of NumPy batches, and over files larger than memory."""

from .batch_function import BatchFunction
from .batch_map import Progress, map_batches
from .errors import BatchError
from .npy_file import NpyFile

__all__ = ["BatchError", "BatchFunction", "NpyFile", "Progress", "map_batches"]
