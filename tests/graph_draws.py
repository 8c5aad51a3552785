"""Random graphs of the whole catalogue, with expected results from the oracles and NumPy's views of bytes.

A graph grows: a random descriptor's inputs come from what earlier nodes made, from constants, or from inputs of the
graph. What lies on an edge is bytes: the oracle's numbers, written through the tensor of the one that makes them into
zeros, and seen through the tensor of the one that reads them. Both ends get the larger of their sizes in bytes. What is
rounded, whose last bits depend on the device, is read by nobody.
"""

from dataclasses import dataclass, field, replace
from math import ceil

import numpy as np
from strided_cases import make, seen

from dml_jax import Constant, DataType, GraphDesc, TensorDesc

NODES, TRIES = 6, 20
SEEN, FEW = 256, 16  # numbers that tell what a struct's tests draw, and how many of them are a list


@dataclass(eq=False)
class Case:
    """A graph, a buffer per input and output, what its outputs are and how exactly, and how it is called."""

    number: int
    desc: GraphDesc
    buffers: dict[str, np.ndarray] = field(repr=False)
    wanted: tuple[np.ndarray, ...] = field(repr=False)
    units: dict[str, float]
    bound: bool
    x64: bool


@dataclass(eq=False)
class Flow:
    """What comes from a port: the bytes that it writes, the tensor that it writes them through, and all readers.

    Of what is rounded also the numbers themselves, and by how much they may be off.
    """

    source: str | tuple[str, str]
    kind: str  # "operator", "constant" or "input"
    tensor: TensorDesc
    data: bytes
    total: int
    readers: list = field(default_factory=list)
    exactly: np.ndarray | None = None
    units: float | None = None

    def as_tensor(self, tensor):
        """NumPy's view of the bytes."""
        return seen(self.elements(tensor), tensor)

    def elements(self, tensor):
        """What a tensor spans of the bytes; behind them there is 0."""
        least = tensor.data_type.byte_count(tensor.element_span)
        data = self.data[:least].ljust(least, b"\0")
        if tensor.data_type.bits >= 8:
            return np.frombuffer(data, tensor.dtype)
        nibbles = [nibble for byte in data for nibble in (byte & 15, byte >> 4)][: tensor.element_span]
        return np.array([n - 16 if n not in tensor.data_type.integers else n for n in nibbles]).astype(tensor.dtype)


@dataclass(eq=False)
class Node:
    """An operator that may be added: what its inputs come from, what it makes, and how well it fits."""

    desc: object
    sources: dict[str, Flow]
    made: tuple[np.ndarray, ...]
    fit: float


def rounds(structs):
    """How many graphs it takes for every struct to occur."""
    return ceil(len(structs) / NODES)


def draw(structs, number):
    """The graph of that number: every struct is in one of `rounds` neighbours."""
    of_round, place = divmod(number, rounds(structs))
    order = np.random.default_rng([2026, of_round]).permutation(list(structs))
    rng, flows, nodes = np.random.default_rng([2027, number]), [], {}
    for name in order[place :: rounds(structs)]:
        plans: list[Node] = []
        while not plans:
            plans = [*filter(None, (_planned(rng, structs[name], flows) for _ in range(TRIES)))]
        node = max(plans, key=lambda node: node.fit)
        label = f"{name.lower()} {len(nodes)}"
        for port, flow in node.sources.items():
            if not flow.source:
                flows.append(flow)
                flow.source = (f"constant {label} {port}", "output") if flow.kind == "constant" else f"{label} {port}"
            flow.readers.append(((label, port), node.desc.input_ports()[port]))
            flow.total = max(flow.total, node.desc.input_ports()[port].total_tensor_size_in_bytes)
        for (port, tensor), made in zip(node.desc.output_ports().items(), node.made, strict=True):
            flow = Flow((label, port), "operator", tensor, b"", tensor.total_tensor_size_in_bytes)
            if structs[name].units is not None and tensor.dtype.kind == "f":
                flow.exactly, flow.units = np.asarray(made).reshape(tensor.sizes), structs[name].units
            else:
                flow.data = _written(made, tensor)
            flows.append(flow)
        nodes[label] = node
    return _finished(rng, number, nodes, flows)


