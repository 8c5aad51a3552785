"""Pictures as NCHW tensors: floats in [0, 1], as DxDispatch has them, or bytes as they are (UINT8, an extension)."""

import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ..core.json_fields import shown
from ..core.tensors.data_type import DataType
from ..errors import ConstraintError
from .initial_values import Initial
from .json_fields import get

# The formats of files, by their endings.
PICTURES = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}
CHANNEL_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
# The pixels that are read, all of 8 bits or fewer, and the channels that they become.
MODE_CHANNELS = {"1": 1, "L": 1, "P": 3, "RGB": 3, "CMYK": 3, "LA": 4, "RGBA": 4}
# The most bytes that encoding takes for an element: a float and a byte, or a byte, Pillow's copy and the file's.
ENCODING_BYTES = 5
# The most bytes that decoding takes for a pixel: Pillow's four, NumPy's copy of them, and two floats of a channel.
DECODING_BYTES = 16
PICTURE_TYPES = (DataType.FLOAT32, DataType.FLOAT16, DataType.UINT8)


def read_picture(path: Path, data_type: DataType | None, options: Mapping[str, Any]) -> Initial:
    """A picture file as a tensor (1, C, H, W); `resampleSize` scales it. Only its header is read here."""
    _check_type(data_type)
    with _open(path) as image:
        if image.mode not in MODE_CHANNELS:
            accepted = ", ".join(MODE_CHANNELS)
            raise ConstraintError(f"{path.name!r} has pixels of mode {image.mode}; convert it to one of {accepted}")
        shape = _target(image, options)
        _, height, width = shape
        pixels = (image.width + width) * image.height + width * height  # resized in one direction, then in both
    return Initial(prod(shape), data_type, partial(_fill, path, shape), path, temporary=DECODING_BYTES * pixels)


def _fill(path: Path, shape: tuple[int, int, int], out: np.ndarray) -> None:
    from PIL import Image

    channels, height, width = shape
    with _open(path) as image:
        pixels = image.convert(CHANNEL_MODES[channels])
    if pixels.size != (width, height):
        pixels = pixels.resize((width, height), Image.Resampling.BICUBIC)
    planes = out.reshape(shape)
    for channel, plane in enumerate(np.asarray(pixels).reshape(height, width, channels).transpose(2, 0, 1)):
        planes[channel] = plane if out.dtype == np.uint8 else plane.astype(np.float32) / 255


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    """The open picture; an error of Pillow becomes a fault, and so does its absence."""
    try:
        from PIL import Image
    except ImportError:
        fix = "pip install '.[cli]' in a clone installs it"
        raise ConstraintError(f"{path.name!r} is a picture, which needs Pillow; {fix}") from None
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        try:
            # Only these two: for other formats Pillow may start programs.
            with Image.open(path, formats=("PNG", "JPEG")) as image:
                yield image
        except ConstraintError:
            raise
        except Exception as error:  # damaged pictures fail in many ways
            raise ConstraintError(f"{path.name!r} is not a readable PNG or JPEG picture: {error}") from None


def _target(image: Any, options: Mapping[str, Any]) -> tuple[int, int, int]:
    """Channels, height and width of the tensor: `resampleSize`, or the picture's own."""
    if get(options, "resampleMode", str, "scale") != "scale":
        raise ConstraintError("'resampleMode' must be 'scale'")
    size = get(options, "resampleSize", list, [1, MODE_CHANNELS[image.mode], image.height, image.width])
    valid = len(size) == 4 and all(type(n) is int and 0 < n < 2**16 for n in size)
    if not valid or size[0] != 1 or size[1] not in CHANNEL_MODES:
        raise ConstraintError(f"'resampleSize' must be [1, C, H, W] with C of 1, 3 or 4, but it is {shown(size)}")
    return size[1], size[2], size[3]


def picture_shape(dimensions: Sequence[int], data_type: DataType | None) -> tuple[int, int, int]:
    """Channels, height and width of a picture to write, from `dimensions` (1, C, H, W).

    Raises:
      ConstraintError: no such dimensions, or a type that pictures cannot have.
    """
    _check_type(data_type)
    if len(dimensions) != 4 or dimensions[0] != 1 or dimensions[1] not in CHANNEL_MODES:
        raise ConstraintError(f"a picture needs 'dimensions' [1, C, H, W] with C of 1, 3 or 4, not {list(dimensions)}")
    return dimensions[1], dimensions[2], dimensions[3]


def _check_type(data_type: DataType | None) -> None:
    if data_type not in PICTURE_TYPES:
        shown = "UNKNOWN" if data_type is None else data_type.name
        accepted = ", ".join(t.name for t in PICTURE_TYPES)
        raise ConstraintError(f"a picture's data type must be one of {accepted}, but it is {shown}")


def encode_picture(values: np.ndarray, picture_format: str) -> bytes:
    """A tensor (C, H, W) as the bytes of a PNG or JPEG file; floats are clamped to [0, 1] and rounded to 8 bits."""
    from PIL import Image

    if values.dtype != np.uint8:
        shares = values.astype(np.float32)
        np.minimum(np.fmax(shares, 0, out=shares), 1, out=shares)  # NaN becomes 0
        shares *= 255
        values = np.rint(shares, out=shares).astype(np.uint8)
        del shares
    channels = values.shape[0]
    pixels = np.ascontiguousarray(values.transpose(1, 2, 0))
    buffer = io.BytesIO()
    Image.fromarray(pixels[..., 0] if channels == 1 else pixels, CHANNEL_MODES[channels]).save(buffer, picture_format)
    return buffer.getvalue()
