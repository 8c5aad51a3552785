"""Every descriptor class by the name that DirectML gives its operator."""

from collections.abc import Mapping

from ..core.desc import OperatorDesc
from .depth_space import DepthToSpace1Desc, DepthToSpaceDesc, SpaceToDepth1Desc, SpaceToDepthDesc
from .gather import GatherDesc, GatherElementsDesc, GatherND1Desc, GatherNDDesc
from .scatter import ScatterElementsDesc, ScatterNDDesc

__all__ = ["CLASSES", "OPERATORS"]

CLASSES: tuple[type[OperatorDesc], ...] = (
    GatherDesc,
    GatherElementsDesc,
    GatherNDDesc,
    GatherND1Desc,
    DepthToSpaceDesc,
    DepthToSpace1Desc,
    SpaceToDepthDesc,
    SpaceToDepth1Desc,
    ScatterElementsDesc,
    ScatterNDDesc,
)
ALIASES: dict[str, type[OperatorDesc]] = {"SCATTER_ELEMENTS": ScatterElementsDesc}
OPERATORS: Mapping[str, type[OperatorDesc]] = {cls.operator_type: cls for cls in CLASSES} | ALIASES
