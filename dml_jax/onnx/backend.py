"""`Backend`: implements `onnx.backend.base.Backend`, the interface of ONNX's test runner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from onnx.backend.base import Backend as Base
from onnx.backend.base import BackendRep, namedtupledict

from ..core.executable import Executable, compile_in_steps
from ..errors import ConstraintError
from .errors import NotConstantError
from .function import OnnxFunction, to_jax
from .progress import DOING
from .shape_inference import known_shapes
from .single_node import run_node
from .traced_memory import check_program_arrays
from .values import as_tuple

# ONNX's names of devices, and JAX's.
PLATFORMS = {"CPU": "cpu", "CUDA": "cuda"}


# Elements of an initializer that is part of a compiled program.
FEW = 256


def compute(function: OnnxFunction, inputs: Sequence[Any], key: Any = None) -> tuple[np.ndarray, ...]:
    """Runs a function with x64 on; `key` is one of `jax.random` for its random numbers."""
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, runner(function, inputs, key)())


def runner(function: OnnxFunction, inputs: Sequence[Any], key: Any = None) -> Callable[[], tuple[Any, ...]]:
    """Returns a callable that runs a function: compiled, or node by node if the data of an input decide a shape.

    x64 must be on, here and when it runs.
    """
    try:
        return compiled(function, inputs, key)
    except NotConstantError:
        return node_by_node(function, inputs, key)


def compiled(function: OnnxFunction, inputs: Sequence[Any], key: Any = None) -> Executable:
    """Compiles a function for inputs, and returns the executable; x64 must be on, here and when it runs.

    Raises:
      NotConstantError: the data of an input decides a shape.
      ConstraintError: it needs more memory than there is.
    """
    # Weights in a program take long to compile; a few numbers may decide a shape, as the scales of a Resize do.
    weights = {name: jnp.asarray(value) for name, value in function.parameters.items() if value.size > FEW}

    def check(traced: Any) -> None:
        try:
            check_program_arrays(traced.jaxpr)
        except ConstraintError:
            known_shapes(function._of_sizes([x.shape for x in inputs]))  # says in which node
            raise
        DOING.text = "XLA compiles"

    call = lambda p, x, k: as_tuple(function(*x, parameters=p, key=k))  # noqa: E731
    executable = compile_in_steps(call, (weights, list(inputs), key), check)
    DOING.text = "it runs"
    return executable


def node_by_node(function: OnnxFunction, inputs: Sequence[Any], key: Any = None) -> Callable[[], tuple[Any, ...]]:
    """Returns a callable that runs a function without compiling it; x64 must be on when it runs."""
    return lambda: as_tuple(function(*inputs, key=key))


class Prepared(BackendRep):
    """A model that is ready to run.

    Args:
      function: the model.
      device: of JAX.
    """

    def __init__(self, function: OnnxFunction, device: Any):
        self.function: OnnxFunction = function
        self.device: Any = device

    def __reduce__(self) -> Any:
        return _prepared, (self.function, self.device.platform, jax.devices(self.device.platform).index(self.device))

    def run(self, inputs: Any, *, key: Any = None, **_: Any) -> tuple[np.ndarray, ...]:
        """Runs the model on arrays, in order or by name, and on a key for random numbers; x64 is on meanwhile.

        Returns:
          NumPy arrays, lists of them and None, as the function returns them, also by the names of the outputs.
        """
        arrays = [inputs[spec.name] for spec in self.function.inputs] if isinstance(inputs, dict) else inputs
        with jax.default_device(self.device):
            results = compute(self.function, arrays, key)
        return namedtupledict("Outputs", self.function.output_names)(*results)


class Backend(Base):
    """ONNX's interface to a runtime; x64 is on while a model runs.

    Example:
      >>> import numpy as np
      >>> from onnx import helper
      >>> from dml_jax.onnx import Backend
      >>> node = helper.make_node("SpaceToDepth", ["x"], ["y"], blocksize=2)
      >>> Backend.run_node(node, [np.arange(4, dtype=np.int64).reshape(1, 1, 2, 2)])[0].ravel()
      array([0, 1, 2, 3])
    """

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **_: Any) -> bool:
        """Whether `prepare` takes the model."""
        try:
            cls.prepare(model, device)
        except ValueError:
            return False
        return True

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **_: Any) -> Prepared:
        """Reads a model, for one of the devices "CPU", "CUDA", "CUDA:1"."""
        return Prepared(to_jax(model), _device(device))

    @classmethod
    def run_model(
        cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **options: Any
    ) -> tuple[np.ndarray, ...]:
        """Runs a model once; the option `key` is one of `jax.random`."""
        return cls.prepare(model, device).run(inputs, **options)

    @classmethod
    def run_node(  # type: ignore[override]
        cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None, **options: Any
    ) -> tuple[np.ndarray, ...]:
        """Runs a node once, of the version `opset_version` or the newest; the option `key` is one of `jax.random`."""
        chosen = {"opset": options.get("opset_version"), "key": options.get("key")}
        with jax.enable_x64(True), jax.default_device(_device(device)):
            return jax.tree.map(np.asarray, run_node(node, inputs, **chosen))

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether JAX has this device."""
        try:
            _device(device)
        except (KeyError, ValueError, IndexError, RuntimeError):
            return False
        return True


def _prepared(function: OnnxFunction, platform: str, number: int) -> Prepared:
    return Prepared(function, jax.devices(platform)[number])


def _device(name: str) -> Any:
    kind, _, number = name.partition(":")
    return jax.devices(PLATFORMS[kind])[int(number or 0)]
