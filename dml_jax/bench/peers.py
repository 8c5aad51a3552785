"""Peers, where they are installed: torch with out=, ONNX Runtime with IO binding (ORT), CuPy with out=."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .case import Arrays, Case
from .implementations import CallRun, HostRun, Implementation, Run, forms_of, host_arrays, joined, own, thin
from .operators import OPERATORS
from .operators.operator_benchmark import OnnxNode

COMPILED = "compile"  # the form of torch's that torch.compile takes
TORCH = tuple(dict.fromkeys(name for row in OPERATORS.values() for name in row.torch if name != COMPILED))


def implementations(*, eager: bool, compiled: bool = False) -> list[Implementation]:
    """The implementations that are installed, this library first.

    Args:
      eager: for calls of small arrays.
      compiled: also what torch.compile makes, which takes seconds for every case.
    """
    if eager:
        return own(eager=True)
    found = own(eager=False)
    if find_spec("onnxruntime") and find_spec("onnx") and jax.default_backend() == "cpu":
        found.append(Implementation("ORT", _onnxruntime))
    found += torch_ways(TORCH)
    if compiled and has_torch():
        found.append(Implementation(f"torch {COMPILED}", _compiled))
    return [*found, *cupy_way()]


def torch_ways(names: Iterable[str]) -> list[Implementation]:
    """Forms of torch by their names; none where torch cannot be measured."""
    return [Implementation(f"torch {name}", partial(torch_form, name)) for name in names] if has_torch() else []


def cupy_way() -> list[Implementation]:
    """The forms of CuPy, where it can be measured."""
    return [Implementation("CuPy", _cupy)] if has_cupy() else []


def has_torch() -> bool:
    """Whether torch is installed, and computes on JAX's device."""
    if not find_spec("torch"):
        return False
    import torch  # pyright: ignore[reportMissingImports]

    return jax.default_backend() == "cpu" or torch.cuda.is_available()


def has_cupy() -> bool:
    """Whether CuPy is installed, and JAX runs on a GPU."""
    return bool(find_spec("cupy")) and jax.default_backend() != "cpu"


