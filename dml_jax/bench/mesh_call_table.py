"""Table of a sample call per public function, of any batch size; dimensions with the same letter are sharded alike."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import dml_jax

# Size by letter. n is the batch, of any size, and b a buffer of n * r * f. Dimensions of multiples of 8 are sharded.
SIZES = {"r": 512, "f": 64, "c": 16, "h": 32, "w": 32, "y": 24, "x": 24, "k": 16, "t": 32, "d": 128, "e": 1024}
SIZES |= {"j": 64, "p": 512, "z": 256, "a": 3, "v": 5, "g": 2, "q": 4, "s": 6, "o": 1, "m": 64, "l": 128, "i": 128}
IMAGE = "nchw"


class Operand(NamedTuple):
    """An array of a call.

    Args:
      dims: a letter for each dimension.
      kind: "" for floats from -1 to 1, "f8" for floats below 8, "8" for int32 below 8, "at" for 0, 1, 2 ..., "bits".
    """

    dims: str
    kind: str

    def shape(self, n: int) -> tuple[int, ...]:
        return tuple({**SIZES, "n": n, "b": n * 512 * 64}[letter] for letter in self.dims)


@dataclass(frozen=True)
class MeshCall:
    """A function with its operands, and the letters of its outputs' dimensions; a dot is a dimension of no operand."""

    function: Callable[..., Any]
    operands: Sequence[Operand]
    outputs: Sequence[str]

    def leaves(self, *arrays: Any, **sharding: Any) -> list[Any]:
        """Calls the function, and returns its outputs as a list."""
        return jax.tree.leaves(self.function(*arrays, **sharding))

    def shapes(self, n: int) -> list[jax.ShapeDtypeStruct]:
        return [jax.eval_shape(partial(hashed_data, operand.shape(n), operand.kind)) for operand in self.operands]

    @property
    def divided(self) -> str:
        """The letters of the dimensions that are sharded: of the first operand, else of the output."""
        return self.outputs[0] if self.is_made else self._large

    @property
    def is_made(self) -> bool:
        """Whether no operand can be sharded; then the caller gives the sharding of the output."""
        return not self._large

    @property
    def _large(self) -> str:
        return "".join(x for x in self.operands[0].dims if x in "nb" or SIZES[x] % 8 == 0)


@partial(jax.jit, static_argnums=(0, 1))
def hashed_data(shape: tuple[int, ...], kind: str) -> jax.Array:
    """Returns deterministic data, hashed from the flat index, so every sharding has the same; kinds as in `Operand`."""
    index = jnp.zeros(shape, jnp.uint32)
    for d, n in enumerate(shape):
        index = index * n + lax.broadcasted_iota(jnp.uint32, shape, d)
    if kind == "at":
        return index.astype(jnp.int32)
    bits = index * np.uint32(0x9E3779B1)
    bits = (bits ^ (bits >> 15)) * np.uint32(0x85EBCA77)
    bits ^= bits >> 13
    if kind.isdigit():
        return (bits % int(kind)).astype(jnp.int32)
    unit = (bits >> 8).astype(jnp.float32) / 2**24
    return bits if kind == "bits" else unit * float(kind[1:]) if kind else 2 * unit - 1


@cache
def mesh_calls(n: int) -> Mapping[str, MeshCall]:
    """Function name -> its call, with a batch of n."""
    return {name: _call(function, dims) for name, (function, dims) in _table(n).items()}


def _call(function: Callable[..., Any], dims: str) -> MeshCall:
    inputs, outputs = dims.split("->")
    parts = [one.rpartition(":") for one in inputs.split(",")]
    return MeshCall(function, [Operand(dims, kind) for kind, _, dims in parts], outputs.split(","))


