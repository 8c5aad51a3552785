"""What the cases of unfold and fold share: windows of convolutions, and of transformers of pictures."""

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

__all__ = ["WINDOWS", "Window"]


class Window(NamedTuple):
    """Windows over pictures: their sides, how far they are apart, the padding, and channels and side of a picture."""

    sides: int
    step: int
    pad: int
    channels: int
    side: int

    @property
    def name(self) -> str:
        return f"{self.sides}x{self.sides}, {self.step} apart"

    @property
    def attributes(self) -> Mapping[str, Any]:
        pads = (self.pad, self.pad)
        return {
            "window_sizes": (self.sides, self.sides),
            "strides": (self.step, self.step),
            "start_padding": pads,
            "end_padding": pads,
        }

    def picture(self, size: int, itemsize: int) -> tuple[int, ...]:
        """The pictures whose columns have about so many bytes."""
        return (self._batch(size, itemsize), self.channels, self.side, self.side)

    def columns(self, size: int, itemsize: int) -> tuple[int, ...]:
        """Of these pictures."""
        return (self._batch(size, itemsize), *self._columns)

    def _batch(self, size: int, itemsize: int) -> int:
        return max(1, size // (itemsize * prod(self._columns)))

    @property
    def _columns(self) -> tuple[int, int]:
        count = (self.side + 2 * self.pad - self.sides) // self.step + 1
        return (self.channels * self.sides**2, count**2)


WINDOWS = (Window(3, 1, 1, 16, 56), Window(7, 2, 3, 3, 112), Window(14, 14, 0, 3, 224))
