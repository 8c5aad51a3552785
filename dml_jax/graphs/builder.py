"""`GraphBuilder`: builds a `GraphDesc` with one method call per node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, overload

import jax
import numpy as np

from ..catalogue import STRUCTS
from ..core.structs.operator_desc import OperatorDesc
from ..core.tensors.tensor_desc import TensorDesc
from ..errors import ConstraintError, DataTypeError, describe, escaped, message, suggestion
from .builder_methods import method_of
from .expression import Expression, TensorLike, seen_as, whole_tensor
from .graph_desc import GraphDesc
from .nodes_and_edges import Constant, Port, shown_port
from .output_inference import completed
from .rules import unfit_data

# For type checkers: the operators whose method returns a tuple, and those where it does if no output is left out.
SeveralOutputs = Literal[
    "adam_optimizer",
    "batch_normalization_grad",
    "batch_normalization_training",
    "batch_normalization_training_grad",
    "dynamic_quantize_linear",
    "nonzero_coordinates",
    "split",
    "top_k",
    "top_k1",
]
OneOrSeveralOutputs = Literal[
    "gru",
    "lstm",
    "max_pooling1",
    "max_pooling2",
    "multihead_attention",
    "multihead_attention1",
    "random_generator",
    "rnn",
    "roi_align_grad",
]


class GraphBuilder:
    """Builds a graph: every operator is a method, under its DirectML name in lower case.

    A method takes the fields of the struct in DirectML's order, expressions for its inputs, and returns an expression,
    or a tuple of several. Outputs need not be given. If one does not follow from the rest, give it by its name,
    `output="FLOAT16"`, `output=(1, 4)`, `outputs=[(1, 2), (1, 3)]`; a TensorDesc may have strides. `name=` names the
    node. An operator that breaks a rule is refused by the call that adds it. Expressions take Python's operators, too:
    `x * w + b`.

    Example:
      >>> import numpy as np
      >>> from dml_jax import GraphBuilder, TensorDesc
      >>> graph = GraphBuilder()
      >>> x = graph.input("x", TensorDesc("FLOAT32", (1, 4, 1, 1)))
      >>> order = graph.constant(np.uint32([[[[3, 2, 1, 0]]]]))
      >>> picked = graph.gather(x, order, axis=1, index_dimensions=1)
      >>> desc = graph.build({"y": graph.depth_to_space(picked, block_size=2)})
      >>> print(desc.compute(np.arange(4, dtype=np.float32).reshape(1, 4, 1, 1)))
      [[[[3. 2.]
         [1. 0.]]]]

    Source: dml::Graph of DirectMLX.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, OperatorDesc[Any] | Constant] = {}
        self._edges: dict[Port, Port] = {}
        self._inputs: dict[str, TensorDesc] = {}
        self._counts = Counter[str]()
        self._is_built = False

    def __repr__(self) -> str:
        inputs = ", ".join(f"{escaped(name)}: {tensor.describe()}" for name, tensor in self._inputs.items())
        return f"GraphBuilder({inputs}) of {len(self._nodes)} nodes"

    if TYPE_CHECKING:

        @overload
        def __getattr__(  # pyright: ignore[reportOverlappingOverload]
            self, name: SeveralOutputs
        ) -> Callable[..., tuple[Expression, ...]]: ...
        @overload
        def __getattr__(  # pyright: ignore[reportOverlappingOverload]
            self, name: OneOrSeveralOutputs
        ) -> Callable[..., Any]: ...
        @overload
        def __getattr__(self, name: str) -> Callable[..., Expression]: ...
        def __getattr__(self, name: str) -> Callable[..., Any]: ...

    else:

        def __getattr__(self, name):
            known = [field for field in dir(type(self)) if not field.startswith("_")]
            raise AttributeError(f"GraphBuilder has no operator {name!r}; {suggestion(name, known)}")

    def input(self, name: str, tensor: TensorLike) -> Expression:
        """Adds an input of the graph; a call takes its arrays in the order of these.

        Args:
          name: of the input.
          tensor: its TensorDesc, or (data type, sizes). What reads one that is OWNED_BY_DML has the flag too.

        Raises:
          ConstraintError: the name is taken, or only the data type or the sizes are given.
          DataTypeError: no tensor.

        Example:
          >>> from dml_jax import GraphBuilder
          >>> GraphBuilder().input("x", ("FLOAT32", (2, 3)))
          Expression(FLOAT32[2,3] of 'x')
        """
        self._check_open()
        _check_name(name, self._inputs)
        self._inputs[name] = whole_tensor(tensor, f"input {name!r}")
        return self._expression(name, self._inputs[name])

    def constant(
        self,
        data: bytes | bytearray | memoryview | jax.Array | np.ndarray[Any, Any],
        tensor: TensorLike | None = None,
        *,
        name: str | None = None,
    ) -> Expression:
        """Adds a constant, which becomes part of the executable.

        Args:
          data: an array, whose elements are taken in row-major order, or bytes.
          tensor: what it is read as, a TensorDesc or (data type, sizes); by default what an array is, of one dimension
            at least.
          name: of the node; by default "constant" with a number.

        Raises:
          ConstraintError: the name is taken, or the data does not fill the tensor.
          DataTypeError: no data of one of DirectML's types, or bytes without a tensor.

        Example:
          >>> import numpy as np
          >>> from dml_jax import GraphBuilder
          >>> GraphBuilder().constant(np.uint32([2, 0, 1]))
          Expression(UINT32[3] of 'constant_0'.Data)
        """
        self._check_open()
        node = Constant(data)
        name = self._new_name(node.operator_type, name)
        place = f"node {name!r}"
        if tensor is None:
            if not isinstance(data, jax.Array | np.ndarray):
                rule = "bytes must be given a tensor: a TensorDesc, or (data type, sizes)"
                raise DataTypeError(message("CONSTANT", rule, "there is none", {"data": node}))
            tensor = TensorDesc(data.dtype, data.shape or (1,))
        seen = whole_tensor(tensor, place)
        if fact := unfit_data(node, seen):
            rule = "the data of a constant must fill the tensor that reads it"
            raise ConstraintError(message("CONSTANT", rule, fact, {"data": node, "tensor": seen})).at(place)
        self._keep(name, node)
        return self._expression((name, "output"), seen)

    def reinterpret(
        self, expression: Expression, tensor: TensorLike, strides: Sequence[int] | None = None
    ) -> Expression:
        """Reads the same bytes as another tensor; nothing moves, and no node is added.

        Args:
          expression: whose bytes are read.
          tensor: a TensorDesc of as many bytes, or what differs: the data type, which leaves sizes and strides as they
            are, the sizes, which are packed if no strides are given, or (data type, sizes).
          strides: elements, one per size.

        Raises:
          ConstraintError: another TotalTensorSizeInBytes, or a tensor that is OWNED_BY_DML while the input is not.
          DataTypeError: no expression, or no tensor.

        Example:
          >>> from dml_jax import GraphBuilder
          >>> graph = GraphBuilder()
          >>> x = graph.input("x", ("FLOAT32", (2, 3)))
          >>> graph.reinterpret(x, (3, 2), strides=(1, 3))
          Expression(FLOAT32[3,2] strides (1,3) of 'x')
        """
        self._check_open()
        self._check_own("reinterpret", "expression", expression)
        return replace(expression, tensor=seen_as(expression.tensor, tensor, strides))

    def build(self, outputs: Mapping[str, Expression] | Sequence[Expression]) -> GraphDesc:
        """Ends the graph.

        Args:
          outputs: the outputs of the graph by name, in their order; or in a sequence, named output_0, output_1, ...

        Returns:
          The graph. The builder cannot be used afterwards.

        Raises:
          ConstraintError: nothing reads an input, a constant or an output of a node, a rule of graphs is broken, or the
            graph is built already.
          DataTypeError: `outputs` holds something else.
        """
        self._check_open()
        if not isinstance(outputs, Mapping | Sequence) or isinstance(outputs, str):
            rule, fact = "outputs must map names to expressions, or be a sequence of expressions", describe(outputs)
            raise DataTypeError(message("build", rule, f"it is {fact}", {"outputs": outputs}))
        named = (
            outputs
            if isinstance(outputs, Mapping)
            else {f"output_{i}": expression for i, expression in enumerate(outputs)}
        )
        for name, expression in named.items():
            self._check_own("build", f"outputs[{name!r}]", expression)
        edges = self._edges | {name: expression.source for name, expression in named.items()}
        self._check_all_read(edges)
        tensors = {name: expression.tensor for name, expression in named.items()}
        desc = GraphDesc(self._nodes, edges, self._inputs, tensors)
        self._is_built = True
        return desc

    def _expression(self, source: Port, tensor: TensorDesc) -> Expression:
        return Expression(self, source, tensor, shown_port(self._nodes, source))

    def _check_open(self) -> None:
        if self._is_built:
            raise ConstraintError(
                "GraphBuilder: a builder builds one graph, but it has built it: begin with another one."
            )

    def _check_own(self, operator: str, name: str, value: Any) -> None:
        if not isinstance(value, Expression):
            rule = f"{name} must be an Expression, which input(), constant() and the operators return"
            raise DataTypeError(message(operator, rule, f"it is {describe(value)}", {name: value}))
        if value.graph is not self:
            rule = f"{name} must be an Expression of this graph"
            raise ConstraintError(message(operator, rule, "another GraphBuilder made it", {name: value}))

    def _check_all_read(self, edges: Mapping[Port, Port]) -> None:
        outputs = [(name, port) for name, node in self._nodes.items() for port in node.output_ports()]
        sources: list[Port] = [*self._inputs, *outputs]
        read = {*edges.values()}
        if unread := [shown_port(self._nodes, source) for source in sources if source not in read]:
            rule = "every input, every constant and every output of a node must be read or be an output of the graph"
            hint = "give build() what a node makes, or leave out the call"
            raise ConstraintError(f"GraphBuilder: {rule}, but nothing reads {', '.join(unread)}: {hint}.")

    def _new_name(self, kind: str, name: str | None) -> str:
        if name is None:
            return next(new for i in count(self._counts[kind]) if (new := f"{kind.lower()}_{i}") not in self._nodes)
        _check_name(name, self._nodes)
        return name

    def _keep(self, name: str, node: OperatorDesc[Any] | Constant) -> None:
        self._nodes[name] = node
        self._counts[node.operator_type] += 1

    @contextmanager
    def _undone_if_refused(self) -> Iterator[None]:
        """Removes the constants that the block added if its operator is refused."""
        count = len(self._nodes)
        try:
            yield
        except ConstraintError:
            for name in [*self._nodes][count:]:
                self._counts[self._nodes.pop(name).operator_type] -= 1
            raise

    def _add(self, struct: type[OperatorDesc], name: str | None, given: dict[str, Any]) -> Any:
        """Adds an operator: `given` is what its method takes, by field."""
        self._check_open()
        name = self._new_name(struct.operator_type, name)
        fields = struct.fields()
        read = {field: given[field] for field in struct.input_names()}
        for field, value in read.items():
            self._check_input(struct, field, value)
        tensors = {field: _tensors(value) for field, value in read.items()}
        rest = {field: value for field, value in given.items() if not fields[field].is_tensor}
        outputs = {field: given[field] for field in struct.output_names()}
        try:
            desc = completed(struct, tensors | rest, outputs)
        except ConstraintError as error:
            raise error.at(f"node {name!r}") from None
        ports = zip(desc.input_ports(), jax.tree.leaves(list(read.values())), strict=True)
        self._keep(name, desc)
        self._edges |= {(name, port): expression.source for port, expression in ports}
        expressions = tuple(self._expression((name, port), tensor) for port, tensor in desc.output_ports().items())
        return expressions if desc.has_several_outputs() else expressions[0]

    def _check_input(self, struct: type[OperatorDesc], name: str, value: Any) -> None:
        field, shown = struct.fields()[name], struct.directml_names()[name]
        if field.is_array and (not isinstance(value, Sequence) or isinstance(value, str)):
            rule = f"{shown} must be a sequence of Expressions"
            raise DataTypeError(message(struct.operator_type, rule, f"it is {describe(value)}", {shown: value}))
        for i, item in enumerate(value if field.is_array else () if value is None and field.is_optional else [value]):
            self._check_own(struct.operator_type, f"{shown}[{i}]" if field.is_array else shown, item)


def _check_name(name: Any, taken: Mapping[str, Any]) -> None:
    if not isinstance(name, str) or not name:
        rule, fact = "name must be a string that is not empty", f"it is {describe(name)}"
        raise DataTypeError(message("GraphBuilder", rule, fact, {"name": name}))
    if name in taken:
        rule, fact = "every name must be a name of its own", f"{name!r} is taken"
        raise ConstraintError(message("GraphBuilder", rule, fact, {"name": name}))


def _tensors(value: Any) -> Any:
    if isinstance(value, Expression):
        return value.tensor
    return None if value is None else tuple(expression.tensor for expression in value)


for _name, _struct in STRUCTS.items():
    setattr(GraphBuilder, _name.lower(), method_of(_name, _struct, GraphBuilder._add))
