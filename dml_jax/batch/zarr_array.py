"""`ZarrArray`: an array of zarr 2 or 3 in a folder or a bucket, by TensorStore."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any

import numpy as np

from .errors import BatchError
from .stored_array import StoredArray, band_bytes, needed, told

METADATA = ("zarr.json", ".zarray")  # of zarr 3 and 2
# Of requests that fail, for a quarter of a minute.
RETRIES = {"max_retries": 5, "initial_delay": "500ms", "max_delay": "8s"}
PATIENCE = {f"{kind}_request_retries": RETRIES for kind in ("s3", "gcs", "http")}


class ZarrArray(StoredArray):
    """An array of zarr.

    Args:
      path: its folder, or a URL: s3://, gs://, https://.

    Raises:
      BatchError: it cannot be opened, or TensorStore is missing.
    """

    def __init__(self, path: str):
        self._tensorstore = needed("tensorstore", path)
        self._is_local = "://" not in path
        self.path = str(Path(path).resolve()) if self._is_local else path
        self.state()
        store = self._opened("auto", {})
        driver = store.spec().to_json()["driver"]
        if driver not in ("zarr", "zarr3"):
            raise BatchError(f"{path}: an input must be an array of zarr 2 or 3, but it is something else")
        if store.rank:
            chunk = store.chunk_layout.read_chunk.shape
            size = band_bytes(store.shape, chunk, store.dtype.numpy_dtype.itemsize)
            store = self._opened(driver, {"cache_pool": {"total_bytes_limit": size}}, recheck_cached_data="open")
        self.shape = store.shape
        self._store = store

    def _opened(self, driver: str, context: dict[str, Any], **options: Any) -> Any:
        with tensorstore_told(self.path, "an input must be an array of zarr"):
            context = self._tensorstore.Context({**PATIENCE, **context})
            spec = {"driver": driver, "kvstore": location(self.path)}
            opened = self._tensorstore.open(spec, open=True, read=True, **options, context=context)
            return opened.result()

    def __getitem__(self, rows: slice) -> np.ndarray:
        with tensorstore_told(self.path, "an input cannot be read"):
            return self._store[rows].read().result()

    def state(self) -> dict[str, Any]:
        if self._is_local:
            return _folder_state(self.path)
        with tensorstore_told(self.path, "an input cannot be read"):
            context = self._tensorstore.Context(PATIENCE)
            bucket = self._tensorstore.KvStore.open(location(self.path), context=context).result()
            found = (bucket.read(name).result() for name in METADATA)
            return {"generation": next((read.stamp.generation.hex() for read in found if read.state == "value"), None)}


@contextmanager
def tensorstore_told(path: Any, what: str, then: str = "") -> Iterator[None]:
    """Context manager that turns an error of TensorStore into a BatchError, as `os_errors_told` does for others."""
    try:
        yield
    except (ValueError, OSError, RuntimeError, NotImplementedError) as error:
        plain = re.split(r" \[[\w -]+=", str(error))[0]  # without its sources and settings, and the server's answer
        raise BatchError(f"{path}: {what}: {plain}{then and '; '}{then}") from None


def location(path: str) -> Any:
    """Returns TensorStore's description of a folder, or of one in a bucket; AWS_ENDPOINT_URL is another S3 server."""
    if "://" not in path:
        return {"driver": "file", "path": f"{path}/"}
    url, server = f"{path.rstrip('/')}/", os.environ.get("AWS_ENDPOINT_URL")
    if not server or not url.startswith("s3://"):
        return url
    bucket, _, key = url.removeprefix("s3://").partition("/")
    region = os.environ.get("AWS_DEFAULT_REGION", "us-east-1")
    return {"driver": "s3", "bucket": bucket, "path": key, "endpoint": server, "aws_region": region}


def is_zarr(path: str | os.PathLike[str]) -> bool:
    """Whether a folder is an array of zarr."""
    return any(os.path.isfile(os.path.join(path, name)) for name in METADATA)


def _folder_state(path: str) -> dict[str, Any]:
    """Returns the number of files, their size, and the time of the newest.

    Raises:
      BatchError: there is none, or something that is neither a file nor a folder, for which a program could wait.
    """
    count = size = newest = 0
    folders = [path]
    with told(path):
        while folders:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    status = entry.stat()
                    if S_ISDIR(status.st_mode):
                        folders.append(entry.path)
                    elif S_ISREG(status.st_mode):
                        count, size, newest = count + 1, size + status.st_size, max(newest, status.st_mtime_ns)
                    else:
                        raise OSError(None, f"{entry.path} is not a regular file")
    return {"files": count, "size": size, "mtime_ns": newest}
