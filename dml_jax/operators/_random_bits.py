"""RANDOM_GENERATOR: random bits of Philox 4x32-10, from a counter and a key.

Philox (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) encrypts a counter of 128 bits with a key of
64 bits, which gives a block of four words of 32 bits. The next block is that of the next counter, so all blocks can be
computed at once.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from math import prod
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core.arguments.kinds import Data, OutSharding
from ..core.arguments.operator import operator
from ..core.rules import Operands, Rule, custom, each_at_least, if_given, representable, same_sizes, sizes_follow
from ..core.sharding import Dims
from ..core.structs.feature_level_tables import RANK_4, RANKS_1_TO_8, levels
from ..core.structs.field_types import Named
from ..core.structs.fields import Input, OptionalOutput, Output, named
from ..core.structs.operator_desc import OneOrSeveralOutputs
from ..core.structs.struct_rules import right_aligned
from ..core.tensors.data_type import DataType
from ..errors import DataTypeError

__all__ = ["RandomGeneratorDesc", "RandomGeneratorType", "random_bits"]

# Four words of the counter, the lowest one first, then two of the key.
_STATE = (6,)
_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)


def _other_type(x: Operands) -> str | None:
    return None if x["state"].dtype == np.uint32 else f"it is {x['state'].dtype}"


def _too_many(x: Operands) -> str | None:
    count = prod(x["sizes"])
    return f"there are {count}" if count > 2**33 else None


RULES = (
    Rule("uint32(state)", "{state}.{dtype} must be uint32", _other_type, DataTypeError),
    sizes_follow("state", lambda _: _STATE, f"{_STATE}"),
    each_at_least("sizes", 0),
    representable("sizes", lambda x: x["sizes"], "state"),
    custom("countable(sizes)", "{sizes} must give at most 2**33 elements", _too_many),
)


def _dims(x: Operands) -> Dims:
    return Dims({"state": ["state"]}, [f"output {d}" for d in range(len(x["sizes"]))], whole=(1,))


@operator(*RULES, dims=_dims)
def random_bits(state: Data, sizes: Sequence[int], *, out_sharding: OutSharding = None) -> tuple[jax.Array, jax.Array]:
    """Makes an array of random bits from the state of a generator, Philox 4x32-10, and the state that follows.

    bits.ravel()[4 * b + j] is word j of Philox of the counter + b, modulo 2**128, and of the key.

    The same state gives the same bits on every device. They are not secure: whoever sees some can compute the state.

    Args:
      state: (6,) of uint32: the counter, its lowest word first, then the key. A new one mostly begins with a counter of
        0; other keys give other bits.
      sizes: of the bits; integers, at least 0, that give at most 2**33 elements.
      out_sharding: of the bits on a mesh, a NamedSharding or PartitionSpec; by default every device has all of them.
        Every device has the state.

    Returns:
      bits: an array of `sizes` and of uint32.
      state: (6,) of uint32, whose counter is that of the first block which is not used, even in part: the old one +
        ceil(elements / 4). The key stays.

    Raises:
      ConstraintError: another shape of `state`, a negative size, or too many elements.
      DataTypeError: `state` is not of uint32, or a size is not an integer.

    Example:
      >>> import numpy as np, dml_jax
      >>> bits, state = dml_jax.random_bits(np.zeros(6, np.uint32), (5,))
      >>> print(*map(hex, bits.tolist()))
      0x6627e8d5 0xe169c58d 0xbc57ac4c 0x9b00dbd8 0xf8e4cca4
      >>> print(state)
      [2 0 0 0 0 0]

    Source: DML_RANDOM_GENERATOR_OPERATOR_DESC, and the paper that it names. That the first word of the counter is the
      lowest; programs of DirectML rely on this, though the page does not say it.
    """
    counter, key = [state[i] for i in range(4)], (state[4], state[5])
    count = prod(sizes)
    blocks = -(-count // 4)
    words = _philox(_add_to_counter(counter, lax.iota(np.uint32, blocks)), key)
    bits = jnp.stack(words, -1).reshape(-1)[:count].reshape(tuple(sizes))
    return bits, jnp.stack([*_add_to_counter(counter, np.uint32(blocks)), *key])


def _add_to_counter(counter: Sequence[Any], by: Any) -> list[Any]:
    """Returns the words of counter + by; the sum of two words has overflown if it is less than one of them."""
    words, carry = [], jnp.asarray(by)
    for word in counter:
        total = word + carry
        words.append(total)
        carry = (total < carry).astype(np.uint32)
    return words


def _philox(counter: Sequence[Any], key: Sequence[Any]) -> Sequence[Any]:
    """Returns the four words of each block, from the four words of its counter."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        (high0, low0), (high1, low1) = _product(c0, _MULTIPLIERS[0]), _product(c2, _MULTIPLIERS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + np.uint32(_KEY_STEPS[0]), k1 + np.uint32(_KEY_STEPS[1])
    return c0, c1, c2, c3


