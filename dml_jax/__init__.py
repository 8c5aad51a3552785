"""DirectML's operators as pure JAX functions."""

from importlib import import_module

TYPE_CHECKING = False  # as type checkers know it; `typing` would take as long as all else here
if TYPE_CHECKING:
    from . import batch as batch
    from . import descs as descs
    from . import layers as layers
    from . import onnx as onnx
    from .compiled.compile import (
        CompiledOperator as CompiledOperator,
        Memory as Memory,
        compile_operator as compile_operator,
    )
    from .compiled.program import BufferSpec as BufferSpec
    from .core.structs.activation import Activation as Activation
    from .core.structs.enumerations import AxisDirection as AxisDirection
    from .core.structs.computation import Computation as Computation
    from .core.tensors.data_type import DataType as DataType, TensorFlags as TensorFlags
    from .core.structs.operator_desc import OperatorDesc as OperatorDesc
    from .core.structs.feature_level import FeatureLevel as FeatureLevel
    from .core.tensors.tensor_desc import TensorDesc as TensorDesc
    from .desc_json import desc_from_json as desc_from_json, desc_to_json as desc_to_json
    from .dxdispatch.model_function import load_model as load_model
    from .errors import ConstraintError as ConstraintError, DataTypeError as DataTypeError
    from .graphs.builder import GraphBuilder as GraphBuilder
    from .graphs.graph_desc import GraphDesc as GraphDesc
    from .graphs.dot import graph_to_dot as graph_to_dot
    from .graphs.expression import Expression as Expression
    from .graphs.nodes_and_edges import Constant as Constant
    from .graphs.svg import draw_graph as draw_graph
    from .lowering.use_form import use_form as use_form
    from .operators import *
    from .operators._multihead_attention import MultiheadAttentionMaskType as MultiheadAttentionMaskType
    from .operators._quantize import QuantizationType as QuantizationType
    from .operators._random_bits import RandomGeneratorType as RandomGeneratorType
    from .operators._unary import IsInfinityMode as IsInfinityMode, RoundingMode as RoundingMode

__version__ = "1.1.0"

# Where a name is, beside those of `operators`: nothing is imported before it is used, JAX neither.
_PLACES = {
    "Activation": "core.structs.activation",
    "AxisDirection": "core.structs.enumerations",
    "BufferSpec": "compiled.program",
    "CompiledOperator": "compiled.compile",
    "Computation": "core.structs.computation",
    "Constant": "graphs.nodes_and_edges",
    "ConstraintError": "errors",
    "DataType": "core.tensors.data_type",
    "DataTypeError": "errors",
    "Expression": "graphs.expression",
    "FeatureLevel": "core.structs.feature_level",
    "GraphBuilder": "graphs.builder",
    "GraphDesc": "graphs.graph_desc",
    "IsInfinityMode": "operators._unary",
    "Memory": "compiled.compile",
    "MultiheadAttentionMaskType": "operators._multihead_attention",
    "OperatorDesc": "core.structs.operator_desc",
    "QuantizationType": "operators._quantize",
    "RandomGeneratorType": "operators._random_bits",
    "RoundingMode": "operators._unary",
    "TensorDesc": "core.tensors.tensor_desc",
    "TensorFlags": "core.tensors.data_type",
    "compile_operator": "compiled.compile",
    "desc_from_json": "desc_json",
    "desc_to_json": "desc_json",
    "draw_graph": "graphs.svg",
    "graph_to_dot": "graphs.dot",
    "load_model": "dxdispatch.model_function",
    "use_form": "lowering.use_form",
}
_SUBPACKAGES = ("batch", "descs", "layers", "onnx")


if not TYPE_CHECKING:  # a type checker knows all names

    def __getattr__(name):
        if name == "__all__":
            return _public()
        if name in _SUBPACKAGES:
            return import_module(f".{name}", __name__)
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        place = import_module(f".{_PLACES.get(name, 'operators')}", __name__)
        try:
            value = getattr(place, name)
        except AttributeError:
            from .unknown_names import unknown_name

            found_in = import_module(f".{'descs' if name.endswith('Desc') else 'operators'}", __name__)
            raise unknown_name(__name__, name, found_in) from None
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    from importlib.util import find_spec

    return [*_public(), *(name for name in _SUBPACKAGES if name != "onnx" or find_spec("onnx")), "__version__"]


def _public() -> list[str]:
    operators = vars(import_module(".operators", __name__))
    return sorted({*_PLACES, *(name for name in operators if not name.startswith("_"))})
