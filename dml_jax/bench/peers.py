"""Other libraries, where they are installed: torch with out=, ONNX Runtime with IO binding (ORT), CuPy with out=."""

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import jax
import numpy as np

import dml_jax

from .cases import Case
from .contenders import Contender, HostRun, Run, depth_to_space, own, space_to_depth, spread

__all__ = ["contenders", "torch_run", "versions"]

Arrays = tuple[np.ndarray, ...]
Start = Callable[[Case, Sequence[Arrays]], Run | None]


def contenders(*, eager: bool) -> list[Contender]:
    """All that are installed, this library first; `eager` for calls of small arrays."""
    others = {} if eager else _installed()
    return [*own(eager=eager), *(Contender(name, start) for name, start in others.items())]


def _installed() -> dict[str, Start]:
    """Those for the platform that JAX runs on."""
    on_cpu, found = jax.default_backend() == "cpu", {}
    if find_spec("onnxruntime") and find_spec("onnx") and on_cpu:
        found["ORT"] = _onnxruntime
    if find_spec("torch"):
        import torch  # pyright: ignore[reportMissingImports]

        if on_cpu or torch.cuda.is_available():
            found["torch"] = _torch
    if find_spec("cupy") and not on_cpu:
        found["CuPy"] = _cupy
    return found