def _planned(rng, struct, flows):
    """A random descriptor with sources of its inputs; None where nothing defines its result: updates that meet, say."""
    case = make(struct, int(rng.integers(2**31)))
    desc, sources, fit = case.desc, {}, 0.0
    for port, tensor in desc.input_ports().items():
        flow = None
        if rng.random() < (0.3 if desc.is_index(port) else 0.85):
            exact = [flow for flow in flows if flow.units is None]
            fitting = [flow for flow in exact if _takes(rng, struct, tensor, port, flow.as_tensor(tensor))]
            flow = max(fitting, key=lambda flow: _fit(flow, tensor) + rng.random(), default=None)
        if flow is None:
            data = _bytes(case.buffers[port][: tensor.element_span], tensor.data_type)
            kind = "constant" if rng.random() < 0.3 else "input"
            flow = Flow("", kind, tensor, data, tensor.total_tensor_size_in_bytes)
        else:
            fit += _fit(flow, tensor)
        sources[port] = flow
    views = {port: sources[port].as_tensor(tensor) for port, tensor in desc.input_ports().items()}
    with np.errstate(all="ignore"):  # overflow, NaN
        made = struct.expected(desc, *desc.by_field(views).values())
    if isinstance(made, dict):
        made = _agreed(made, desc, views)
    if made is None:
        return None
    return Node(desc, sources, made if isinstance(made, tuple) else (made,), fit + rng.random())


def _fit(flow, tensor):
    """Outputs of operators first, of as many bytes, of the same type, then of the same sizes."""
    same = flow.tensor.data_type == tensor.data_type, flow.tensor.sizes == tensor.sizes
    return 2 * (flow.kind == "operator") + (flow.total == tensor.total_tensor_size_in_bytes) + same[0] + 2 * same[1]


def _takes(rng, struct, tensor, port, values):
    """Whether an operator is exact on these numbers, whatever the order and the device: they are like those that its
    own tests draw there.

    Of few numbers, as scales, each is one of those; of many they lie in the same range, and floats are multiples of a
    half, without zeros where the sign of a zero counts, which devices decide. Of random bits all are taken.
    """
    if struct.fill is None or (drawn := struct.fill(rng, port, tensor, SEEN)) is None:
        return True
    word = f"u{drawn.itemsize}"
    is_drawn = np.isin(np.ascontiguousarray(values).view(word), drawn.view(word))
    if np.unique(drawn).size <= FEW:
        return bool(is_drawn.all())
    is_safe = (values != 0) | (~np.signbit(values) if struct.units else False)
    with np.errstate(invalid="ignore"):  # remainders of infinities
        is_like = (values % 0.5 == 0) & is_safe
    is_like &= (values >= np.nanmin(drawn)) & (values <= np.nanmax(drawn))
    return bool((is_drawn | is_like).all())


def _agreed(candidates, desc, views):
    """The output of a scatter where all updates of an element are the same."""
    (output,) = desc.output_ports().values()
    made = np.zeros(output.sizes, output.dtype)
    for at, updates in candidates.items():
        updates = updates or [views["input"][at]]
        if len({np.asarray(update).tobytes() for update in updates}) > 1:
            return None
        made[at] = updates[0]
    return made


def _written(array, tensor):
    buffer = np.zeros(tensor.element_span, tensor.dtype)
    seen(buffer, tensor)[...] = np.asarray(array).reshape(tensor.sizes)
    return _bytes(buffer, tensor.data_type)


def _bytes(elements, data_type):
    """Of 4 bits two in each byte, the first one in the low bits."""
    if data_type.bits >= 8:
        return elements.tobytes()
    nibbles = [int(n) % 16 for n in elements] + [0] * (len(elements) % 2)
    return bytes(low + 16 * high for low, high in zip(nibbles[::2], nibbles[1::2], strict=True))


