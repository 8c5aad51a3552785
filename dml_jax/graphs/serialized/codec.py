"""Reads and writes the bytes of a serialized graph, as ONNX Runtime's DirectML provider lays them out."""

from ...errors import ConstraintError, DataTypeError
from .error_context import at
from .flatbuffer import Content
from .records import SerializedGraph
from .schema import GRAPH


def decode(content: bytes) -> SerializedGraph:
    """Reads the serialized form of a graph. Files are untrusted: the format is checked before objects are built.

    Args:
      content: the bytes of a file that ONNX Runtime's DirectML provider wrote, or `encode`.

    Returns:
      The content of the file. Not checked: that values are written before they are read, and that operators are known.

    Raises:
      ConstraintError: the bytes break the format, such as a table that lies outside of them; or their parts overlap,
        so that there would be far more to read than the bytes can say.
      DataTypeError: no bytes.

    Source: DmlGraphDeserialization.cpp of DxDispatch.
    """
    if not isinstance(content, bytes | bytearray | memoryview):
        raise DataTypeError(f"a serialized graph must be bytes, but it is {type(content).__name__}")
    return GRAPH.read(Content(bytes(content)), "serialized graph", 0)


def encode(graph: SerializedGraph) -> bytes:
    """Writes the serialized form of a graph; `decode` gives back an equal one.

    Args:
      graph: the graph. Numbers of FLOAT fields are rounded to 32 bits.

    Returns:
      The content of the file, which DxDispatch can read.

    Raises:
      ConstraintError: a node has no name, a value does not fit its field, a constant is too long for the format, or
        the package flatbuffers is missing.
    """
    try:
        from flatbuffers.builder import Builder, BuilderSizeError  # an extra
    except ImportError as error:
        fix = "pip install '.[graphs]' in a clone installs it"
        raise ConstraintError(f"writing a serialized graph needs the package flatbuffers: {error}; {fix}") from None
    builder = Builder(1024)
    with at("serialized graph"):
        try:
            builder.Finish(GRAPH.write(builder, "", graph))
        except BuilderSizeError:
            raise ConstraintError("it must have less than 2 GiB, the most that the format holds") from None
    return bytes(builder.Output())
