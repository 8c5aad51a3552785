"""`Reader`: parses ONNX nodes, subgraphs and functions into the steps of a `Block`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from inspect import signature
from pathlib import Path
from typing import Any

import onnx
from onnx import AttributeProto, FunctionProto, NodeProto, defs, helper

from ..errors import escaped
from .block_execution import Block, FunctionCall, ReadStep, Step, Unsupported, blocks_of
from .contrib_schemas import MICROSOFT, qualified
from .deferred import Rows, deferring
from .errors import OnnxError, UnsupportedError
from .function_bodies import given_attributes, has_body, needs_types, onnx_body, with_attributes
from .model_loading import read_initializers, read_inside, read_tensor
from .node import Node
from .node_limits import MAX_NODES, check_nodes
from .operator_table import ONNX_OPERATORS, find_schema
from .random_keys import RANDOM
from .removed_operators import REMOVED
from .stated_sizes import Maximum
from .supported_options import refused_options

_DOMAINS = {MICROSOFT, *(schema.domain for schema in defs.get_all_schemas())}
_OPTION = defs.OpSchema.FormalParameterOption
_IGNORED = ("consumed_inputs",)  # a hint of the first opset, about memory
_TOLERATED = {"SpaceToDepth": ("mode",)}  # of opset 28, which exporters write before
OperatorName = tuple[str, str, str]
FEW = 100  # nodes that the error of a further call of a function lists
DEEPEST = 50  # a level takes ten frames of Python's at most, of a thousand


def operator_name(domain: str, name: str, overload: str = "") -> OperatorName:
    """Returns the key of an operator. ONNX's own domain has two names."""
    return "" if domain == "ai.onnx" else domain, name, overload


