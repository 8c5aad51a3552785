"""The operators of ONNX Runtime's DirectML provider: every one is done."""

from pathlib import Path

import pytest
from onnx_building import helper

from dml_jax.onnx import UnsupportedError
from dml_jax.onnx.contrib_schemas import qualified
from dml_jax.onnx.node_reader import Reader
from dml_jax.onnx.operator_table import ONNX_OPERATORS, find_schema

# By docs/OperatorKernels.md of microsoft/onnxruntime (001d12d2), without those that the provider makes itself.
OPERATORS = {
    "": """
        Abs Acos Acosh Add Affine And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization BitShift
        BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil Celu Clip Col2Im Concat ConcatFromSequence
        ConstantOfShape Conv ConvInteger ConvTranspose Cos Cosh Crop CumSum DFT DepthToSpace DequantizeLinear Div
        Dropout DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather
        GatherElements GatherND Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual GridSample
        HardSigmoid Hardmax Identity If ImageScaler InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization
        LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization LpPool MatMul MatMulInteger Max MaxPool MaxRoiPool
        MaxUnpool Mean MeanVarianceNormalization Min Mod Mul Neg NonZero Not OneHot OptionalGetElement
        OptionalHasElement Or PRelu Pad ParametricSoftplus Pow QLinearConv QLinearMatMul QuantizeLinear RNN Range
        Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd
        ReduceSum ReduceSumSquare Relu Reshape Resize ReverseSequence RoiAlign Round STFT ScaledTanh Scatter
        ScatterElements ScatterND Selu SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert
        SequenceLength Shape Shrink Sigmoid Sign SimplifiedLayerNormalization Sin Sinh Size Slice Softmax Softplus
        Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum Tan Tanh ThresholdedRelu Tile TopK Transpose Trilu
        Unsqueeze Upsample Where Xor
    """,
    "com.microsoft": """
        Attention BiasAdd BiasGelu BiasSplitGelu ConvTransposeWithDynamicPads DequantizeLinear DynamicQuantizeMatMul
        EmbedLayerNormalization FastGelu FusedMatMul FusedMatMulActivation Gelu GroupNorm GroupQueryAttention
        MatMulIntegerToFloat MatMulNBits MultiHeadAttention NhwcConv QAttention QLinearAdd QLinearAveragePool
        QLinearConcat QLinearGlobalAveragePool QLinearSigmoid QuantizeLinear QuickGelu RotaryEmbedding
        SkipLayerNormalization SkipSimplifiedLayerNormalization
    """,
}
NAMES = [(domain, name) for domain, names in OPERATORS.items() for name in names.split()]
PAGE = Path(__file__).parents[1] / "docs/reference/onnx_operators.md"


def is_done(domain, name):
    """Whether there is a function, or a body whose operators are done."""
    schema = find_schema(domain, name)
    if qualified(domain, name) in ONNX_OPERATORS or schema is None:
        return schema is not None
    names = [f"x{i}" for i in range(schema.min_input)]
    try:
        Reader({domain: schema.since_version}).step(helper.make_node(name, names, ["y"], domain=domain))
    except UnsupportedError:
        return False
    return True


def test_the_page_counts_the_operators():
    assert f"documents {len(set(NAMES))} operators" in " ".join(PAGE.read_text().split())


@pytest.mark.parametrize("domain", OPERATORS)
def test_every_operator_is_done(domain):
    assert [name for one, name in NAMES if one == domain and not is_done(domain, name)] == []
