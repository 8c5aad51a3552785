"""`compile_operator`: an operator or a graph as an executable on flat buffers, as DirectML compiles them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, wraps
from typing import Any, Generic

import jax
import jax.numpy as jnp
import numpy as np

from ..core.structs.computation import Computation, R
from ..errors import ConstraintError, DataTypeError, message
from ..operations.programs.forced_form import forced_form, forcing
from . import artifact
from .artifact import Executables, jit_programs
from .buffer_checks import as_buffer, as_outputs, by_port, check_devices, owned_ports
from .program import BufferSpec, Program


def compile_operator(
    desc: Computation[R], /, **owned: jax.Array | np.ndarray | Sequence[jax.Array | np.ndarray | None]
) -> CompiledOperator[R]:
    """Compiles an operator, or a graph of operators, for flat buffers, of any strides.

    XLA compiles at the first call for given lengths and a device, or earlier in `CompiledOperator.prepare`. Equal
    descriptors share the compiled program.

    Args:
      desc: a descriptor, or a `GraphDesc`.
      owned: a buffer for each input that is OWNED_BY_DML, by field name, such as `input=table`; copied now. For an
        array of tensors a sequence, with None for those that are not owned.

    Returns:
      A `CompiledOperator`.

    Raises:
      ConstraintError: an owned buffer is missing, too short or not 1-D, or an input is not owned.
      DataTypeError: an owned buffer has another data type, or `desc` is no descriptor.

    Example:
      >>> import jax.numpy as jnp, numpy as np
      >>> from dml_jax import SpaceToDepthDesc, TensorDesc, compile_operator
      >>> run = compile_operator(
      ...     SpaceToDepthDesc(TensorDesc("UINT8", (1, 1, 2, 4)), TensorDesc("UINT8", (1, 4, 1, 2), (16, 4, 4, 1)), 2)
      ... )
      >>> print(run(np.arange(8, dtype=np.uint8)))
      [0 2 0 0 1 3 0 0 4 6 0 0 5 7]
      >>> out = jnp.full(16, 9, jnp.uint8)
      >>> out = run(np.arange(8, dtype=np.uint8), out=out)  # writes into the same memory; the old array is deleted
      >>> print(out)
      [0 2 9 9 1 3 9 9 4 6 9 9 5 7 9 9]

    Source: IDMLDevice::CompileOperator, IDMLDevice1::CompileGraph, IDMLBindingTable. DirectML may overwrite output
      elements that no coordinate addresses; they keep their content here, and are 0 without a bound output.
    """
    if not isinstance(desc, Computation):
        rule, fact = "desc must be a descriptor of an operator or a graph", f"it is {type(desc).__name__}"
        raise DataTypeError(message("compile_operator", rule, fact, {"desc": desc}))
    return CompiledOperator(Program(desc, words=not _x64(), flat=jax.default_backend() != "cpu"), owned)


@dataclass(frozen=True)
class Memory:
    """The memory that one call needs, in bytes, according to XLA.

    Args:
      inputs: the buffers that are read.
      output: the buffer that is returned.
      bound: how much of the output lies in the memory of `out=`.
      temporary: what is allocated during the call and given back.
    """

    inputs: int
    output: int
    bound: int
    temporary: int

    @property
    def allocated(self) -> int:
        """The bytes that the call allocates."""
        return self.output - self.bound + self.temporary


class CompiledOperator(Generic[R]):
    """An operator on flat buffers; `compile_operator` makes one.

    Call it with one 1-D array per input that is not OWNED_BY_DML, in DirectML's order or by field name, such as
    `input=table`; an array of tensors takes a sequence by its name. Each has the data type of its tensor and at least
    as many elements as the tensor spans; `buffers` lists both. While x64 is off, a buffer of a
    64-bit type is a uint32 array of twice the length, low words first; a 64-bit NumPy array is taken as such.

    Without `out=` the result is a new array as long as the output tensor spans. With several outputs, result and `out=`
    are tuples in DirectML's order. With `out=`, a jax.Array of at least that length, the output is written into its
    memory: the result is that buffer, whole, and the array passed is deleted. (If something else still views its
    memory, such as a NumPy array, JAX copies it instead.) If the operator executes in place (`desc.in_place`), `out=`
    may be the array of an input whose tensor is described as that of the output is.

    A copy or a pickle holds the descriptor and the owned buffers, and is compiled anew.

    Raises:
      ConstraintError: another number of buffers, an unknown name, or a buffer that is too short, not 1-D, deleted, or
        bound twice.
      DataTypeError: another data type.
    """

    def __init__(self, program: Program, owned: Mapping[str, Any], executables: Executables | None = None):
        ports = owned_ports(program, owned)
        self._program = program
        self._form = forced_form()
        self._fresh, self._bound = executables or _executables(program, self._form)
        self._bound_at_call = [port for port in program.inputs if port not in ports]
        with jax.enable_x64(not program.words):
            needed = {port: as_buffer(program, port, ports[port])[: program.buffers[port].length] for port in ports}
            self._owned = {port: jnp.array(buffer) for port, buffer in needed.items()}

    def __repr__(self) -> str:
        inputs, outputs = (
            ", ".join(f"{port}: {self._program.buffers[port]}" for port in ports)
            for ports in (self._bound_at_call, self._program.outputs)
        )
        return f"CompiledOperator {self.desc.operator_type}({inputs}) -> ({outputs})"

    def __reduce__(self) -> Any:
        program, owned = self._program, {port: np.asarray(buffer) for port, buffer in self._owned.items()}
        return _restored, (program.desc, program.words, program.flat, self._form, owned)

    @classmethod
    def deserialize(cls, content: bytes) -> CompiledOperator[Any]:
        """Restores what `serialize` made; calls take the same buffers, and nothing of the operator is traced again.

        It can be called and jitted, on the platforms it was made for; `compile_operator(restored.desc)` gives one that
        jax.vmap and jax.grad take too. The content holds a program: restore only what you trust.

        Raises:
          ConstraintError: something else, damaged content, or content for other platforms than those of this process.
        """
        return cls(*artifact.load(content))

    @property
    def desc(self) -> Computation[R]:
        """The descriptor."""
        return self._program.desc

    @property
    def buffers(self) -> dict[str, BufferSpec]:
        """The length and data type of the buffers that a call takes, and of the outputs', by field name."""
        return {port: self._program.buffers[port] for port in (*self._bound_at_call, *self._program.outputs)}

    @property
    def bytes_moved(self) -> int:
        """Least memory traffic, in bytes: each needed input element read once, each output element written once.

        A gather needs no more elements of its input than its output has. Divided by a time it is a bandwidth.
        """
        return self._program.bytes_moved

    def __call__(
        self,
        /,
        *buffers: jax.Array | np.ndarray,
        out: R | None = None,
        **named: jax.Array | np.ndarray | Sequence[jax.Array | np.ndarray | None],
    ) -> R:
        inputs = self._inputs((*buffers, *self._buffers_by_name(named, len(buffers))) if named else buffers)
        with jax.enable_x64(not self._program.words):
            if out is None:
                return self._results(self._fresh(*inputs.values()))
            outs = as_outputs(self._program, out, inputs)
            check_devices(self._program, {**inputs, **outs})
            shaped = [self._shaped(port, buffer) for port, buffer in outs.items()]
            places = tuple(
                next((i for i, out in enumerate(outs.values()) if buffer is out), None) for buffer in inputs.values()
            )
            if any(place is not None for place in places):
                rest = (buffer for buffer, place in zip(inputs.values(), places, strict=True) if place is None)
                return self._results(_in_place(self._bound, places)(shaped, *rest))
            return self._results(self._bound(*shaped, *inputs.values()))

    def prepare(self, *, bound: bool = False) -> None:
        """Compiles ahead of the first call, or of the first one with `out=`.

        It is compiled for JAX's default device and inputs of the least lengths, and for an `out=` of the whole length
        that `buffers` says; the same holds for `as_text` and `memory`.
        """
        self._compile(bound)
        with jax.enable_x64(not self._program.words):
            for struct in self._program.stored_structs:
                if len(struct.shape) > 1:
                    flat = jax.ShapeDtypeStruct((struct.size,), struct.dtype)
                    _reshape.lower(struct, flat.shape).compile()
                    _reshape.lower(flat, struct.shape).compile()

    def as_text(self, *, bound: bool = False) -> str:
        """The optimised HLO of a call, or of one with `out=`."""
        return self._compile(bound).as_text()

    def memory(self, *, bound: bool = False) -> Memory:
        """The memory that a call needs, or a call with `out=`."""
        stats = self._compile(bound).memory_analysis()
        inputs = sum(struct.size * struct.dtype.itemsize for struct in self._program.input_structs)
        return Memory(inputs, stats.output_size_in_bytes, stats.alias_size_in_bytes, temporary=stats.temp_size_in_bytes)

    def serialize(self, platforms: Sequence[str] | None = None) -> bytes:
        """Exports the operator and its owned buffers; `deserialize` restores them, in this or a later process.

        The content is a zip file: the descriptor as JSON; both programs, with and without `out=`, serialised by
        jax.export; and the owned buffers as .npy.

        Args:
          platforms: of "cpu", "cuda", "rocm" and "tpu", those that it will run on; this process's default one if None.

        Raises:
          ConstraintError: no sequence of these, or the package flatbuffers, which jax.export needs, is missing.
        """
        with jax.enable_x64(not self._program.words):
            return artifact.dump(self._program, self._owned, _executables(self._program, self._form), platforms)

    def _shaped(self, port: str, out: jax.Array) -> jax.Array:
        """Returns a buffer in the shape that the program writes, in the same memory."""
        is_least = out.shape[0] == self._program.buffers[port].length
        return _shaped(out, self._program.stored_sizes[port]) if is_least else out

    def _results(self, outputs: Any) -> Any:
        """Returns the outputs as flat buffers: a single one, or a tuple."""
        flat = [_flat(buffer) for buffer in jax.tree.leaves(outputs)]
        return tuple(flat) if self._program.has_several_outputs else flat[0]

    def _buffers_by_name(self, named: Mapping[str, Any], count: int) -> list[Any]:
        """Returns the buffers that are given by name: those after the first `count` inputs, in order."""
        operator, wanted = self.desc.operator_type, self._bound_at_call[count:]
        given = by_port(self._program, named)
        for port in given:
            if port not in wanted:
                known = {
                    **dict.fromkeys(self._owned, "already bound at compilation"),
                    **dict.fromkeys(self._bound_at_call, "already given by position"),
                }
                fact = f"{port!r} is {known.get(port, 'no input')}"
                raise ConstraintError(
                    f"{operator}: {fact}; still to be given by name: {', '.join(wanted) or 'nothing'}."
                )
        if missing := [port for port in wanted if port not in given]:
            rule = f"a buffer must be given for {', '.join(map(self.desc.shown, missing))}"
            raise ConstraintError(message(operator, rule, "there is none", named))
        return [given[port] for port in wanted]

    def _inputs(self, buffers: Sequence[Any]) -> dict[str, Any]:
        """Returns the buffer of every input, owned ones included, by port in order."""
        names = self._bound_at_call
        if len(buffers) != len(names):
            wanted = ", ".join(map(self.desc.shown, names)) or "nothing"
            raise ConstraintError(
                f"{self.desc.operator_type}: takes buffers for {wanted}, but there are {len(buffers)}."
            )
        given = {name: as_buffer(self._program, name, b) for name, b in zip(names, buffers, strict=True)}
        return {name: self._owned.get(name, given.get(name)) for name in self._program.inputs} if self._owned else given

    def _compile(self, bound: bool) -> Any:
        structs = self._program.input_structs
        with jax.enable_x64(not self._program.words):
            if bound:
                return self._bound.lower(*self._program.stored_structs, *structs).compile()
            return self._fresh.lower(*structs).compile()


