"""DirectML's index and depth/space operators as pure JAX functions."""

from .compiled.compile import CompiledOperator, Memory, compile_operator
from .compiled.program import BufferSpec
from .core.data_type import DataType, TensorFlags
from .core.desc import OperatorDesc
from .core.feature_level import FeatureLevel
from .core.tensor import TensorDesc
from .desc_json import desc_from_json, desc_to_json
from .descriptors.depth_space import DepthToSpace1Desc, DepthToSpaceDesc, SpaceToDepth1Desc, SpaceToDepthDesc
from .descriptors.gather import GatherDesc, GatherElementsDesc, GatherND1Desc, GatherNDDesc
from .descriptors.scatter import ScatterDesc, ScatterElementsDesc, ScatterNDDesc
from .errors import ConstraintError, DataTypeError
from .lowering.forms import use_form
from .operators.depth_space import DepthSpaceOrder, depth_to_space, space_to_depth
from .operators.gather import gather, gather_elements, gather_nd
from .operators.scatter import scatter_elements, scatter_nd
from .operators.strided import as_strided, as_strided_scatter

__version__ = "0.1.0"

__all__ = [
    "BufferSpec",
    "CompiledOperator",
    "ConstraintError",
    "DataType",
    "DataTypeError",
    "DepthSpaceOrder",
    "DepthToSpace1Desc",
    "DepthToSpaceDesc",
    "FeatureLevel",
    "GatherDesc",
    "GatherElementsDesc",
    "GatherND1Desc",
    "GatherNDDesc",
    "Memory",
    "OperatorDesc",
    "ScatterDesc",
    "ScatterElementsDesc",
    "ScatterNDDesc",
    "SpaceToDepth1Desc",
    "SpaceToDepthDesc",
    "TensorDesc",
    "TensorFlags",
    "as_strided",
    "as_strided_scatter",
    "compile_operator",
    "depth_to_space",
    "desc_from_json",
    "desc_to_json",
    "gather",
    "gather_elements",
    "gather_nd",
    "scatter_elements",
    "scatter_nd",
    "space_to_depth",
    "use_form",
]
