"""DirectML's index and depth/space operators as pure JAX functions."""

from .errors import ConstraintError, DataTypeError
from .operators.depth_space import DepthSpaceOrder, depth_to_space, space_to_depth
from .operators.gather import gather, gather_elements, gather_nd
from .operators.scatter import scatter_elements, scatter_nd

__all__ = [
    "ConstraintError",
    "DataTypeError",
    "DepthSpaceOrder",
    "depth_to_space",
    "gather",
    "gather_elements",
    "gather_nd",
    "scatter_elements",
    "scatter_nd",
    "space_to_depth",
]
