"""Quantised networks beside the same in floats, and beside ONNX Runtime: `python -m benchmarks.quantised --json FILE`.

The weights are random, and arguments of the jitted program. The files of 8 bits are made by ONNX Runtime's quantiser.
Where it is not installed, `--models FOLDER` names a folder that has them: that of another run with `--models`.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
from onnx import helper, numpy_helper

from dml_jax.bench.case import Case, Drawn, normal
from dml_jax.bench.implementations import Implementation, JaxRun
from dml_jax.bench.onnx_image_networks import NetworkRun
from dml_jax.bench.peers import runtime_run, versions
from dml_jax.bench.results import Results
from dml_jax.bench.timing import Effort, Measured, measure
from dml_jax.command.devices import cores, measured_kind
from dml_jax.onnx import to_jax

from .tables import measured_on, ratios

IR_VERSION, OPSET = 10, 20  # which every onnx and onnxruntime that is accepted reads
BLOCK = 32  # weights of 4 bits that share a scale
make = helper.make_node


@dataclass(frozen=True)
class Network:
    """A network in two files, and how it is called.

    Args:
      name: of the cases, and of the files.
      floats: makes the file of floats.
      quantised: makes the quantised one; None for ONNX Runtime's quantiser, which makes it of the other.
      sizes: of an input, without the batch.
      batches: a case each.
      unit: of a batch.
      tolerance: how far results may be apart, as a part of the largest: some steps of the quantiser.
      dtype: of the floats.
    """

    name: str
    floats: Callable[[], onnx.ModelProto]
    quantised: Callable[[], onnx.ModelProto] | None
    sizes: tuple[int, ...]
    batches: tuple[int, ...]
    unit: str
    tolerance: float
    dtype: str = "float32"

    def input(self, batch: int) -> Drawn:
        return normal((batch, *self.sizes), self.dtype)


# Networks of random weights.


def convolutions(widths: Sequence[int]) -> onnx.ModelProto:
    """A residual network: a convolution of 7 x 7, pooling, and for each width two blocks of two of 3 x 3."""
    nodes, weights, random = [], {}, np.random.default_rng(0)

    def convolve(x: str, sizes: tuple[int, ...], stride: int) -> str:
        name, pad = f"c{len(weights)}", sizes[-1] // 2
        weights[f"{name}.w"] = random.standard_normal(sizes, np.float32) * np.float32(np.prod(sizes[1:]) ** -0.5)
        weights[f"{name}.b"] = random.standard_normal(sizes[0], np.float32) / 8
        nodes.append(make("Conv", [x, f"{name}.w", f"{name}.b"], [name], pads=[pad] * 4, strides=[stride] * 2))
        return name

    def then(kind: str, *inputs: str, **attributes: Any) -> str:
        nodes.append(make(kind, inputs, [f"n{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    last = widths[0]
    x = then("Relu", convolve("x", (last, 3, 7, 7), 2))
    x = then("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for width in widths:
        for _ in range(2):
            stride = 1 if width == last else 2
            straight = x if width == last else convolve(x, (width, last, 1, 1), stride)
            inner = then("Relu", convolve(x, (width, last, 3, 3), stride))
            x = then("Relu", then("Add", convolve(inner, (width, width, 3, 3), 1), straight))
            last = width
    nodes[-1].output[0] = "y"
    return _model(nodes, weights, "float32", [None, 3, None, None], [None, last, None, None])


def dense_layers(widths: Sequence[int]) -> onnx.ModelProto:
    """Products of matrices, a Relu behind each."""
    random, nodes, weights = np.random.default_rng(0), [], {}
    for n, (k, m) in enumerate(pairwise(widths)):
        weights[f"w{n}"] = random.standard_normal((k, m), np.float32) * np.float32((2 / k) ** 0.5)
        weights[f"b{n}"] = random.standard_normal(m, np.float32) / 8
        nodes.append(make("Gemm", [f"r{n}", f"w{n}", f"b{n}"], [f"g{n}"]))
        nodes.append(make("Relu", [f"g{n}"], [f"r{n + 1}"]))
    nodes[0].input[0], nodes[-1].output[0] = "x", "y"
    return _model(nodes, weights, "float32", [None, widths[0]], [None, widths[-1]])


def feed_forward(width: int, inner: int, dtype: str, *, is_quantised: bool) -> onnx.ModelProto:
    """down(silu(gate(x)) * up(x)): a block of a language model, of 4 bits or of the floats that these stand for."""
    random, nodes, weights = np.random.default_rng(0), [], {}

    def multiply(x: str, name: str, k: int, n: int) -> None:
        q = random.integers(0, 16, (n, k), np.uint8)
        scales = (random.uniform(0.5, 1.5, (n, k // BLOCK)) / (4.6 * k**0.5)).astype(dtype)
        if is_quantised:
            weights[f"{name}.q"] = (q[:, ::2] | q[:, 1::2] << 4).reshape(n, k // BLOCK, BLOCK // 2)
            weights[f"{name}.s"] = scales
            sizes = {"K": k, "N": n, "bits": 4, "block_size": BLOCK}
            # As files have it for CPUs: ONNX Runtime may round x to 8 bits.
            how = {"domain": "com.microsoft", "accuracy_level": 4, **sizes}
            nodes.append(make("MatMulNBits", [x, f"{name}.q", f"{name}.s"], [name], **how))
        else:
            floats = (q.astype(np.float32) - 8) * np.repeat(scales.astype(np.float32), BLOCK, 1)
            weights[f"{name}.w"] = np.ascontiguousarray(floats.astype(dtype).T)
            nodes.append(make("MatMul", [x, f"{name}.w"], [name]))

    multiply("x", "gate", width, inner)
    multiply("x", "up", width, inner)
    nodes += [
        make("Sigmoid", ["gate"], ["s"]),
        make("Mul", ["gate", "s"], ["silu"]),
        make("Mul", ["silu", "up"], ["h"]),
    ]
    multiply("h", "y", inner, width)
    return _model(nodes, weights, dtype, [None, width], [None, width])


def _model(nodes: Any, weights: Any, dtype: str, input: Sequence[Any], output: Sequence[Any]) -> onnx.ModelProto:
    """A model of x and y, whose sizes may be left open."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x, y = (helper.make_tensor_value_info(name, kind, sizes) for name, sizes in (("x", input), ("y", output)))
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    imports = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "network", [x], [y], tensors)
    return helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)


