"""torch modules as ONNX files beside themselves: `python -m benchmarks.exported [NAME ...] --json FILE`.

Each module has random weights. torch's exporter writes it, `to_jax` reads it, and the jitted function runs beside the
module, eager and as torch.compile makes it (on a GPU with CUDA graphs, so that no kernel waits for the host), on JAX's
device. A network is left out where its package is not installed.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import jax
import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]
from torch.nn import functional  # pyright: ignore[reportMissingImports]

from dml_jax.bench import noise
from dml_jax.bench.case import Case
from dml_jax.bench.implementations import JaxRun, Run, copy_of, joined, thin
from dml_jax.bench.peers import versions
from dml_jax.bench.results import Results
from dml_jax.bench.timing import COMPARED, Effort, Measured, measure_runs
from dml_jax.command.devices import cores, measured_kind
from dml_jax.onnx import to_jax

from .tables import measured_on, ratios

OPERATOR, COPY = "exported", "copy"
OURS, EAGER, COMPILED = "dml_jax", "eager torch", "torch.compile"
WORDS = 32_000  # of the language model
# How far results may be apart, as a part of the largest: roundings of a hundred layers, and TF32 in convolutions.
TOLERANCES = {"bfloat16": 0.05, "float16": 0.05, "float32": 0.02}


@dataclass(frozen=True)
class Network:
    """A module of torch, and the sizes of its input: floats, or ids of words.

    Args:
      name: of its cases.
      make: makes it, with random weights.
      sizes: of the input.
      is_text: whether that has ids.
      package: that makes it.
    """

    name: str
    make: Callable[[], nn.Module]
    sizes: tuple[int, ...]
    is_text: bool = False
    package: str = "torchvision"

    def input(self) -> torch.Tensor:
        return torch.randint(WORDS, self.sizes) if self.is_text else torch.randn(self.sizes)


# The modules.


class SuperResolution(nn.Sequential):
    """ESPCN: four convolutions, whose last channels become 3 x 3 pixels."""

    def __init__(self):
        pairs = ((3, 64, 5), (64, 64, 3), (64, 32, 3), (32, 27, 3))
        layers = ((nn.Conv2d(a, b, k, padding=k // 2), nn.ReLU()) for a, b, k in pairs)
        super().__init__(*[*chain(*layers)][:-1], nn.PixelShuffle(3))


class Unet(nn.Module):
    """Three levels of two convolutions with GroupNorm each, down by maxima and up by interpolation."""

    def __init__(self):
        super().__init__()
        sizes = ((3, 64), (64, 128), (128, 256), (384, 128), (192, 64))
        self.levels = nn.ModuleList(nn.Sequential(*self.layer(a, b), *self.layer(b, b)) for a, b in sizes)
        self.last = nn.Conv2d(64, 3, 1)

    def layer(self, inputs: int, outputs: int) -> list[nn.Module]:
        return [nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(8, outputs), nn.SiLU()]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second, third, fourth, fifth = self.levels
        fine = first(x)
        middle = second(functional.max_pool2d(fine, 2))
        coarse = third(functional.max_pool2d(middle, 2))
        enlarged = functional.interpolate(coarse, scale_factor=2, mode="bilinear")
        joint = fourth(torch.cat([enlarged, middle], 1))
        return self.last(fifth(torch.cat([functional.interpolate(joint, scale_factor=2), fine], 1)))


def vision(name: str) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        import torchvision  # pyright: ignore[reportMissingImports]

        return getattr(torchvision.models, name)()

    return make


class Llama(nn.Module):
    """The logits of a small language model of transformers."""

    def __init__(self):
        from transformers import LlamaConfig, LlamaForCausalLM  # pyright: ignore[reportMissingImports]

        super().__init__()
        heads = {"num_attention_heads": 16, "num_key_value_heads": 4}
        widths = {"hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 8}
        self.model = LlamaForCausalLM(LlamaConfig(vocab_size=WORDS, use_cache=False, **widths, **heads))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=ids, use_cache=False).logits


PICTURES, HALF = (64, 3, 224, 224), (32, 3, 224, 224)
NETWORKS = (
    Network("vit_b_16", vision("vit_b_16"), PICTURES),
    Network("unet", Unet, (16, 3, 256, 256), package="torch"),
    Network("espcn", SuperResolution, (16, 3, 360, 640), package="torch"),
    Network("resnet50", vision("resnet50"), PICTURES),
    Network("llama", Llama, (4, 512), is_text=True, package="transformers"),
    Network("swin_t", vision("swin_t"), HALF),
    Network("convnext_tiny", vision("convnext_tiny"), HALF),
    Network("mobilenet_v3_large", vision("mobilenet_v3_large"), PICTURES),
    Network("efficientnet_b0", vision("efficientnet_b0"), PICTURES),
)

# Measuring.


class TorchRun:
    """Calls of a module."""

    def __init__(self, module: Callable[..., torch.Tensor], x: torch.Tensor):
        self.module, self.x = module, x
        for turn in range(3):  # compiles, records a CUDA graph, plays it
            self.step(turn)

    def step(self, turn: int) -> None:
        with torch.no_grad():
            self.out = self.module(self.x)

    def finish(self) -> None:
        if self.x.is_cuda:
            torch.cuda.synchronize()

    def value(self, most: int) -> np.ndarray:
        return joined([thin(self.out, most).float().cpu().numpy()])


def measured(network: Network, dtype: str, effort: Effort) -> list[Measured]:
    """The rows of a network in one type: all implementations in turn, beside a copy of its weights and its input."""
    torch.manual_seed(0)
    module, x = network.make().eval(), network.input()
    for weights in module.parameters():
        if not weights.any():  # zeros would make results of zeros, and XLA would leave them out
            nn.init.normal_(weights, std=0.02)
    of_floats = getattr(torch, dtype)
    module, x = module.to(of_floats), x if network.is_text else x.to(of_floats)
    device = "cpu" if jax.default_backend() == "cpu" else "cuda"
    module, x = module.to(device), x.to(device)
    torch._dynamo.reset()  # so that nothing is known of the network before
    compiled: dict[str, Run] = {}
    try:
        compiled[COMPILED] = TorchRun(torch.compile(module, mode="reduce-overhead"), x)
    except Exception as error:  # of no type of its own
        sys.stderr.write(f"{network.name}: torch.compile: {str(error).partition(chr(10))[0]}\n")
    runs = {OURS: _exported(module, x), EAGER: TorchRun(module, x), **compiled}
    moved = sum(w.nbytes for w in module.parameters()) + x.nbytes
    case = Case(OPERATOR, f"{network.name}, {dtype}", needed=moved)
    rows = measure_runs(case, {**runs, COPY: copy_of(moved, 1)}, effort, COPY)
    first = runs[OURS].value(COMPARED).astype(np.float64)
    errors = {name: np.abs(run.value(COMPARED) - first).max() / np.abs(first).max() for name, run in runs.items()}
    return [
        replace(row, error=float(errors[row.contender]), same_bits=bool(errors[row.contender] <= TOLERANCES[dtype]))
        for row in rows
        if row.contender != COPY
    ]


def _exported(module: nn.Module, x: torch.Tensor) -> JaxRun:
    """The module as its file says, with its weights as constants; ids are int32, as JAX has them.

    Convolutions of bfloat16 are in ONNX from opset 22 on. There torch's exporter makes float32 of the filters that it
    multiplies by the scales of a BatchNorm.
    """
    options: dict[str, Any] = {}
    if next(module.parameters()).dtype == torch.bfloat16:
        has_scales = any(isinstance(layer, nn.BatchNorm2d) for layer in module.modules())
        options = {"opset_version": 22, "optimize": not has_scales}
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        path = Path(folder, "network.onnx")
        options |= {"external_data": True, "input_names": ["x"]}
        torch.onnx.export(module, (x,), str(path), dynamo=True, verbose=False, **options)
        ids = [] if x.is_floating_point() else ["x"]
        function = to_jax(path, int32=ids)
    array = x.cpu().numpy().astype(np.int32) if ids else x.cpu().float().numpy().astype(str(x.dtype).partition(".")[2])
    return JaxRun(function, [(array,)], donated=False)


def main(arguments: Sequence[str] | None = None) -> None:
    names = [network.name for network in NETWORKS]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exported", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"networks: {', '.join(names)}; by default all")
    parser.add_argument("--dtype", choices=[*TOLERANCES], action="append", help="by default all")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no case after so many seconds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store what was measured; what FILE has is kept")
    given = parser.parse_args(arguments)
    if unknown := set(given.names).difference(names):
        parser.error(f"NAME must be one of {', '.join(names)}, but it is {min(unknown)}")
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # torch needs memory, too
    end = time.monotonic() + given.seconds
    device = f"{measured_kind()}, {cores()} cores" if jax.default_backend() == "cpu" else measured_kind()
    results = Results.now(device, versions(), [])
    if given.json and given.json.exists():
        results = Results.read(given.json)
        if results.device != device:
            parser.error(f"{given.json} must be of this device, {device}, but it is of {results.device}")
    for network, dtype in _asked(given.names or names, given.dtype or [*TOLERANCES], dict(results.by_case())):
        if time.monotonic() > end:
            break
        found = measured(network, dtype, Effort(rounds=9, seconds=0.05))
        rows = [*results.rows, *found]
        results = Results.now(device, versions(), rows, notes=tuple(noise.notes(rows)))
        if given.json:
            given.json.write_text(results.json())  # what there is so far, too
        times = ", ".join(f"{row.contender} {1e3 * row.seconds:.3g} ms (error {row.error:.0e})" for row in found)
        sys.stdout.write(f"{found[0].case}: {times}\n")
        sys.stdout.flush()
    sys.stdout.write("\n".join([measured_on(results), "", *ratios(dict(results.by_case())), ""]))


def _asked(names: Sequence[str], dtypes: Sequence[str], known: Mapping[str, Any]) -> Iterator[tuple[Network, str]]:
    """The networks and types that can be measured, and that are not known."""
    for network in NETWORKS:
        for dtype in dtypes:
            is_new = f"{OPERATOR} {network.name}, {dtype}" not in known
            if network.name in names and is_new and find_spec(network.package):
                yield network, dtype


if __name__ == "__main__":
    main()
