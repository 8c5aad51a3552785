"""Batch processing of .npy files larger than memory; an interrupted job resumes where it stopped."""

from .batch_map import Progress, map_batches
from .errors import BatchError
from .npy_file import NpyFile

__all__ = ["BatchError", "NpyFile", "Progress", "map_batches"]
