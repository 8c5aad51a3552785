"""random_bits and RANDOM_GENERATOR: the blocks of Philox 4x32-10, of one counter after the other."""

import json
from functools import partial

import jax
import jax.export
import numpy as np
import pytest
from checks import assert_calls_agree, assert_is, assert_same_bits
from draws import dims
from jax.sharding import PartitionSpec as P
from operator_cases import Call, Example, Struct, f32, u32
from refusals import refuses
from small_arrays import numbered, on_explicit_mesh

from dml_jax import ConstraintError, DataTypeError, compile_operator, desc_from_json, desc_to_json, random_bits
from dml_jax.descs import RandomGeneratorDesc

pytestmark = pytest.mark.device


def philox(counter, key):
    """The block of a counter below 2**128 and of a key below 2**64, in Python's integers."""
    c = [counter >> 32 * i & 0xFFFFFFFF for i in range(4)]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [second >> 32 ^ c[1] ^ k0, second & 0xFFFFFFFF, first >> 32 ^ c[3] ^ k1, first & 0xFFFFFFFF]
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return c


def number(words):
    """The integer that words make, the lowest one first."""
    return sum(int(word) << 32 * i for i, word in enumerate(words))


def words(integer, count):
    return np.uint32([integer >> 32 * i & 0xFFFFFFFF for i in range(count)])


