"""`Hdf5Array`: a dataset of an HDF5 file, by h5py."""

from pathlib import Path

import numpy as np

from .errors import BatchError
from .stored_array import StoredArray, band_bytes, needed


class Hdf5Array(StoredArray):
    """A dataset.

    Args:
      path: of the file.
      name: of the dataset in it.

    Raises:
      BatchError: it cannot be opened, has no name, or h5py is missing.
    """

    def __init__(self, path: str, name: str | None):
        h5py = needed("h5py", path)
        if name is None:
            raise BatchError(f"{path}: an input must name the dataset in the file, such as {path}:/name")
        self.file = str(Path(path).resolve())
        self.path = f"{self.file}:{name}"
        self.state()
        try:
            dataset = h5py.File(self.file)[name]
            if isinstance(dataset, h5py.Dataset) and dataset.chunks:
                size = band_bytes(dataset.shape, dataset.chunks, dataset.dtype.itemsize)
                dataset.file.close()
                dataset = h5py.File(self.file, rdcc_nbytes=max(size, 2**20))[name]
        except Exception as error:  # damaged files fail in many ways
            raise BatchError(f"{self.path}: an input cannot be read: {error}") from None
        if not isinstance(dataset, h5py.Dataset) or dataset.shape is None:
            raise BatchError(f"{self.path}: an input must be a dataset, but it is {dataset!r}")
        self._dataset = dataset
        self.shape = dataset.shape

    def __getitem__(self, rows: slice) -> np.ndarray:
        return self._dataset[rows]