def opsets_of(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """Returns the version of each domain that a model or a function imports.

    Raises:
      OnnxError: there is no such version.
    """
    versions: dict[str, int] = {}
    for entry in imports:
        domain = operator_name(entry.domain, "")[0]
        newest = defs.onnx_opset_version() if not domain else 2**31 - 1
        if domain in _DOMAINS and not 1 <= entry.version <= newest:
            rule = f"the opset version must be in [1, {newest}], which onnx {onnx.__version__} knows"
            raise OnnxError(f"{rule}, but that of the domain {domain!r} is {entry.version}")
        versions.setdefault(domain, entry.version)
    return versions


@dataclass(frozen=True)
class Reader:
    """Reads nodes by the schemas of the versions that the model imports.

    Args:
      opsets: the version of each domain; ONNX's own domain is "".
      folder: where the files with tensors lie.
      functions: the functions that the model defines.
      calls: the functions of the model that are being read, the outermost first: none may call itself.
      depth: of the graphs and functions that are being read.
      max_nodes: how many nodes there may be, those of functions in each call.
      bodies: of functions of the model that are read already, or what is wrong with them, by what they depend on.
      maximum: the sizes that are stated of outputs whose sizes depend on data, by name.
      rows: how operators compute what is `Deferred`.
    """

    opsets: Mapping[str, int]
    folder: Path = Path()
    functions: Mapping[OperatorName, FunctionProto] = field(default_factory=dict)
    calls: tuple[OperatorName, ...] = ()
    depth: int = 0
    max_nodes: int = MAX_NODES
    bodies: dict[Any, Block | OnnxError] = field(default_factory=dict)
    maximum: Mapping[str, int] = field(default_factory=dict)
    rows: Rows = field(default_factory=dict)

    def steps(self, protos: Iterable[NodeProto]) -> list[ReadStep]:
        """Reads nodes in the order of the file; operators that are not done become `Unsupported`.

        Raises:
          OnnxError: a node breaks ONNX's rules, or there are too many, or too deep ones.
        """
        self._check_depth(self.depth)
        steps: list[ReadStep] = []
        broken: list[OnnxError] = []
        nodes = 0
        for number, proto in enumerate(protos):
            check_nodes(nodes := nodes + 1, self.max_nodes)
            try:
                steps.append(replace(self.step(proto, number), number=number))
                nodes += sum(block.nodes for block in blocks_of(steps[-1]))
            except UnsupportedError as error:
                label, read = _label(proto, number), read_inside(proto)
                steps.append(Unsupported(label, error, tuple(proto.input), tuple(proto.output), read))
            except OnnxError as error:
                broken.append(error)
        if broken:
            raise broken[0]
        if len({step.label for step in steps}) < len(steps):
            steps = [replace(step, label=f"{step.label} #{number}") for number, step in enumerate(steps)]
        return steps

    def _check_depth(self, depth: int) -> None:
        if depth > DEEPEST:
            rule = f"graphs and functions must lie at most {DEEPEST} deep in each other"
            raise OnnxError(f"{rule}, but these lie deeper")

    def step(self, proto: NodeProto, number: int = 0) -> Step:
        """Reads one node.

        Raises:
          UnsupportedError: its operator is not done, or one in a graph or function that it runs.
          OnnxError: it breaks ONNX's rules.
        """
        label = _label(proto, number)
        name = operator_name(proto.domain, proto.op_type, proto.overload)
        refused = ""
        try:
            if name in self.functions:
                return self._call_of_model(label, proto, name)
            if not name[2] and qualified(*name[:2]) in ONNX_OPERATORS:
                node = self._node(label, proto)
                if not (refused := refused_options(node)):
                    return node
            elif (schema := find_schema(*name[:2])) is not None and has_body(schema):
                return self._call_of_onnx(label, proto)
        except UnsupportedError as error:
            raise _unsupported_error([f"{label}: {node}" for node in error.nodes]) from None
        operator = qualified(escaped(name[0]), escaped(proto.op_type)) + refused
        raise _unsupported_error([f"{operator} (node {_which(proto, number)})"])

    def block(self, graph: onnx.GraphProto) -> Block:
        """Reads a graph that is an attribute of a node.

        Raises:
          UnsupportedError: operators that are not done.
          OnnxError: it breaks ONNX's rules.
        """
        steps = replace(self, depth=self.depth + 1).steps(graph.node)
        constants = read_initializers(graph, self.folder)
        inputs = [info.name for info in graph.input if info.name not in constants]
        if any(not info.name for info in graph.output):
            raise OnnxError("every output of the graph must have a name, but one has none")
        block = Block.of(inputs, [info.name for info in graph.output], constants, steps)
        return replace(block, types=tuple(info.type for info in graph.output))

    def _node(self, label: str, proto: NodeProto) -> Node:
        schema = self._schema(label, proto)
        name = qualified(schema.domain, schema.name)
        versions, row = ONNX_OPERATORS[name], self.rows.get(name)
        function = versions[max(since for since in versions if since <= schema.since_version)]
        parameters = _parameters(function)
        function = function if row is None else deferring(row, function)
        inputs, outputs = _checked_names(label, proto, schema)
        given = _attributes(label, proto, schema)
        values, unsupported = {}, []
        for key, attribute in given.items():
            try:
                values[key] = self._value(label, attribute)
            except UnsupportedError as error:
                unsupported += error.nodes
        if unsupported:
            raise _unsupported_error(unsupported)
        if "maximum" in parameters:
            values["maximum"] = Maximum(outputs, self.maximum)
        captured = dict.fromkeys(name for b in values.values() if isinstance(b, Block) for name in b.captured)
        if "random" in parameters:
            captured[RANDOM] = None
        takes_deferred = row is not None
        return Node(label, proto.op_type, function, inputs, outputs, values, schema, tuple(captured), takes_deferred)

    def _call_of_onnx(self, label: str, proto: NodeProto) -> FunctionCall:
        """Reads a call of an operator that ONNX defines as a function.

        If the body depends on types, it is read once for float32, to find operators that are not supported.
        """
        schema = self._schema(label, proto)
        if not has_body(schema):  # a later version does
            raise _unsupported_error([f"{schema.name}-{schema.since_version}"])
        inputs, outputs = _checked_names(label, proto, schema)
        given = _attributes(label, proto, schema)
        opset = self.opsets[operator_name(proto.domain, "")[0]]
        inner = replace(self, functions={})

        @lru_cache
        def body(types: tuple[Any, ...]) -> Block:
            return inner._function(onnx_body(schema, opset, proto, types), given, outputs)

        if needs_types(schema):
            captured: tuple[str, ...] = ()
            try:
                probe = tuple((onnx.helper.tensor_dtype_to_np_dtype(1), None) if name else None for name in inputs)
                captured = body(probe).captured
            except UnsupportedError:
                raise
            except OnnxError:
                pass  # of other types it may be
            by_types = FunctionCall(label, proto.op_type, lambda types: body(tuple(types)), inputs, outputs, schema)
            return replace(by_types, captured=captured)
        block = body(())
        return FunctionCall(label, proto.op_type, lambda _: block, inputs, outputs, schema, captured=block.captured)

    def _call_of_model(self, label: str, proto: NodeProto, name: OperatorName) -> FunctionCall:
        if name in self.calls:
            raise OnnxError(f"{label}: a function must not call itself, but {escaped(proto.op_type)} does")
        function = self.functions[name]
        if len(proto.input) > len(function.input) or len(proto.output) > len(function.output):
            counts = f"{len(function.input)} inputs and {len(function.output)} outputs"
            fact = f"the node has {len(proto.input)} and {len(proto.output)}"
            raise OnnxError(f"{label}: the function has at most {counts}, but {fact}")
        given = given_attributes(proto, function.attribute_proto)
        if missing := [attribute for attribute in function.attribute if attribute not in given]:
            raise OnnxError(f"{label}: it must have the attribute {missing[0]!r}, but that is missing")
        outputs = tuple(proto.output)
        try:
            block = self._shared(name, function, given, outputs)
        except UnsupportedError:
            raise
        except OnnxError as error:
            raise OnnxError(f"{label}: {error}") from None
        inputs, captured = tuple(proto.input), block.captured
        return FunctionCall(label, proto.op_type, lambda _: block, inputs, outputs, own=block, captured=captured)

    def _shared(
        self, name: OperatorName, function: FunctionProto, given: Mapping[str, AttributeProto], outputs: Sequence[str]
    ) -> Block:
        """Returns the body of a function of the model, which is read once for all calls that differ in inputs alone."""
        attributes = tuple(sorted((key, attribute.SerializeToString()) for key, attribute in given.items()))
        call = name, attributes, tuple(map(bool, outputs)), frozenset(self.opsets.items())
        if call not in self.bodies:
            try:
                self.bodies[call] = replace(self, calls=(*self.calls, name))._function(function, given, outputs)
            except OnnxError as error:  # kept as well: functions that call one another twice would be read forever
                is_list = isinstance(error, UnsupportedError)
                self.bodies[call] = _unsupported_error(error.nodes[:FEW]) if is_list else error
                raise
        body = self.bodies[call]
        if isinstance(body, OnnxError):
            raise body
        self._check_depth(self.depth + body.depth)
        return body

    def _function(self, function: FunctionProto, given: Mapping[str, AttributeProto], outputs: Sequence[str]) -> Block:
        """Reads the body of a function, for the outputs that a call reads."""
        inner = replace(self, opsets={**self.opsets, **opsets_of(function.opset_import)}, depth=self.depth + 1)
        steps = inner.steps(with_attributes(node, given) for node in function.node)
        wanted = [name if asked else "" for name, asked in zip(function.output, outputs, strict=False)]
        block = Block.of(list(function.input), wanted, {}, steps)
        if missing := [name for name in block.captured if name != RANDOM]:
            raise OnnxError(f"every value in a function must be made there, but {missing[0]!r} is not")
        return block

    def _schema(self, label: str, proto: NodeProto) -> defs.OpSchema:
        domain, name, _ = operator_name(proto.domain, proto.op_type)
        if domain not in self.opsets:
            raise OnnxError(f"{label}: the model must import a version of the domain {domain!r}, but it does not")
        schema = find_schema(domain, name, self.opsets[domain])
        if schema is None:
            schemas = defs.get_all_schemas_with_history()
            versions = [s.since_version for s in schemas if (s.domain, s.name) == (domain, name)]
            known = f"from opset {min(versions)} on" if versions else f"before opset {REMOVED}"
            rule = f"the operator must exist in opset {self.opsets[domain]}"
            raise OnnxError(f"{label}: {rule}, but it does {known}")
        return schema

    def _value(self, label: str, attribute: AttributeProto) -> Any:
        """Returns an attribute as a number, a string, a list, an array or a block."""
        if attribute.type == AttributeProto.GRAPH:
            try:
                return self.block(attribute.g)
            except UnsupportedError as error:
                raise _unsupported_error([f"{attribute.name}: {node}" for node in error.nodes]) from None
            except OnnxError as error:
                raise OnnxError(f"{label}: {attribute.name}: {error}") from None
        try:
            value = helper.get_attribute_value(attribute)
            if isinstance(value, onnx.TensorProto):
                return read_tensor(value, self.folder)
            return value.decode() if isinstance(value, bytes) else value
        except (ValueError, OnnxError) as error:
            raise OnnxError(f"{label}: attribute {attribute.name!r}: {error}") from None


@cache
def _parameters(function: Callable[..., Any]) -> Collection[str]:
    return signature(function).parameters


def _which(proto: NodeProto, number: int) -> str:
    return repr(proto.name) if proto.name else f"#{number}"


def _label(proto: NodeProto, number: int) -> str:
    return f"{escaped(proto.op_type)} node {_which(proto, number)}"


def _unsupported_error(nodes: Sequence[str]) -> UnsupportedError:
    return UnsupportedError(nodes, sorted(ONNX_OPERATORS))


def _checked_names(label: str, proto: NodeProto, schema: defs.OpSchema) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the names of the inputs and outputs, after comparing their numbers with the schema."""
    for what, names, least, most in (
        ("inputs", proto.input, schema.min_input, schema.max_input),
        ("outputs", proto.output, schema.min_output, schema.max_output),
    ):
        if not least <= len(names) <= most:
            raise OnnxError(f"{label}: it must have from {least} to {most} {what}, but it has {len(names)}")
    for number, name in enumerate(proto.input):
        parameter = schema.inputs[min(number, len(schema.inputs) - 1)]
        if not name and parameter.option != _OPTION.Optional:
            raise OnnxError(f"{label}: it must have the input {parameter.name}, but that is left out")
    return tuple(proto.input), tuple(proto.output)


def _attributes(label: str, proto: NodeProto, schema: defs.OpSchema) -> dict[str, AttributeProto]:
    """Returns the attributes of a node by name, with the defaults of the schema."""
    for attribute in proto.attribute:
        formal = schema.attributes.get(attribute.name)
        if formal is None and attribute.name not in _TOLERATED.get(proto.op_type, ()):
            accepted = ", ".join(schema.attributes) or "none"
            rule = f"the attributes of {schema.name}-{schema.since_version} must be among {accepted}"
            raise OnnxError(f"{label}: {rule}, but there is {attribute.name!r}")
        if formal is not None and AttributeProto.AttributeType.Name(attribute.type) != _type_of(formal):
            rule = f"attribute {attribute.name!r} must be of type {_type_of(formal)}"
            raise OnnxError(f"{label}: {rule}, but it is {AttributeProto.AttributeType.Name(attribute.type)}")
    formals = schema.attributes.values()
    given = given_attributes(proto, [f.default_value for f in formals if f.default_value.type])
    needed = [formal.name for formal in formals if formal.required and formal.name not in _IGNORED]
    if missing := [name for name in needed if name not in given]:
        raise OnnxError(f"{label}: it must have the attribute {missing[0]!r}, but that is missing")
    return {name: attribute for name, attribute in given.items() if name not in _IGNORED}


def _type_of(formal: defs.OpSchema.Attribute) -> str:
    return str(formal.type).rpartition(".")[2]