def versions() -> dict[str, str]:
    """The versions of everything that may be compared."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in ("dml_jax", "jax", "jaxlib", "numpy", "onnxruntime", "torch", "cupy-cuda12x", "cupy-cuda13x"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _output(case: Case, arrays: Arrays) -> Any:
    function = getattr(dml_jax, case.operator)
    return jax.eval_shape(lambda *x: function(*x, **case.attributes), *arrays)


class _DeviceRun(HostRun):
    """The same on a device that works asynchronously."""

    def __init__(self, write: Callable[..., Any], out: Any, turns: Any, wait: Callable[[], Any], fetch: Any):
        super().__init__(write, out, turns)
        self.wait, self.fetch = wait, fetch

    def finish(self) -> None:
        self.wait()

    def value(self, most: int) -> np.ndarray:
        return self.fetch(self.out, most)


def torch_run(write: Callable[..., Any], out: np.ndarray, turns: Sequence[Arrays]) -> Run:
    """Calls of a function of torch's that writes into its first argument, beside JAX's device."""
    import torch  # pyright: ignore[reportMissingImports]

    device = "cpu" if jax.default_backend() == "cpu" else "cuda"

    def tensor(array: np.ndarray) -> Any:
        is_bfloat16 = array.dtype.name == "bfloat16"  # which torch takes from no array
        image = torch.from_numpy(np.ascontiguousarray(array.view(np.int16) if is_bfloat16 else array)).to(device)
        if is_bfloat16:
            return image.view(torch.bfloat16)
        return image.long() if image.dtype == torch.int32 else image

    def fetched(out: Any, most: int) -> np.ndarray:
        some = spread(out, most).cpu()
        return some.view(torch.int16).numpy() if some.dtype == torch.bfloat16 else some.numpy()

    wait = (lambda: None) if device == "cpu" else torch.cuda.synchronize
    return _DeviceRun(write, tensor(out), [tuple(map(tensor, arrays)) for arrays in turns], wait, fetched)


def _torch(case: Case, turns: Sequence[Arrays]) -> Run | None:
    import torch  # pyright: ignore[reportMissingImports]

    shape = _output(case, turns[0])
    a = case.attributes
    writes = {
        "gather": lambda out, x, i: torch.index_select(x, a["axis"], i, out=out),
        "gather_elements": lambda out, x, i: torch.gather(x, a["axis"], i, out=out),
        "gather_nd": lambda out, x, i: torch.index_select(
            x.reshape(-1, x.shape[-1]), 0, i[:, 0] * x.shape[1] + i[:, 1], out=out
        ),
        "scatter_nd": lambda out, x, i, u: out.copy_(x).index_copy_(0, i[:, 0], u),
        "scatter_elements": lambda out, x, i, u: out.copy_(x).scatter_(a["axis"], i, u),
        "depth_to_space": _rearranging(depth_to_space, a),
        "space_to_depth": _rearranging(space_to_depth, a),
        "as_strided": lambda out, x: out.copy_(torch.as_strided(x, a["sizes"], a["strides"])),
    }
    return torch_run(writes[case.operator], np.zeros(shape.shape, shape.dtype), turns)


def _rearranging(function: Callable[..., Any], attributes: Mapping[str, Any]) -> Callable[..., Any]:
    def write(out: Any, x: Any) -> None:
        view = function(x, **attributes, merge=False)
        out.view(view.shape).copy_(view)

    return write


def _cupy(case: Case, turns: Sequence[Arrays]) -> Run | None:
    import cupy  # pyright: ignore[reportMissingImports]

    a = case.attributes
    shape = _output(case, turns[0])

    def rearranging(function: Callable[..., Any]) -> Callable[..., Any]:
        def write(out: Any, x: Any) -> None:
            view = function(x, **a, merge=False)
            out.reshape(view.shape)[...] = view

        return write

    writes = {
        "gather": lambda out, x, i: cupy.take(x, i, axis=a["axis"], out=out),
        "gather_elements": lambda out, x, i: cupy.copyto(out, cupy.take_along_axis(x, i, a["axis"])),
        "depth_to_space": rearranging(depth_to_space),
        "space_to_depth": rearranging(space_to_depth),
    }
    if case.operator not in writes:
        return None
    return _DeviceRun(
        writes[case.operator],
        cupy.zeros(shape.shape, shape.dtype),
        [tuple(map(cupy.asarray, arrays)) for arrays in turns],
        cupy.cuda.get_current_stream().synchronize,
        lambda out, most: cupy.asnumpy(spread(out, most)),
    )


# ONNX's name of an operator, and its attributes.
_ONNX: dict[str, tuple[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    "gather": ("Gather", lambda a: {"axis": a["axis"]}),
    "gather_elements": ("GatherElements", lambda a: {"axis": a["axis"]}),
    "gather_nd": ("GatherND", lambda a: {}),
    "scatter_nd": ("ScatterND", lambda a: {}),
    "scatter_elements": ("ScatterElements", lambda a: {"axis": a["axis"]}),
    "depth_to_space": ("DepthToSpace", lambda a: {"blocksize": a["block_size"], "mode": a["order"]}),
    "space_to_depth": ("SpaceToDepth", lambda a: {"blocksize": a["block_size"]}),
}


def _onnxruntime(case: Case, turns: Sequence[Arrays]) -> Run | None:
    import onnxruntime

    a = case.attributes
    if case.operator not in _ONNX or a.get("data_format", "NCHW") != "NCHW":
        return None
    if case.operator == "space_to_depth" and a["order"] != "DCR":
        return None
    if case.operator in ("gather_nd", "scatter_nd"):  # their indices are INT64
        turns = [(arrays[0], arrays[1].astype(np.int64), *arrays[2:]) for arrays in turns]
    shape = _output(case, turns[0])
    out = np.zeros(shape.shape, shape.dtype)
    try:
        session = onnxruntime.InferenceSession(_model(case, turns[0], out), providers=["CPUExecutionProvider"])
    except Exception:  # a data type that it does not offer
        return None
    bound = onnxruntime.OrtValue.ortvalue_from_numpy(out)
    bindings = []
    for arrays in turns:
        binding = session.io_binding()
        for i, array in enumerate(arrays):
            binding.bind_ortvalue_input(f"i{i}", onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array)))
        binding.bind_ortvalue_output("o", bound)
        bindings.append((binding,))
    write = lambda _, binding: session.run_with_iobinding(binding)  # noqa: E731
    return _DeviceRun(write, bound, bindings, lambda: None, lambda out, most: spread(out.numpy(), most))


def _model(case: Case, arrays: Arrays, out: np.ndarray) -> bytes:
    from onnx import helper

    def info(name: str, array: np.ndarray) -> Any:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)

    name, attributes = _ONNX[case.operator]
    names = [f"i{i}" for i in range(len(arrays))]
    node = helper.make_node(name, names, ["o"], **attributes(case.attributes))
    inputs = [info(n, array) for n, array in zip(names, arrays, strict=True)]
    graph = helper.make_graph([node], case.operator, inputs, [info("o", out)])
    opsets = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
