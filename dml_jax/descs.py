"""All structs of DirectML: those that `dml_jax` has too, and those of operators whose function is one of JAX."""

from typing import TYPE_CHECKING, Any

from .core.desc import OperatorDesc
from .operators import *
from .operators._unary import *
from .operators._binary import *
from .operators._multihead_attention import *
