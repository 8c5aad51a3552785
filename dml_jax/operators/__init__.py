"""The catalogue, in teaching order: one operator, one file, with its rules, its function and its structs."""

from ._gather import *
from ._gather_elements import *
from ._gather_nd import *
from ._scatter_elements import *
from ._scatter_nd import *
from ._depth_to_space import *
from ._space_to_depth import *
from ._as_strided import *
from ._as_strided_scatter import *
from ._slice import *
from ._join import *
from ._split import *
from ._cast import *
from ._tile import *
from ._identity import *
from ._cumulative_summation import *
from ._cumulative_product import *
from ._unfold import *
from ._fold import *
