"""ONNX Runtime's FusedConv and FusedGemm: Conv and Gemm with the activation after them in one node.

Its optimiser writes them at the level "extended". Each computes as the nodes that it stands for.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.structs.activation import Activation
from ..core.structs.activation_table import ACTIVATIONS
from ..errors import ConstraintError
from ..operators import activate
from .contrib_schemas import optional, required, schema
from .convolution import CONV_ATTRIBUTES, conv
from .elementwise import add
from .matmul import gemm
from .operand_checks import check_shape, needed
from .values import Array, Operators, on_device

# The activations of ONNX Runtime's CPU provider; `to_jax` refuses others. By the name in a FusedConv: DirectML's name,
# and the names of the numbers in `activation_params`.
CONV_ACTIVATIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "Clip": ("ELEMENT_WISE_CLIP", ("Min", "Max")),
    "HardSigmoid": ("ACTIVATION_HARD_SIGMOID", ("Alpha", "Beta")),
    "HardSwish": ("ACTIVATION_HARD_SWISH", ()),
    "LeakyRelu": ("ACTIVATION_LEAKY_RELU", ("Alpha",)),
    "Relu": ("ACTIVATION_RELU", ()),
    "Sigmoid": ("ACTIVATION_SIGMOID", ()),
    "Silu": ("ACTIVATION_SWISH", ()),
    "Tanh": ("ACTIVATION_TANH", ()),
}
# The same of a FusedGemm, whose numbers are attributes of their own: Alpha is `activation_alpha`.
GEMM_ACTIVATIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    **{name: row for name, row in CONV_ACTIVATIONS.items() if name not in ("Clip", "HardSwish", "Silu")},
    "Celu": ("ACTIVATION_CELU", ("Alpha",)),
    "Elu": ("ACTIVATION_ELU", ("Alpha",)),
    "ParametricSoftplus": ("ACTIVATION_PARAMETRIC_SOFTPLUS", ("Alpha", "Beta")),
    "ScaledTanh": ("ACTIVATION_SCALED_TANH", ("Alpha", "Beta")),
    "Selu": ("ACTIVATION_SCALED_ELU", ("Alpha", "Gamma")),
    "Softplus": ("ACTIVATION_SOFTPLUS", ()),
    "Softsign": ("ACTIVATION_SOFTSIGN", ()),
    "ThresholdedRelu": ("ACTIVATION_THRESHOLDED_RELU", ("Alpha",)),
}


def _fused_conv(
    *, z: Array | None = None, activation: str | None = None, activation_params: Sequence[float] = (), **given: Any
) -> Array:
    """FusedConv: activation(Conv + z). As in ONNX Runtime, an activation without numbers does not read any."""
    y = conv(**given)
    if z is not None:
        check_shape("Z", z, y.shape)
        y = add(a=y, b=z)
    if activation is None:
        return y
    operator, names = CONV_ACTIVATIONS[activation]
    if names and len(activation_params) != len(names):
        rule = f"activation_params of {activation} must be {len(names)} numbers"
        raise ConstraintError(f"{rule}, but they are {[*activation_params]}")
    return _activated(y, operator, dict(zip(names, activation_params, strict=False)))


def _fused_gemm(
    *,
    activation: str,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    **given: Any,
) -> Array:
    """FusedGemm: activation(Gemm). As in ONNX Runtime, numbers that the activation does not have are not read."""
    operator, names = GEMM_ACTIVATIONS[activation]
    numbers = {"Alpha": activation_alpha, "Beta": activation_beta, "Gamma": activation_gamma}
    reason = f"the activation is {activation}"
    values = {name: needed(f"activation_{name.lower()}", numbers[name], reason) for name in names}
    return _activated(gemm(**given), operator, values)


def _activated(y: Array, operator: str, values: Mapping[str, float]) -> Array:
    """Applies an activation; numbers that are not among the values have their defaults, such as a steepness of 1."""
    return activate(on_device(y), Activation.of(operator, {**ACTIVATIONS[operator].parameters, **values}))


OPERATORS: Operators = {
    "com.microsoft::FusedConv": {1: _fused_conv},
    "com.microsoft::FusedGemm": {1: _fused_gemm},
}
_FLOATS = "float16 float double"
SCHEMAS = (
    schema(
        "FusedConv",
        "X T, W T, B? T, Z? T",
        "Y T",
        CONV_ATTRIBUTES | {"activation": optional("STRING"), "activation_params": optional("FLOATS")},
        T=_FLOATS,
    ),
    schema(
        "FusedGemm",
        "A T, B T, C? T",
        "Y T",
        {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0, "activation": required("STRING")}
        | {f"activation_{name}": optional("FLOAT") for name in ("alpha", "beta", "gamma")},
        T=f"{_FLOATS} uint32 uint64 int32 int64",
    ),
)