def oracle(state, sizes):
    counter, key = number(state[:4]), number(state[4:])
    count = int(np.prod(sizes, dtype=int))
    blocks = -(-count // 4)
    bits = [word for b in range(blocks) for word in philox((counter + b) % 2**128, key)]
    after = words((counter + blocks) % 2**128, 4)
    return np.array(bits[:count], np.uint32).reshape(sizes), np.concatenate([after, state[4:]])


STATE = np.uint32([0xFFFFFFFE, 0xFFFFFFFF, 7, 8, 9, 0x80000000])  # whose first two words overflow
CASE = Call(random_bits, {"state": STATE}, {"sizes": (3, 7)}, is_linear=False)
BREAKS = {
    "uint32(state)": {"state": STATE.astype(np.int32)},
    "sizes_follow(state)": {"state": STATE[:4]},
    "each_at_least(sizes, 0)": {"sizes": (2, -1)},
    "representable": {"sizes": (0, 2**62)},
    "countable(sizes)": {"sizes": (2**17, 2**17)},
}
VARIANTS = {
    "a part of a block": {"sizes": (3,)},
    "no dimension": {"sizes": ()},
    "no elements": {"sizes": (2, 0)},
    "the last counter": {"state": np.full(6, 0xFFFFFFFF, np.uint32), "sizes": (8,)},
}


# The struct.


def draw(rng):
    rank = int(rng.integers(1, 9))
    state = (*(1,) * (rank - 1), 6)
    return {
        "input_state": state,
        "output": dims(rng, rank),
        "output_state": state if rng.random() < 0.6 else None,
        "type": "PHILOX_4X32_10",
    }


def expected(desc, state):
    bits, after = oracle(state.reshape(6), desc.output.sizes)
    return (bits,) if desc.output_state is None else (bits, after)


# By counter and key, each as words from the lowest, the words of the block: those that Random123 publishes.
KNOWN = {
    (0, 0): (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
    (2**128 - 1, 2**64 - 1): (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    (number((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)), number((0xA4093822, 0x299F31D0))): (
        *(0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
}
DESC = RandomGeneratorDesc(u32(1, 1, 1, 6), u32(1, 1, 2, 3), u32(1, 1, 1, 6), "PHILOX_4X32_10")
OF_ZEROS = [*KNOWN[0, 0], 0xF8E4CCA4, 0x5CB200DB]
STRUCTS = (
    Struct(
        DESC,
        breaks={
            "sizes_follow(input_state)": {"input_state": u32(1, 1, 6, 1)},
            "same_sizes(output_state, input_state)": {"output_state": u32(1, 1, 6, 1)},
        },
        examples=(Example(DESC, [[0] * 6], [OF_ZEROS, [2, 0, 0, 0, 0, 0]]),),
        draw=draw,
        expected=expected,
    ),
)


def test_an_output_that_is_left_out():
    desc = RandomGeneratorDesc(**DESC.operands() | {"output_state": None})
    assert_same_bits(compile_operator(desc)(np.zeros(6, np.uint32)), np.uint32(OF_ZEROS))


def test_the_long_form_tells_both_fields_named_type_apart():
    """That of the operator, and that of the generator; in model files both may begin with a capital letter."""
    form = json.loads(json.dumps(desc_to_json(DESC)))
    assert (form["type"], form["desc"]["Type"]) == ("DML_OPERATOR_RANDOM_GENERATOR", "PHILOX_4X32_10")
    capital = {"Type": form["type"], "Desc": form["desc"]}
    in_full = {"type": form["type"], "desc": {**form["desc"], "Type": "DML_RANDOM_GENERATOR_TYPE_PHILOX_4X32_10"}}
    for one in (form, capital, in_full):
        assert desc_from_json(one) == DESC
    with pytest.raises(ConstraintError, match="RANDOM_GENERATOR: Type is missing"):
        desc_from_json({"Type": form["type"], **{name: x for name, x in form["desc"].items() if name != "Type"}})


test_what_the_struct_refuses = refuses(
    DESC,
    ({"type": 1}, ConstraintError, "Type must be one of PHILOX_4X32_10, but it is 1"),
    ({"output": f32(1, 1, 2, 3)}, DataTypeError, "OutputTensor.DataType must equal InputStateTensor.DataType"),
    ({"input_state": u32(1, 1, 1, 4)}, ConstraintError, r"InputStateTensor.Sizes must be \(..., 1, 6\)"),
)


# Against known answers and the oracle.


@pytest.mark.parametrize("counter", KNOWN)
def test_known_answers(counter):
    state = np.concatenate([words(counter[0], 4), words(counter[1], 2)])
    bits, _ = random_bits(state, (4,))
    assert_same_bits(bits, np.uint32(KNOWN[counter]))
    assert tuple(philox(*counter)) == KNOWN[counter]


def test_the_next_counter_gives_the_next_block():
    second = np.uint32([0xF8E4CCA4, 0x5CB200DB, 0xB1A574EB, 0x097EFF67])
    bits, _ = random_bits(np.zeros(6, np.uint32), (8,))
    assert_same_bits(bits[4:], second)
    assert_same_bits(random_bits(np.uint32([1, 0, 0, 0, 0, 0]), (4,))[0], second)


@pytest.mark.parametrize("overflows", range(5))
def test_the_counter_carries_over_all_words(overflows):
    """From within a call, and into the state that follows."""
    state = np.uint32([*[0xFFFFFFFF] * overflows, *[5] * (4 - overflows), 3, 4])
    assert_is(random_bits(state, (9,)), oracle(state, (9,)))
    one_by_one, after = [], state
    for _ in range(3):
        bits, after = random_bits(after, (4,))
        one_by_one.append(bits)
    assert_same_bits(np.concatenate(one_by_one)[:9], random_bits(state, (9,))[0])
    assert_same_bits(after, oracle(state, (12,))[1])


def test_the_example_of_the_page():
    """Which subtracts from the counter what it says is added: 324,855, a quarter of the elements, rounded up."""
    low, key = 0x74746C65, [0, 0]
    state = np.uint32([low, 0x6D536561, 0x6F46726F, 0x48656C6C, *key])
    bits, after = random_bits(state, (3, 3, 20, 7219))
    assert_same_bits(after, np.uint32([low + 324855, *state[1:]]))
    assert (int(after[0]), low - 324855) == (0x7479615C, 0x746F776E)
    assert_same_bits(bits.reshape(-1)[-4:], np.uint32(philox(number(state[:4]) + 324854, 0)))


def test_sizes_of_every_remainder():
    assert_calls_agree((partial(random_bits, sizes=(n,)), (STATE,), oracle(STATE, (n,))) for n in (0, 1, 6, 7, 8))


def test_x64_changes_nothing():
    for is_on in (False, True):
        with jax.enable_x64(is_on):
            assert_is(random_bits(STATE, (3, 7)), oracle(STATE, (3, 7)))


# Transformations and meshes.


def test_vmap_of_states():
    states = np.stack([STATE, STATE + 1, numbered((6,), np.uint32)], 1)
    bits, after = jax.jit(jax.vmap(partial(random_bits, sizes=(2, 3)), in_axes=1))(states)
    for i in range(3):
        assert_is((bits[i], after[i]), oracle(states[:, i], (2, 3)))


def test_a_loop_carries_the_state():
    """In jax.lax.scan, as programs do."""

    def step(state, _):
        bits, state = random_bits(state, (4,))
        return state, bits

    after, bits = jax.jit(lambda state: jax.lax.scan(step, state, length=3))(STATE)
    assert_is((bits.reshape(-1), after), oracle(STATE, (12,)))


def test_programs_are_exported():
    exported = jax.export.export(jax.jit(partial(random_bits, sizes=(3, 7))), platforms=["cpu", "cuda", "tpu"])
    called = exported(jax.ShapeDtypeStruct((6,), np.uint32))
    assert {x.dtype for x in called.out_avals} == {np.dtype(np.uint32)}


def test_bits_are_sharded_as_asked_and_the_state_is_not():
    state = on_explicit_mesh(STATE, None)
    made = random_bits(state, (4, 3), out_sharding=P("d", None))
    assert [jax.typeof(x).sharding.spec for x in made] == [P("d", None), P(None)]
    assert_is(made, oracle(STATE, (4, 3)))
    assert jax.typeof(random_bits(state, (4, 3))[0]).sharding.spec == P(None, None)


def test_a_state_that_is_sharded_needs_an_out_sharding():
    with pytest.raises(ConstraintError, match="dimension 0 of state is sharded over 'd', along which the devices must"):
        random_bits(on_explicit_mesh(STATE, "d"), (4,))


# Mistakes.


test_mistakes_are_named = refuses(
    CASE,
    ({"state": [0] * 6}, DataTypeError, "state must be an array"),
    ({"state": STATE.astype(np.float32)}, DataTypeError, "state.dtype must be uint32, but it is float32"),
    ({"state": STATE[None]}, ConstraintError, r"state.sizes must be \(6,\), but \(1, 6\) is not \(6,\)"),
    ({"sizes": 3}, DataTypeError, "sizes must be"),
    ({"sizes": (2.0,)}, DataTypeError, r"sizes\[0\] must be"),
    ({"sizes": (2**33, 2)}, ConstraintError, "sizes must give at most 2.*33 elements, but there are 17179869184"),
)
