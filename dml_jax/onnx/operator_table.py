"""The table of supported operators and their schemas, merged from the files of operators."""

from onnx import defs

from . import (
    activations,
    affine_grid,
    attention,
    block_quantized,
    cast,
    causal_convolution,
    control_flow,
    convolution,
    data_movement,
    deform_conv,
    dropout,
    elementwise,
    flex_attention,
    fourier,
    fused_activations,
    gelu,
    grid_sample,
    group_normalization,
    group_query_attention,
    layout,
    linear_algebra,
    linear_attention,
    loops,
    losses,
    matmul,
    mean_variance_normalization,
    non_max_suppression,
    normalization,
    ort_attention,
    ort_layer_normalization,
    pooling,
    quantize_linear,
    quantized_lstm_attention,
    quantized_matmul,
    quantized_operators,
    random_numbers,
    recurrent,
    reductions,
    removed_operators,
    resize,
    roi,
    rotary_embedding,
    sequences,
    swiglu,
    tensor_scatter,
    unique,
    window_functions,
)
from .contrib_schemas import qualified
from .values import Operators

_FAMILIES = (
    *(data_movement, layout, cast, resize, matmul, elementwise, activations, reductions, control_flow),
    *(convolution, pooling, normalization, recurrent, linear_algebra, grid_sample, non_max_suppression),
    *(gelu, ort_attention, group_query_attention, rotary_embedding, block_quantized, ort_layer_normalization),
    *(loops, sequences, quantize_linear, quantized_operators, quantized_matmul, quantized_lstm_attention),
    *(roi, fourier, fused_activations, deform_conv, unique, removed_operators),
    *(attention, flex_attention, linear_attention, causal_convolution, swiglu, tensor_scatter),
    *(affine_grid, group_normalization, mean_variance_normalization, losses, window_functions),
    *(random_numbers, dropout),
)
ONNX_OPERATORS: Operators = {name: row for family in _FAMILIES for name, row in family.OPERATORS.items()}

# Schemas that the onnx package lacks; a family may have some.
_SCHEMAS = {
    qualified(own_schema.domain, own_schema.name): own_schema
    for family in _FAMILIES
    for own_schema in getattr(family, "SCHEMAS", ())
}
# The first opset in which such a schema no longer holds.
_ENDS = {own_schema.name: removed_operators.REMOVED for own_schema in removed_operators.SCHEMAS}
_ENDS |= {"LayerNormalization": 17}  # ONNX Runtime has it in ONNX's domain before ONNX does


def find_schema(domain: str, name: str, version: int | None = None) -> defs.OpSchema | None:
    """Returns the schema of an operator in a version of its domain, by default the newest; None if there is none."""
    key = qualified(domain, name)
    own = _SCHEMAS.get(key)
    if own is not None and version is not None and own.since_version <= version < _ENDS.get(key, 2**31):
        return own
    try:
        return defs.get_schema(name, domain) if version is None else defs.get_schema(name, version, domain)
    except defs.SchemaError:
        return own if version is None else None
