"""The table of supported operators, joined from the files that have some of them, and their schemas."""

from onnx import defs

from . import (
    activations,
    arithmetic,
    arrange,
    attention,
    casting,
    control,
    convolution,
    detection,
    elementwise,
    gelus,
    grouped_attention,
    linear_algebra,
    loops,
    low_bits,
    movement,
    normalization,
    pooling,
    quantize_linear,
    quantized,
    quantized_layers,
    quantized_products,
    recurrent,
    reductions,
    regions,
    removed,
    resizing,
    rotary,
    sampling,
    sequences,
    skip_normalization,
    spectra,
    unique,
)
from .schemas import qualified
from .values import Operators

__all__ = ["ONNX_OPERATORS", "find_schema"]

_FAMILIES = (
    *(movement, arrange, casting, resizing, arithmetic, elementwise, activations, reductions, control),
    *(convolution, pooling, normalization, recurrent, linear_algebra, sampling, detection),
    *(gelus, attention, grouped_attention, rotary, low_bits, skip_normalization),
    *(loops, sequences, quantize_linear, quantized, quantized_products, quantized_layers),
    *(regions, spectra, unique, removed),
)
ONNX_OPERATORS: Operators = {name: row for family in _FAMILIES for name, row in family.OPERATORS.items()}

# Of operators that the onnx package does not know; a family may have some.
_SCHEMAS = {qualified(one.domain, one.name): one for family in _FAMILIES for one in getattr(family, "SCHEMAS", ())}


def find_schema(domain: str, name: str, version: int | None = None) -> defs.OpSchema | None:
    """Returns the schema of an operator in a version of its domain, by default the newest; None if there is none."""
    own = _SCHEMAS.get(qualified(domain, name))
    if own is not None:
        end = removed.REMOVED if own in removed.SCHEMAS else float("inf")
        return own if version is None or own.since_version <= version < end else None
    try:
        return defs.get_schema(name, domain) if version is None else defs.get_schema(name, version, domain)
    except defs.SchemaError:
        return None
