"""Options of operators that are supported with some values alone: `to_jax` refuses a node with others at once."""

from collections.abc import Collection, Mapping
from typing import Any

from onnx import TensorProto

from .contrib_schemas import qualified
from .fused_activations import CONV_ACTIVATIONS, GEMM_ACTIVATIONS
from .node import Node

# Attributes and inputs in lower case, with the values that are supported; None is an input that is left out.
_SUPPORTED: Mapping[str, Mapping[str, Collection[Any]]] = {
    "Cast": {"to": {*TensorProto.DataType.values(), *TensorProto.DataType.keys()} - {TensorProto.STRING, "STRING"}},
    "SimplifiedLayerNormalization": {"stash_type": (1,)},
    "com.microsoft::Attention": {"do_rotary": (0,)},
    "com.microsoft::FusedConv": {"activation": CONV_ACTIVATIONS},
    "com.microsoft::FusedGemm": {"activation": GEMM_ACTIVATIONS},
    "com.microsoft::FusedMatMulActivation": {"activation": ("Softmax",)},
    "com.microsoft::GroupQueryAttention": {
        **dict.fromkeys(("k_scale", "v_scale"), (None,)),  # of caches that are quantised, as the next ones
        **dict.fromkeys(("k_quant_type", "v_quant_type"), ("NONE",)),
        "kv_cache_bit_width": (0,),
    },
    "com.microsoft::MatMulNBits": {"bits": (2, 4, 8), "weight_prepacked": (0,)},
    "com.microsoft::MultiHeadAttention": {"cache_indirection": (None,)},
    "com.microsoft::QAttention": {"do_rotary": (0,), "past_present_share_buffer": (0,)},
    "com.microsoft::RotaryEmbedding": {"scale": (1.0,)},
}


def refused_options(node: Node) -> str:
    """Returns the options of a node that are not supported, such as " with do_rotary=1"; "" if there are none."""
    inputs = {p.name.lower(): name for p, name in zip(node.schema.inputs, node.inputs, strict=False) if name}
    given = {**node.attributes, **inputs}
    options = _SUPPORTED.get(qualified(node.schema.domain, node.schema.name), {})
    refused = [f"{name}={given[name]}" for name in options if name in given and given[name] not in options[name]]
    return f" with {', '.join(refused)}" if refused else ""