def versions() -> dict[str, str]:
    """The versions of everything that may be compared."""
    from importlib.metadata import PackageNotFoundError, version

    import dml_jax

    found = {"dml_jax": dml_jax.__version__}  # metadata are of what was installed last
    for name in ("jax", "jaxlib", "numpy", "onnxruntime", "torch", "cupy-cuda12x", "cupy-cuda13x"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


class _DeviceRun(HostRun):
    """A `HostRun` on a device with asynchronous dispatch."""

    def __init__(self, write: Callable[..., Any], out: Any, turns: Any, wait: Callable[[], Any], fetch: Any):
        super().__init__(write, out, turns)
        self.wait, self.fetch = wait, fetch

    def step(self, turn: int) -> None:
        made = self.write(self.out, *self.turns[turn % len(self.turns)])
        self.out = self.out if made is None else made

    def finish(self) -> None:
        self.wait()

    def value(self, most: int) -> np.ndarray:
        outs = self.out if isinstance(self.out, list | tuple) else [self.out]
        return joined([self.fetch(one, most) for one in outs])


def torch_run(write: Callable[..., Any], out: Any, turns: Sequence[Arrays]) -> Run:
    """Calls of a function of torch's that writes into its first argument, beside JAX's device."""
    import torch  # pyright: ignore[reportMissingImports]

    device = _device()

    def tensor(array: np.ndarray) -> Any:
        is_bfloat16 = array.dtype.name == "bfloat16"  # which torch takes from no array
        given = torch.from_numpy(np.ascontiguousarray(array.view(np.int16) if is_bfloat16 else array))
        # In memory of torch's: NumPy asks Linux for huge pages, which torch does not.
        image = given.to(device, copy=True)
        if is_bfloat16:
            return image.view(torch.bfloat16)
        return image.long() if image.dtype in (torch.int32, torch.uint32) else image

    def fetched(out: Any, most: int) -> np.ndarray:
        some = thin(out, most).cpu()
        return some.view(torch.int16).numpy().view(jnp.bfloat16) if some.dtype == torch.bfloat16 else some.numpy()

    wait = (lambda: None) if device == "cpu" else torch.cuda.synchronize
    return _DeviceRun(write, jax.tree.map(tensor, out), [tuple(map(tensor, arrays)) for arrays in turns], wait, fetched)


def _device() -> str:
    """The torch device of JAX's platform."""
    return "cpu" if jax.default_backend() == "cpu" else "cuda"


def torch_form(name: str, case: Case, turns: Sequence[Arrays]) -> Run | None:
    """Starts a form of torch by its name; None if the case lacks it, or torch its data type."""
    run = _run_of_torch(name, case, turns)
    try:
        if run:
            run.step(0)
    except (NotImplementedError, RuntimeError):
        return None
    return run


def _compiled(case: Case, turns: Sequence[Arrays]) -> Run | None:
    """Starts the form that torch.compile makes; a failure to compile is reported."""
    if not _compiles():
        return None
    import torch  # pyright: ignore[reportMissingImports]

    torch.compiler.reset()  # it compiles a function for eight shapes, and no longer for the ninth
    run = _run_of_torch(COMPILED, case, turns, lambda write: torch.compile(write, dynamic=False))
    try:
        if run:
            run.step(0)
    except Exception as error:  # of the compilers below it, too
        _tell("torch.compile", case.name, error)
        return None
    return run


@cache
def _compiles() -> bool:
    """Whether torch.compile works here: it needs a C++ compiler on a CPU, and Triton on a GPU."""
    import torch  # pyright: ignore[reportMissingImports]

    try:
        torch.compile(lambda x: x + 1)(torch.zeros(8, device=_device()))
    except Exception as error:
        _tell("torch.compile", "all cases", error)
        return False
    return True


def _tell(what: str, where: str, error: Exception) -> None:
    warnings.warn(f"{what} is left out of {where}: {str(error).partition(chr(10))[0]}", stacklevel=2)


def _is_foreign(arrays: Sequence[np.ndarray]) -> bool:
    """Whether the numbers are of a type that NumPy itself has not, such as bfloat16."""
    return any(array.dtype.kind == "V" for array in arrays)


def _run_of_torch(
    name: str, case: Case, turns: Sequence[Arrays], change: Callable[[Any], Any] = lambda write: write
) -> Run | None:
    import torch  # pyright: ignore[reportMissingImports]

    form = forms_of(case).torch.get(name)
    write = form(torch, case.attributes) if form else None
    return torch_run(change(write), host_arrays(case), turns) if write else None


def _cupy(case: Case, turns: Sequence[Arrays]) -> Run | None:
    """Starts the form of CuPy; None if the case lacks it, or CuPy its data type."""
    import cupy  # pyright: ignore[reportMissingImports]

    form = forms_of(case).cupy
    if not form or _is_foreign(turns[0]):
        return None
    run = _DeviceRun(
        form(cupy, case.attributes),
        jax.tree.map(cupy.asarray, host_arrays(case)),
        [tuple(map(cupy.asarray, arrays)) for arrays in turns],
        cupy.cuda.get_current_stream().synchronize,
        lambda out, most: cupy.asnumpy(thin(out, most)),
    )
    try:
        run.step(0)
    except (NotImplementedError, TypeError, ValueError) as error:
        _tell("CuPy", case.name, error)
        return None
    return run


def _onnxruntime(case: Case, turns: Sequence[Arrays]) -> Run | None:
    import onnxruntime

    form = forms_of(case).onnx
    node = form(case.attributes) if form else None
    outs = [_counted(out) for out in jax.tree.leaves(host_arrays(case))]
    if node is None or _is_foreign((*turns[0], *outs)):
        return None
    turns = [node.arrays(arrays) for arrays in turns]
    try:
        session = onnxruntime.InferenceSession(_model(node, turns[0], outs), providers=["CPUExecutionProvider"])
    except Exception:  # a data type that it does not offer
        return None
    bound = [onnxruntime.OrtValue.ortvalue_from_numpy(out) for out in outs]
    bindings = []
    for arrays in turns:
        binding = session.io_binding()
        for i, array in enumerate(arrays):
            binding.bind_ortvalue_input(f"i{i}", onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array)))
        for i, out in enumerate(bound):
            binding.bind_ortvalue_output(f"o{i}", out)
        bindings.append((binding,))
    write = lambda _, binding: session.run_with_iobinding(binding)  # noqa: E731
    return _DeviceRun(write, bound, bindings, lambda: None, lambda out, most: thin(out.numpy(), most))


def runtime_run(model: str | bytes, inputs: Sequence[Any]) -> CallRun:
    """Calls of ONNX Runtime on all cores of the CPU.

    Args:
      model: the path of a file, or its content.
      inputs: arrays, in the order of the model.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [input.name for input in session.get_inputs()]
    feeds = dict(zip(names, map(np.asarray, inputs), strict=True))
    return CallRun(lambda: session.run(None, feeds))


def _counted(out: np.ndarray) -> np.ndarray:
    """Indices as ONNX counts them."""
    return out.astype(np.int64) if out.dtype == np.uint32 else out


def _model(node: OnnxNode, arrays: Arrays, outs: Sequence[np.ndarray]) -> bytes:
    from onnx import helper, numpy_helper

    def infos(letter: str, of: Sequence[np.ndarray]) -> list[Any]:
        types = [helper.np_dtype_to_tensor_dtype(array.dtype) for array in of]
        return [
            helper.make_tensor_value_info(f"{letter}{i}", t, a.shape)
            for i, (t, a) in enumerate(zip(types, of, strict=True))
        ]

    inputs, outputs = infos("i", arrays), infos("o", outs)
    constants = {f"c{i}": array for i, array in enumerate(node.constants) if array is not None}
    names = [f"c{i}" if f"c{i}" in constants else "" for i in range(len(node.constants))]
    made = helper.make_node(
        node.name, [*(i.name for i in inputs), *names], [o.name for o in outputs], **node.attributes
    )
    initial = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph([made], node.name, inputs, outputs, initial)
    opsets = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