def _block(dtype: str) -> Network:
    floats, quantised = (partial(feed_forward, 2048, 5632, dtype, is_quantised=q) for q in (False, True))
    return Network(f"feed-forward, 4 bits and {dtype}", floats, quantised, (2048,), (1, 512), "row", 0.05, dtype)


NETWORKS = (
    Network(
        "convolutions, 8 bits and float32",
        partial(convolutions, (64, 128, 256)),
        None,
        (3, 224, 224),
        (1, 32),
        "picture",
        0.05,
    ),
    Network(
        "dense layers, 8 bits and float32",
        partial(dense_layers, (1024, 4096) * 4 + (1024,)),
        None,
        (1024,),
        (1, 32, 512),
        "row",
        0.05,
    ),
    _block("float32"),
    _block("float16"),
)

# Files.


def _files(network: Network, folder: Path) -> tuple[Path, Path]:
    """The quantised network and that of floats; a file that the folder lacks is made."""
    stem = network.name.replace(",", "").replace(" ", "_")
    quantised, floats = (folder / f"{stem}.{kind}.onnx" for kind in ("quantised", "floats"))
    if not floats.exists():
        onnx.save(network.floats(), floats)
    if not quantised.exists() and network.quantised:
        onnx.save(network.quantised(), quantised)
    elif not quantised.exists():
        _quantise(floats, quantised, network.input(max(network.batches)).make())
    return quantised, floats


def _quantise(before: Path, after: Path, data: np.ndarray) -> None:
    """int8 with a scale for each channel of the weights, and for each array between operators that of `data`."""
    if not find_spec("onnxruntime"):
        raise SystemExit(f"error: {after} must exist, as onnxruntime, which makes it, is not installed")
    from onnxruntime import quantization

    class Samples(quantization.CalibrationDataReader):
        def __init__(self):
            self.left = [{"x": data}]

        def get_next(self) -> Any:
            return self.left.pop() if self.left else None

    int8 = quantization.QuantType.QInt8
    kinds = {"activation_type": int8, "weight_type": int8, "per_channel": True}
    quantization.quantize_static(before, after, Samples(), quant_format=quantization.QuantFormat.QDQ, **kinds)


# Measuring.


def measured(networks: Sequence[Network], folder: Path, effort: Effort) -> Iterator[list[Measured]]:
    """The rows of each case: every implementation in turn, beside a copy of the quantised weights and of the data."""
    for network in networks:
        files = _files(network, folder)
        weights = sum(len(tensor.raw_data) for tensor in onnx.load(files[0]).graph.initializer)
        for batch in network.batches:
            detail = f"{network.name}, {batch} {network.unit}{'s' * (batch > 1)}"
            x = network.input(batch)
            how: Any = {"needed": weights + x.nbytes, "tolerance": network.tolerance}
            case = Case("quantised", detail, {}, [x], **how)
            yield measure(case, list(_implementations(*files)), effort)


def _implementations(quantised: Path, floats: Path) -> Iterator[Implementation]:
    """This library, with weights as arguments and as `to_jax` leaves them, and on a CPU ONNX Runtime."""
    yield Implementation("dml_jax", lambda _, turns: NetworkRun(onnx.load(quantised), turns))
    yield Implementation("floats", lambda _, turns: NetworkRun(onnx.load(floats), turns))
    yield Implementation("constants", lambda _, turns: JaxRun(to_jax(onnx.load(quantised)), turns, donated=False))
    if jax.default_backend() == "cpu" and find_spec("onnxruntime"):
        yield Implementation("ONNX Runtime", lambda _, turns: runtime_run(str(quantised), turns[0]))
        yield Implementation("ONNX Runtime floats", lambda _, turns: runtime_run(str(floats), turns[0]))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quantised", description=__doc__)
    parser.add_argument("--models", type=Path, metavar="FOLDER", help="keep the files there, and take those it has")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store what was measured")
    given = parser.parse_args(arguments)
    if given.models:
        given.models.mkdir(parents=True, exist_ok=True)
    device = f"{measured_kind()}, {cores()} cores" if jax.default_backend() == "cpu" else measured_kind()
    results = Results.now(device, versions(), [])
    with nullcontext(given.models) if given.models else tempfile.TemporaryDirectory() as folder:
        for found in measured(NETWORKS, Path(folder), Effort(rounds=9, seconds=0.01)):
            results = Results.now(device, results.versions, [*results.rows, *found])
            if given.json:
                given.json.write_text(results.json())  # what there is so far, too
            sys.stdout.write(f"{found[0].case}: {', '.join(f'{row.contender} {row.seconds:.3g} s' for row in found)}\n")
            sys.stdout.flush()
    sys.stdout.write("\n".join([measured_on(results), "", *ratios(dict(results.by_case())), ""]))


if __name__ == "__main__":
    main()
