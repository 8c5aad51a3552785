"""`BucketOutput`: an array of zarr 3 in a bucket as an output, by TensorStore."""

import json
from typing import Any

from .errors import BatchError
from .partial_output import KEPT, NOT_WRITTEN
from .zarr_array import METADATA, PATIENCE, location, tensorstore_told
from .zarr_output import TOKEN, ZarrOutput


class BucketOutput(ZarrOutput):
    """An array that gets its metadata when all of its chunks are there: nothing takes it for one before.

    Raises:
      BatchError: TensorStore is missing, or the bucket cannot be reached.
    """

    can_replace = False

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        with self._told():
            context = self._tensorstore.Context(PATIENCE)
            self._bucket = self._tensorstore.KvStore.open(location(str(self.output)), context=context).result()

    def exists(self) -> bool:
        return any(self._read(name) is not None for name in METADATA)

    def token(self) -> str | None:
        found = self._read(TOKEN)
        return None if found is None else found.decode("latin-1")

    def create(self, token: str) -> None:
        is_partial = self._read(TOKEN) is not None
        with self._told():
            if not is_partial and self._bucket.list().result():
                raise BatchError(f"{self.path}: {NOT_WRITTEN}: there is something else; choose another name")
            self._bucket.delete_range(self._tensorstore.KvStore.KeyRange("c/", "c0")).result()  # all chunks
            self._bucket.write(TOKEN, token.encode()).result()

    def _writable(self) -> Any:
        return self._open(str(self.path), write=True, assume_metadata=True, **self._layout())

    def complete(self, rows: int) -> None:
        with self._told():
            self._open(str(self.path), create=True, **self._layout(rows))

    def known_by(self, rows: int) -> list[int]:
        return [rows]

    def is_known(self, path: Any, known: list[int]) -> bool:
        metadata = self._read("zarr.json")
        return metadata is not None and json.loads(metadata)["shape"][:1] == known

    def rename(self, known: list[int]) -> None:
        with self._told():
            self._bucket.write(TOKEN, None).result()  # deletes it

    def check_room(self, missing: int) -> None:
        pass

    def _read(self, name: str) -> bytes | None:
        with tensorstore_told(self.path, NOT_WRITTEN, KEPT):
            found = self._bucket.read(name).result()
        return found.value if found.state == "value" else None
