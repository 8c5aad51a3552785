"""The operators: plain functions on JAX arrays, natural ranks, traceable everywhere."""

from .depth_space import DepthSpaceOrder, depth_to_space, space_to_depth
from .gather import gather, gather_elements, gather_nd
from .scatter import scatter_elements, scatter_nd

__all__ = [
    "DepthSpaceOrder",
    "depth_to_space",
    "gather",
    "gather_elements",
    "gather_nd",
    "scatter_elements",
    "scatter_nd",
    "space_to_depth",
]