def _product(word: Any, multiplier: int) -> tuple[Any, Any]:
    """Returns the high and the low word of a product, from products of halves, which 32 bits hold.

    With halves of one decimal digit, 97 * 86: 7 * 6 = 42, 9 * 6 + 4 = 58, 7 * 8 + 8 = 64, 9 * 8 + 5 + 6 = 83; the
    product is 8342.
    """
    mask, half = np.uint32(0xFFFF), np.uint32(16)
    low, high = word & mask, word >> half
    of_low, of_high = np.uint32(multiplier & 0xFFFF), np.uint32(multiplier >> 16)
    first = high * of_low + (low * of_low >> half)
    second = low * of_high + (first & mask)
    return high * of_high + (first >> half) + (second >> half), word * np.uint32(multiplier)


# The struct.


class RandomGeneratorType(enum.IntEnum):
    """DML_RANDOM_GENERATOR_TYPE: the algorithm, of which there is one."""

    PHILOX_4X32_10 = 0


class RandomGeneratorDesc(OneOrSeveralOutputs):
    """DML_RANDOM_GENERATOR_OPERATOR_DESC: fills a tensor with random bits.

    Args:
      input_state: (..., 1, 6) of UINT32: a counter of four words, the lowest one first, and a key of two.
      output: any sizes, UINT32: the bits.
      output_state: the sizes of `input_state`: the state that follows; or None.

    Example:
      >>> import numpy as np
      >>> from dml_jax import TensorDesc
      >>> from dml_jax.descs import RandomGeneratorDesc
      >>> state, bits = (TensorDesc("UINT32", (1, 1, 1, n)) for n in (6, 4))
      >>> desc = RandomGeneratorDesc(state, bits, None, "PHILOX_4X32_10")
      >>> print(*map(hex, desc.compute(np.zeros((1, 1, 1, 6), np.uint32)).ravel().tolist()))
      0x6627e8d5 0xe169c58d 0xbc57ac4c 0x9b00dbd8

    Source: DML_RANDOM_GENERATOR_OPERATOR_DESC. Its example subtracts from the counter what its text adds.
    """

    input_state: Input
    output: Output
    output_state: OptionalOutput
    type: Annotated[Named[RandomGeneratorType], named(RandomGeneratorType, "DML_RANDOM_GENERATOR_TYPE_")]

    support = levels(("4_0", RANKS_1_TO_8, (DataType.UINT32,)), ("3_0", RANK_4, (DataType.UINT32,)), of="input_state")
    constraints = (
        sizes_follow("input_state", lambda x: right_aligned(_STATE, len(x["input_state"].sizes)), "(..., 1, 6)"),
        if_given("output_state", same_sizes("output_state", "input_state")),
    )

    def compute_checked(self, input_state: jax.Array) -> Any:
        bits, state = random_bits(input_state.reshape(_STATE), self.output.sizes)
        return bits if self.output_state is None else (bits, state.reshape(self.output_state.sizes))