def _finished(rng, number, nodes, flows):
    """The graph: what nobody reads is an output of it, and some of the rest; the sizes in bytes are made the same."""
    read_once = [flow for flow in flows if flow.kind == "input" and len(flow.readers) == 1]
    of_readers = [(flow.source, nodes[label].desc) for flow in read_once for (label, _), _ in flow.readers]
    may_be_owned = [source for source, desc in of_readers if "unowned(inputs)" not in desc.wordings()]
    flagged = {source for source in may_be_owned if rng.random() < 0.4}
    inputs, outputs, edges, buffers, wanted = {}, {}, {}, {}, {}
    descs = {label: node.desc for label, node in nodes.items()}
    for flow in flows:
        for count in range(2):
            if flow.kind == "operator" and (not (flow.readers or count) or rng.random() < 0.25):
                name = f"{' '.join(flow.source)} {count}"
                edges[name], tensor = flow.source, flow.tensor
                if rng.random() < 0.3 and flow.units is None:
                    outputs[name] = tensor = _another(rng, flow, strided=True)
                wanted[name] = flow.as_tensor(tensor) if flow.units is None else flow.exactly
                if name in outputs:
                    outputs[name] = _sized(tensor, flow)
                buffers[name] = _random(rng, tensor.data_type, tensor.element_span + int(rng.integers(3)))
        if flow.kind == "input":
            tensor = _another(rng, flow) if rng.random() < 0.3 else flow.tensor
            flags = "OWNED_BY_DML" if flow.source in flagged else "NONE"
            inputs[flow.source] = _sized(tensor, flow, flags)
            buffers[flow.source] = flow.elements(tensor)
        if flow.kind == "constant":
            descs[flow.source[0]] = Constant(flow.data.ljust(flow.total, b"\0"))
        for (label, port), _ in flow.readers:
            edges[label, port] = flow.source
    of_port = {reader: flow for flow in flows for reader, _ in flow.readers} | {flow.source: flow for flow in flows}
    for label, node in nodes.items():
        descs[label] = _resized(label, node.desc, of_port, flagged)
    desc = GraphDesc(descs, edges, inputs, outputs)
    bound, x64 = bool(rng.random() < 0.5), bool(rng.random() < 0.5)
    units = {name: of_port[desc.edges[name]].units for name in desc.outputs}
    return Case(number, desc, buffers, tuple(wanted[name] for name in desc.outputs), units, bound, x64)


def _random(rng, data_type, count):
    if data_type.bits < 8:
        return rng.choice(data_type.integers, count).astype(data_type.dtype)
    return np.frombuffer(rng.bytes(count * data_type.itemsize), data_type.dtype)


def _another(rng, flow, strided=False):
    """Another tensor of as many bytes: flat, or the columns of a matrix."""
    fitting = [one for one in DataType if one.bits >= 8 and flow.total % one.itemsize == 0]
    data_type = fitting[rng.integers(len(fitting))]
    count = flow.total // data_type.itemsize
    rows = next(n for n in (4, 3, 2, 1) if count % n == 0)
    if strided and rng.random() < 0.5:
        return TensorDesc(data_type, (rows, count // rows), (1, rows))
    return TensorDesc(data_type, (count,))


def _sized(tensor, flow, flags="NONE"):
    return TensorDesc(tensor.data_type, tensor.sizes, tensor.strides, flags, flow.total)


def _resized(label, desc, of_port, flagged):
    """The descriptor with the bytes of its edges, and what is owned."""

    def resized(port, tensor):
        flow = of_port[label, port]
        return _sized(tensor, flow, "OWNED_BY_DML" if flow.source in flagged else "NONE")

    changed = {}
    for name in desc.tensor_names():
        value = getattr(desc, name)
        if isinstance(value, tuple):
            changed[name] = tuple(resized(f"{name}[{i}]", one) for i, one in enumerate(value))
        elif value is not None:
            changed[name] = resized(name, value)
    return replace(desc, **changed)
