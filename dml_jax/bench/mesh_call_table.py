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
    sizes, halves = (n, 512, 64), (256, 256)
    window: Any = {"window_sizes": (2, 2), "strides": (2, 2)}
    cropped: Any = {"input_window_offsets": (0, 0, 4, 4), "input_window_sizes": (n, 16, 24, 24)}
    rows = (
        _row("gather", "nrf,512:p->npf", axis=1),
        _row("gather_elements", "nrf,512:nrf->nrf", axis=1),
        _row("gather_nd", "nrf,512:nro->nrf", batch_dims=1),
        _row("scatter_elements", "nrf,512:nmf,nmf->nrf", axis=1, reduction="add"),
        _row("scatter_nd", f"nrf,{n}:mo,mrf->nrf", reduction="add"),
        _row("depth_to_space", "nchw->nchw", block_size=2, order="CRD"),
        _row("space_to_depth", "nchw->nchw", block_size=2, order="CRD"),
        _row("as_strided", "b->nrf", sizes=(n, 64, 512), strides=(32768, 1, 64)),  # transposes each matrix
        _row("as_strided_scatter", "b,nr->b", strides=(32768, 1)),
        _row("identity", "nrf->nrf", scale=0.5, bias=1.0),
        _row("cast", "nrf->nrf", dtype="bfloat16"),
        _row("select", "2:nrf,nrf,nrf->nrf"),
        _row("slice", "nchw->nchw", input_window_strides=(1,) * 4, **cropped),
        _row(
            "slice_grad",
            "ncyx->ncyx",
            sizes=(n, 16, 32, 32),
            offsets=(0, 0, 4, 4),
            window_sizes=(n, 16, 24, 24),
            strides=(1,) * 4,
        ),
        _row("join", "nrf,nrf->nrf", axis=1),
        _row("split", "nrf->nrf,nrf", sizes=halves, axis=1),
        _row("tile", "nrf->nrf", repeats=(1, 1, 2)),
        _row("pad", "ncyx->ncyx", start_padding=(0, 0, 4, 4), end_padding=(0, 0, 4, 4)),
        _row("reverse_subsequences", "nrf,512:nof->nrf", axis=1),
        _row("upsample_2d", "nchw->nchw", scale_size=(2, 2)),
        _row("resample", "nchw->nchw", sizes=(n, 16, 64, 64), scales=(1, 1, 2, 2), mode="linear"),
        _row("grid_sample", "nchw,nhwg->nchw"),
        _row("value_scale_2d", "nchw->nchw", scale=0.5, bias=(0.25,) * 16),
        _row("unfold", "nchw->nc.", **window),
        _row("fold", "njz->nj..", output_sizes=(32, 32), **window),
        _row("max_unpooling", "nchw,at:nchw->nchw", output_sizes=(n, 16, 64, 64)),
        _row("one_hot", "1024:no,g->n.", size=1024, axis=1),
        _row("top_k", "nrf->nrf,nrf", axis=2, k=8),
        _row("nonzero_coordinates", "nr->,n."),
        _row("fill_value_constant", ":->nrf", sizes=sizes, dtype="float32"),
        _row("fill_value_sequence", ":->nrf", sizes=sizes, delta=0.5, dtype="float32"),
        _row("random_bits", "bits:s->nrf,s", sizes=sizes),
        _row("diagonal_matrix", ":->nrf", sizes=sizes, dtype="float32"),
        _row("fill_diagonals", "nrf->nrf", begin=1, end=64, value=0),
        _row("cumulative_summation", "nrf->nrf", axis=1),
        _row("cumulative_product", "nrf->nrf", axis=1),
        _row("gemm", "ne,me,nm->nm", trans_b=True),
        _row("add", "nrf,nrf->nrf"),
        _row("clip", "nrf->nrf", min=-0.5, max=0.5),
        _row("activate", "nrf->nrf", activation=dml_jax.Activation("ACTIVATION_RELU")),
        _row("reduce", "nrf->nrf", function="sum", axes=(1,)),
        _row("max_pooling", "nchw->nchw,nchw", **window),
        _row("average_pooling", "nchw->nchw", **window),
        _row("lp_pooling", "nchw->nchw", **window),
        _row("roi_pooling", "nchw,f8:mv->mc..", output_sizes=(8, 8)),
        _row("roi_align", "nchw,f8:mq,8:m->mc..", output_sizes=(8, 8)),
        _row("local_response_normalization", "nchw->nchw", local_size=5),
        _row("convolution", "nchw,kcaa->nkhw", start_padding=(1, 1), end_padding=(1, 1)),
        _row("rnn", "tnd,f0.01:old,f0.01:oli->tonl,oonl"),
    )
    return dict(rows)


def _row(name: str, dims: str, /, **attributes: Any) -> tuple[str, MeshCall]:
    """The call of a function; `dims` has the kind and the letters of each operand, and the letters of each output."""
    inputs, outputs = dims.split("->")
    parts = [one.rpartition(":") for one in inputs.split(",")]
    operands = [Operand(letters, kind) for kind, _, letters in parts]
    return name, MeshCall(partial(_called, getattr(dml_jax, name), attributes), operands, outputs.split(","))


def _called(function: Any, attributes: Mapping[str, Any], *arrays: Any, **sharding: Any) -> Any:
    """The call, with arrays by their names: in some functions, sizes stand before them."""
    names = [name for name, kind in function.kinds.items() if kind.is_array]
    is_list = function.kinds[names[0]].is_list
    given = {names[0]: arrays} if is_list else dict(zip(names, arrays, strict=False))
    return function(**given, **attributes, **sharding)
