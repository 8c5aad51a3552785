"""Functions over .npy files larger than memory, batch by batch; an interrupted job can be continued."""

from .batch_map import Progress, map_batches
from .errors import BatchError
from .npy_file import NpyFile

__all__ = ["BatchError", "NpyFile", "Progress", "map_batches"]