def _restored(
    desc: Computation[R], words: bool, flat: bool, form: str | None, owned: Mapping[str, np.ndarray]
) -> CompiledOperator[R]:
    """Compiles again what was pickled: for the same buffers, and in the form that was forced."""
    with forcing(form):
        return CompiledOperator(Program(desc, words, flat), owned)


@lru_cache(maxsize=256)
def _in_place(bound: Any, places: tuple[int | None, ...]) -> Callable[..., Any]:
    """Returns the program with `out=` for inputs that lie in its memory: `places` has each input's output, or None."""

    def replace(outs: Sequence[jax.Array], *rest: jax.Array) -> Any:
        others, flat = iter(rest), [out.reshape(-1) for out in outs]
        return bound(*outs, *(next(others) if place is None else flat[place] for place in places))

    return jax.jit(replace, donate_argnums=0)


def _flat(array: jax.Array) -> jax.Array:
    """Returns the array flat, in the same memory; the array that is passed is donated."""
    return array if array.ndim == 1 else _reshape(array, (array.size,))


def _shaped(array: jax.Array, sizes: tuple[int, ...]) -> jax.Array:
    """Returns a flat array in another shape, in the same memory; the array that is passed is donated."""
    return array if len(sizes) == 1 else _reshape(array, sizes)


@partial(jax.jit, static_argnums=1, donate_argnums=0)
def _reshape(array: jax.Array, sizes: tuple[int, ...]) -> jax.Array:
    return array.reshape(sizes)


def _x64() -> bool:
    return jax.dtypes.canonicalize_dtype(np.int64) == np.int64


@lru_cache(maxsize=256)
def _executables(program: Program, form: str | None) -> Executables:
    programs = (_trace_in(form, function) for function in (program.fresh, program.bound))
    return jit_programs(*programs, outputs=len(program.outputs))


def _trace_in(form: str | None, function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function that always traces in the form `form`, whatever `use_form` says at the call."""

    @wraps(function)
    def traced(*buffers: jax.Array) -> Any:
        with forcing(form):
            return function(*buffers)

    return traced
