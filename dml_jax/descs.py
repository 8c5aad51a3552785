"""All structs of DirectML: those that `dml_jax` has too, and those of operators whose function is one of JAX."""

import sys
from typing import TYPE_CHECKING, Any

from .core.structs.operator_desc import OperatorDesc
from .operators import *
from .operators._unary import *
from .operators._binary import *
from .operators._unfused_activations import *
from .operators._argmax import *
from .operators._random_bits import *
from .operators._lp_pooling import *
from .operators._pooling_grad import *
from .operators._resample_grad import *
from .operators._roi_pooling import *
from .operators._roi_align import *
from .operators._roi_align_grad import *
from .operators._batch_normalization import *
from .operators._batch_normalization_grad import *
from .operators._mean_variance_normalization import *
from .operators._lp_normalization import *
from .operators._local_response_normalization_grad import *
from .operators._lstm import *
from .operators._gru import *
from .operators._multihead_attention import *
from .operators._quantize_linear import *
from .operators._quantize import *
from .operators._integer_matrix_multiply import *
from .operators._integer_convolution import *
from .operators._quantized_average_pooling import *
from .operators._adam_optimizer import *
from .unknown_names import unknown_name

if TYPE_CHECKING:
    # The structs that are rows of tables.
    def __getattr__(name: str) -> Any: ...

else:

    def __getattr__(name):
        if name == "__all__":
            return __dir__()
        raise unknown_name(__name__, name, sys.modules[__name__])


def __dir__() -> list[str]:
    is_struct = {name: isinstance(value, type) and issubclass(value, OperatorDesc) for name, value in globals().items()}
    return sorted(name for name in is_struct if is_struct[name] and name != OperatorDesc.__name__)
