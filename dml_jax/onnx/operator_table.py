"""The table of supported operators and their schemas, merged from the files of operators."""

from onnx import defs

from . import (
    activations,
    block_quantized,
    cast,
    control_flow,
    convolution,
    data_movement,
    elementwise,
    fourier,
    fused_activations,
    gelu,
    grid_sample,
    group_query_attention,
    layout,
    linear_algebra,
    loops,
    matmul,
    non_max_suppression,
    normalization,
    ort_attention,
    ort_layer_normalization,
    pooling,
    quantize_linear,
    quantized_lstm_attention,
    quantized_matmul,
    quantized_operators,
    recurrent,
    reductions,
    removed_operators,
    resize,
    roi,
    rotary_embedding,
    sequences,
    unique,
)
from .contrib_schemas import qualified
from .values import Operators

__all__ = ["ONNX_OPERATORS", "find_schema"]

_FAMILIES = (
    *(data_movement, layout, cast, resize, matmul, elementwise, activations, reductions, control_flow),
    *(convolution, pooling, normalization, recurrent, linear_algebra, grid_sample, non_max_suppression),
    *(gelu, ort_attention, group_query_attention, rotary_embedding, block_quantized, ort_layer_normalization),
    *(loops, sequences, quantize_linear, quantized_operators, quantized_matmul, quantized_lstm_attention),
    *(roi, fourier, fused_activations, unique, removed_operators),
)
ONNX_OPERATORS: Operators = {name: row for family in _FAMILIES for name, row in family.OPERATORS.items()}

# Schemas of operators that the onnx package does not know; a family may have some.
_SCHEMAS = {
    qualified(own_schema.domain, own_schema.name): own_schema
    for family in _FAMILIES
    for own_schema in getattr(family, "SCHEMAS", ())
}


def find_schema(domain: str, name: str, version: int | None = None) -> defs.OpSchema | None:
    """Returns the schema of an operator in a version of its domain, by default the newest; None if there is none."""
    own = _SCHEMAS.get(qualified(domain, name))
    if own is not None:
        end = removed_operators.REMOVED if own in removed_operators.SCHEMAS else float("inf")
        return own if version is None or own.since_version <= version < end else None
    try:
        return defs.get_schema(name, domain) if version is None else defs.get_schema(name, version, domain)
    except defs.SchemaError:
        return None
