"""Fusion of graphs: one executable for all operators, beside one executable per operator with buffers between them."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..compiled.compile import compile_operator
from ..core.tensors.data_type import DataType
from ..core.tensors.tensor_desc import TensorDesc
from ..graphs.builder import GraphBuilder
from ..graphs.graph_desc import GraphDesc
from ..graphs.nodes_and_edges import Constant
from .case import DTYPES, Arrays, Case, batch_of, data, dims, random_indices
from .implementations import JNP, Implementation, JaxRun
from .operators.depth_space import depth_to_space, permuted, space_to_depth
from .operators.operator_benchmark import Attributes, Operator
from .peers import has_torch, torch_form

ITEMSIZES = (4, 2, 1)
TORCH = "torch"  # the name of its only form
BLOCKS: Any = {"block_size": 2, "order": "DCR", "data_format": "NCHW"}


def cases(size: int) -> Iterator[Case]:
    """Three graphs, three data types; each input has about `size` bytes."""
    for itemsize in ITEMSIZES:
        yield _blocks(size, itemsize)
        yield _pieces(size, itemsize)
        yield _reads(size, itemsize)


def implementations(*, peers: bool) -> list[Implementation]:
    """The graph, its operators one by one, and the same calls of other libraries."""
    found = [
        Implementation("dml_jax", lambda case, turns: GraphRun(case.attributes["graph"], turns)),
        Implementation("one each", lambda case, turns: EachRun(case.attributes["graph"], turns)),
        JNP,
    ]
    return [*found, Implementation(TORCH, partial(torch_form, TORCH))] if peers and has_torch() else found


class GraphRun(JaxRun):
    """The whole graph as one executable, into preallocated outputs."""

    def __init__(self, graph: GraphDesc, turns: Sequence[Arrays]):
        compiled = compile_operator(graph)
        self.donated, self.called = True, lambda out, *arrays: compiled(*arrays, out=out)
        self.turns = [jax.block_until_ready(tuple(map(jnp.asarray, arrays))) for arrays in turns]
        (output,) = graph.outputs.values()
        self.out = jnp.zeros(output.element_span, output.dtype)


class EachRun(GraphRun):
    """One executable for each operator; intermediate arrays are preallocated too."""

    def __init__(self, graph: GraphDesc, turns: Sequence[Arrays]):
        super().__init__(graph, turns)
        self.graph = graph
        constants = {name: node for name, node in graph.nodes.items() if isinstance(node, Constant)}
        self.operators = {
            name: compile_operator(node) for name, node in graph.nodes.items() if not isinstance(node, Constant)
        }
        self.buffers: dict[Any, jax.Array] = {}
        for reader, source in graph.edges.items():
            if source[0] in constants:
                tensor = graph.nodes[reader[0]].input_ports()[reader[1]]  # type: ignore[union-attr]
                self.buffers[source] = jnp.asarray(np.frombuffer(constants[source[0]].data, tensor.dtype))
        for name, operator in self.operators.items():
            for port, tensor in operator.desc.output_ports().items():
                self.buffers[name, port] = jnp.zeros(tensor.element_span, tensor.dtype)

    def step(self, turn: int) -> None:
        given = dict(zip(self.graph.inputs, self.turns[turn % len(self.turns)], strict=True))
        for name, operator in self.operators.items():
            sources = [self.graph.edges[name, port] for port in operator.desc.input_ports()]
            inputs = [given[s] if isinstance(s, str) else self.buffers[s] for s in sources]
            self.buffers[name, "output"] = operator(*inputs, out=self.buffers[name, "output"])
        (last,) = (self.graph.edges[port] for port in self.graph.outputs)
        self.out = self.buffers[last]


# The graphs: the descriptor, then the same calls in the words that NumPy's API, jax.numpy and torch share.


def _blocks(size: int, itemsize: int) -> Case:
    """Blocks of 2 x 2 to channels, the channels in another order, and back."""
    picture = batch_of((4, 512, 512), size, itemsize)
    order = np.random.default_rng(5).permutation(4 * picture[1]).astype(np.uint32)
    graph = GraphBuilder()
    blocks = graph.space_to_depth(graph.input("x", _tensor(picture, itemsize)), 2)
    picked = graph.gather(blocks, graph.constant(order.reshape(1, 1, 1, -1)), axis=1, index_dimensions=1)

    def of(like: Any, x: Any) -> Any:
        return depth_to_space(_take(like, space_to_depth(x, **BLOCKS), order, 1), **BLOCKS)

    built = graph.build({"y": graph.depth_to_space(picked, 2)})
    return _case("SPACE_TO_DEPTH, GATHER, DEPTH_TO_SPACE", built, itemsize, [(picture, None)], of)


def _pieces(size: int, itemsize: int) -> Case:
    """The middle of pictures, twice side by side, a picture below it, and all of that with channels last."""
    whole = *outer, height, width = batch_of((3, 512, 512), size, itemsize)
    middle, both, each = (*outer, height, width // 2), (*outer, 2 * height, width), (1, 1, 1, 1)
    graph = GraphBuilder()
    x = graph.input("x", _tensor(whole, itemsize))
    twice = graph.tile(graph.slice1(x, (0, 0, 0, width // 4), middle, each), (1, 1, 1, 2))
    last = TensorDesc(x.data_type, both, _strides((0, 2, 3, 1), both))

    def of(like: Any, x: Any) -> Any:
        cut = x[..., width // 4 : width // 4 + width // 2]
        return permuted(like.concatenate([like.concatenate([cut, cut], 3), x], 2), (0, 2, 3, 1))

    built = graph.build({"y": graph.join((twice, x), 2, output=last)})
    return _case("SLICE, TILE, JOIN, channels last", built, itemsize, [(whole, None)], of)


def _reads(size: int, itemsize: int) -> Case:
    """Gathers rows of a table, sorts them by expert (gather), and permutes the elements of each (gather_elements)."""
    width = 1024
    rows = max(4, size // itemsize // width)
    graph = GraphBuilder()
    table = graph.input("table", _tensor((rows, width), itemsize))
    ids, order = (graph.input(name, TensorDesc("INT32", (1, rows))) for name in ("ids", "order"))
    places = graph.input("places", TensorDesc("INT32", (rows, width)))
    routed = graph.gather(graph.gather(table, ids, 0, 1), order, 0, 1)

    def of(like: Any, table: Any, ids: Any, order: Any, places: Any) -> Any:
        routed = _take(like, _take(like, table, ids, 0), order, 0)
        return like.gather(routed, 1, places) if _is_torch(like) else like.take_along_axis(routed, places, 1)

    shapes = [((rows, width), None), ((rows,), rows), ((rows,), rows), ((rows, width), width)]
    built = graph.build({"y": graph.gather_elements(routed, places, 1)})
    return _case("GATHER, GATHER, GATHER_ELEMENTS", built, itemsize, shapes, of)


def _case(
    name: str,
    graph: GraphDesc,
    itemsize: int,
    shapes: Sequence[tuple[tuple[int, ...], int | None]],
    of: Callable[..., Any],
) -> Case:
    """A case of a graph; `shapes` has per input the shape, and for indices their upper bound.

    Its function is that of jax.numpy, whose result has the size of the graph's: `GraphRun` calls the graph itself.
    """
    flat = [((prod(shape),), count) for shape, count in shapes]
    arrays = [data(shape, itemsize) if count is None else random_indices(count, shape) for shape, count in flat]

    def of_flat(like: Any) -> Callable[..., Any]:
        shaped = lambda arrays: [x.reshape(shape) for x, (shape, _) in zip(arrays, shapes, strict=True)]  # noqa: E731
        return lambda *arrays: of(like, *shaped(arrays)).reshape(-1)

    def of_torch(torch: Any, _: Attributes) -> Callable[..., Any]:
        compute = of_flat(torch)
        return lambda out, *arrays: out.copy_(compute(*arrays))

    how: Any = {"function": of_flat(jnp), "forms": Operator(jnp=lambda _: of_flat(jnp), torch={TORCH: of_torch})}
    return Case("graph", f"{name} of {dims(shapes[0][0])} {DTYPES[itemsize]}", {"graph": graph}, arrays, **how)


def _tensor(sizes: tuple[int, ...], itemsize: int) -> TensorDesc:
    return TensorDesc(DataType.of(DTYPES[itemsize]), sizes)


def _strides(order: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of dimensions that lie in memory in this order."""
    return tuple(prod(sizes[d] for d in order[order.index(dimension) + 1 :]) for dimension in range(len(sizes)))


# The same calls elsewhere.


@cache
def _is_torch(like: Any) -> bool:
    return like.__name__ == "torch"


def _take(like: Any, x: Any, indices: Any, axis: int) -> Any:
    if not _is_torch(like):
        return like.take(x, indices, axis=axis, mode="clip")
    at = _on_device(tuple(indices.tolist()), x.device) if isinstance(indices, np.ndarray) else indices
    return like.index_select(x, axis, at)


@cache
def _on_device(indices: tuple[int, ...], device: Any) -> Any:
    import torch  # pyright: ignore[reportMissingImports]

    return torch.tensor(indices, device=device)
