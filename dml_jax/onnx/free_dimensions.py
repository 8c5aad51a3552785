"""Free dimension overrides: sets sizes of inputs that a model leaves open, in a ModelProto or a `Graph`."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import onnx

from ..core.tensors.tensor_spec import TensorSpec
from ..errors import ConstraintError, suggestion
from .errors import OnnxError
from .graph import Graph, check_inputs
from .signature import as_count, by_name

# By the name of a free size, or all sizes of an input by its name.
Sizes = Mapping[str, int | Sequence[int]]


def override_sizes(
    model: onnx.ModelProto, kind: Literal["dim_param", "denotation"], sizes: Mapping[str, int], where: str
) -> None:
    """Sets, in the model, the free sizes of inputs that have a name, or a denotation.

    Args:
      model: is changed.
      kind: what a free size is found by.
      sizes: by name or denotation.
      where: the field or option that they come from.

    Raises:
      ConstraintError: no free size has the name or denotation.
    """
    free = [
        size
        for info in model.graph.input
        for size in info.type.tensor_type.shape.dim
        if not size.HasField("dim_value") and getattr(size, kind)
    ]
    known = sorted({getattr(size, kind) for size in free})
    for name in sizes:
        if name not in known:
            near = suggestion(name, known) if known else "there are none"
            raise ConstraintError(f"no free size of an input is called {name!r:.60}; {near}", (where,))
    for size in free:
        if getattr(size, kind) in sizes:
            size.dim_value = sizes[getattr(size, kind)]


def forget_names(model: onnx.ModelProto, inputs: Collection[str]) -> None:
    """Removes the names of free sizes of some inputs, in the model, so that sizes of one name may differ."""
    for info in model.graph.input:
        if info.name in inputs:
            for size in info.type.tensor_type.shape.dim:
                size.ClearField("dim_param")


def with_sizes(graph: Graph, sizes: Sizes | None) -> Graph:
    """Returns the graph with numbers for sizes that its inputs leave open.

    Args:
      graph: of a model.
      sizes: a number by the name of a free size, or all sizes of an input by its name.

    Raises:
      OnnxError: a name is neither, a size is no integer of at least 0, the sizes do not fit the model's, or an input
        of these sizes would not fit in memory.
    """
    names = {n for spec in graph.inputs for n in spec.sizes or () if isinstance(n, str)}
    inputs = {spec.name: spec for spec in graph.inputs}
    given: dict[str, tuple[int, ...]] = {}
    for name, value in by_name("sizes", sizes).items():
        listed = value if isinstance(value, Iterable) else (value,)
        numbers = tuple(as_count(f"sizes[{name!r}]", number, 0) for number in listed)
        if name not in inputs and (name not in names or len(numbers) != 1):
            near = suggestion(name, [*sorted(names), *inputs])
            raise OnnxError(
                f"sizes must give one number for a free size, or all sizes of an input, but {name!r} is neither; {near}"
            )
        given[name] = numbers
    inputs_given = tuple(_with_sizes(spec, given) for spec in graph.inputs)
    check_inputs(inputs_given)
    return replace(graph, inputs=inputs_given)


def _with_sizes(spec: TensorSpec, given: Mapping[str, tuple[int, ...]]) -> TensorSpec:
    if spec.sizes is None:
        return replace(spec, sizes=given.get(spec.name))
    named = tuple(given[n][0] if isinstance(n, str) and n in given else n for n in spec.sizes)
    wanted = given.get(spec.name, named)
    if len(wanted) != len(named) or any(isinstance(n, int) and m != n for m, n in zip(wanted, named, strict=True)):
        raise OnnxError(f"sizes must fit the input {replace(spec, sizes=named)}, but they are {list(wanted)}")
    return replace(spec, sizes=wanted)