def _table(n: int) -> dict[str, tuple[Callable[..., Any], str]]:
    def image(name: str, *operands: str, to: str = IMAGE, **attributes: Any) -> tuple[Callable[..., Any], str]:
        return partial(getattr(dml_jax, name), **attributes), f"{','.join((IMAGE, *operands))}->{to}"

    def rows(name: str, *operands: str, to: str = "nrf", **attributes: Any) -> tuple[Callable[..., Any], str]:
        return partial(getattr(dml_jax, name), **attributes), f"{','.join(('nrf', *operands))}->{to}"

    def made(name: str, **attributes: Any) -> tuple[Callable[..., Any], str]:
        return (lambda v, **how: getattr(dml_jax, name)(sizes, **attributes, **how | {key[name]: v})), ":->nrf"

    sizes, key = (
        (n, 512, 64),
        {"fill_value_sequence": "start"} | dict.fromkeys(("fill_value_constant", "diagonal_matrix"), "value"),
    )
    window: dict[str, Any]
    cropped: dict[str, Any]
    window, halves = {"window_sizes": (2, 2), "strides": (2, 2)}, (256, 256)
    cropped = {"input_window_offsets": (0, 0, 4, 4), "input_window_sizes": (n, 16, 24, 24)}
    return {
        "gather": rows("gather", "512:p", to="npf", axis=1),
        "gather_elements": rows("gather_elements", "512:nrf", axis=1),
        "gather_nd": rows("gather_nd", "512:nro", batch_dims=1),
        "scatter_elements": rows("scatter_elements", "512:nmf", "nmf", axis=1, reduction="add"),
        "scatter_nd": rows("scatter_nd", f"{n}:mo", "mrf", reduction="add"),
        "depth_to_space": image("depth_to_space", block_size=2, order="CRD"),
        "space_to_depth": image("space_to_depth", block_size=2, order="CRD"),
        "as_strided": (partial(_view, n), "b->nrf"),
        "as_strided_scatter": (partial(dml_jax.as_strided_scatter, strides=(32768, 1)), "b,nr->b"),
        "identity": rows("identity", scale=0.5, bias=1.0),
        "cast": rows("cast", dtype="bfloat16"),
        "select": (dml_jax.select, "2:nrf,nrf,nrf->nrf"),
        "slice": image("slice", input_window_strides=(1,) * 4, **cropped),
        "slice_grad": (
            partial(
                dml_jax.slice_grad,
                sizes=(n, 16, 32, 32),
                offsets=(0, 0, 4, 4),
                window_sizes=(n, 16, 24, 24),
                strides=(1,) * 4,
            ),
            "ncyx->ncyx",
        ),
        "join": (lambda a, b, **how: dml_jax.join([a, b], 1, **how), "nrf,nrf->nrf"),
        "split": rows("split", to="nrf,nrf", sizes=halves, axis=1),
        "tile": rows("tile", repeats=(1, 1, 2)),
        "pad": (partial(dml_jax.pad, start_padding=(0, 0, 4, 4), end_padding=(0, 0, 4, 4)), "ncyx->ncyx"),
        "reverse_subsequences": rows("reverse_subsequences", "512:nof", axis=1),
        "upsample_2d": image("upsample_2d", scale_size=(2, 2)),
        "resample": image("resample", sizes=(n, 16, 64, 64), scales=(1, 1, 2, 2), mode="linear"),
        "grid_sample": image("grid_sample", "nhwg", to="nchw"),
        "value_scale_2d": image("value_scale_2d", scale=0.5, bias=(0.25,) * 16),
        "unfold": image("unfold", to="nc.", **window),
        "fold": (partial(dml_jax.fold, output_sizes=(32, 32), **window), "njz->nj.."),
        "max_unpooling": image("max_unpooling", "at:nchw", output_sizes=(n, 16, 64, 64)),
        "one_hot": (partial(dml_jax.one_hot, size=1024, axis=1), "1024:no,g->n."),
        "top_k": rows("top_k", to="nrf,nrf", axis=2, k=8),
        "nonzero_coordinates": (dml_jax.nonzero_coordinates, "nr->,n."),
        "fill_value_constant": made("fill_value_constant", dtype="float32"),
        "fill_value_sequence": made("fill_value_sequence", dtype="float32", delta=0.5),
        "random_bits": (partial(dml_jax.random_bits, sizes=sizes), "bits:s->nrf,s"),
        "diagonal_matrix": made("diagonal_matrix", dtype="float32"),
        "fill_diagonals": rows("fill_diagonals", begin=1, end=64, value=0),
        "cumulative_summation": rows("cumulative_summation", axis=1),
        "cumulative_product": rows("cumulative_product", axis=1),
        "gemm": (partial(dml_jax.gemm, trans_b=True), "ne,me,nm->nm"),
        "add": (dml_jax.add, "nrf,nrf->nrf"),
        "clip": rows("clip", min=-0.5, max=0.5),
        "activate": rows("activate", activation=dml_jax.Activation("ACTIVATION_RELU")),
        "reduce": rows("reduce", function="sum", axes=(1,)),
        "max_pooling": image("max_pooling", to="nchw,nchw", **window),
        "average_pooling": image("average_pooling", **window),
        "lp_pooling": image("lp_pooling", **window),
        "roi_pooling": image("roi_pooling", "f8:mv", to="mc..", output_sizes=(8, 8)),
        "roi_align": image("roi_align", "f8:mq", "8:m", to="mc..", output_sizes=(8, 8)),
        "local_response_normalization": image("local_response_normalization", local_size=5),
        "convolution": image("convolution", "kcaa", to="nkhw", start_padding=(1, 1), end_padding=(1, 1)),
        "rnn": (dml_jax.rnn, "tnd,f0.01:old,f0.01:oli->tonl,oonl"),
    }


def _view(n: int, buffer: jax.Array, **how: Any) -> jax.Array:
    """Transposes every matrix of the batch."""
    return dml_jax.as_strided(buffer, (n, 64, 512), (32768, 1, 64), **how)
