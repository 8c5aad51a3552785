"""The operators, in teaching order: a file for each has its rules, its function and its structs."""

from .. import lowering as _lowering  # which registers its variants
from ._gather import *
from ._gather_elements import *
from ._gather_nd import *
from ._scatter_elements import *
from ._scatter_nd import *
from ._depth_to_space import *
from ._space_to_depth import *
from ._as_strided import *
from ._as_strided_scatter import *
from ._identity import *
from ._cast import *
from ._select import *
from ._slice import *
from ._slice_grad import *
from ._join import *
from ._split import *
from ._tile import *
from ._pad import *
from ._reverse_subsequences import *
from ._upsample_2d import *
from ._resample import *
from ._grid_sample import *
from ._value_scale_2d import *
from ._unfold import *
from ._fold import *
from ._max_unpooling import *
from ._one_hot import *
from ._top_k import *
from ._nonzero_coordinates import *
from ._fill_value_constant import *
from ._fill_value_sequence import *
from ._random_bits import random_bits
from ._diagonal_matrix import *
from ._fill_diagonals import *
from ._cumulative_summation import *
from ._cumulative_product import *
from ._gemm import *
from ._add import *
from ._clip import *
from ._activate import *
from ._reduce import *
from ._max_pooling import *
from ._average_pooling import *
from ._lp_pooling import lp_pooling as lp_pooling
from ._roi_pooling import roi_pooling as roi_pooling
from ._roi_align import roi_align as roi_align
from ._local_response_normalization import *
from ._convolution import *
from ._rnn import *
