"""Whether a change leaves the programs as they were: `python -m benchmarks.programs BASE`.

Exports the benchmark's cases, and more, from the working tree and from the commit BASE, for each of `PLATFORMS`, and
compares what XLA would get; no device is needed. Each tree is imported by a process of its own, under the jax of this
interpreter.
"""

import argparse
import difflib
import hashlib
import io
import json
import os
import pickle
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.export
import numpy as np
from jax.extend.mlir import ir
from jax.interpreters import mlir

import dml_jax

PLATFORMS = ("cpu", "cuda")
ROOT = Path(__file__).resolve().parent.parent
SHOWN = 12  # lines of a difference
LONG = 300  # characters of a constant; a longer one is shown by its hash
FAILED = "not exported:"
WORKER = "--worker"  # the first argument of the processes that this one starts

# Programs as text.


def canonical(module: ir.Module) -> list[str]:
    """The lines of a module, equal for equal programs however they are divided into functions.

    Names and locations are left out, and values numbered. What a function does stands where it is called, and a
    constant where it is used: JAX puts one at the head of each function that needs it. Nothing is simplified.
    """
    tops = [top.operation for top in module.body]
    text = _Text({top.attributes["sym_name"].value: top for top in tops if top.name == "func.func"})
    text.add("module", module.operation)
    for top in tops:
        if top.name != "func.func":
            text.operation(top)
    return text.of("main")


class _Text:
    def __init__(self, functions: Mapping[str, ir.Operation]):
        self._functions = functions
        self._lines: list[str] = []
        self._names: dict[ir.Value, str] = {}
        self._count = self._depth = 0

    def of(self, function: str) -> list[str]:
        """All lines, and then those of a function that nothing calls."""
        operation = self._functions[function]
        self.add("function", operation)
        self._arguments(operation.regions[0].blocks[0])
        self.add(f"return {', '.join(self._body(operation.regions[0].blocks[0]))}")
        return self._lines

    def add(self, text: str, operation: ir.Operation | None = None) -> None:
        """Adds a line, with the attributes of an operation."""
        self._lines.append(f"{'  ' * self._depth}{text}{self._attributes(operation) if operation else ''}")

    def operation(self, operation: ir.Operation) -> None:
        operands, results = [self._names[value] for value in operation.operands], operation.results
        if operation.name == "stablehlo.constant":
            self._names[results[0]] = _shortened(str(operation.attributes["value"]))
        elif operation.name == "func.call":
            callee = self._functions[operation.attributes["callee"].value]
            for each in (operation, callee):
                if self._attributes(each):
                    self.add(each.name, each)
            body = callee.regions[0].blocks[0]
            self._names.update(zip(body.arguments, operands, strict=True))
            self._names.update(zip(results, self._body(body), strict=True))
        else:
            made = ", ".join(f"{self._new(value)}: {value.type}" for value in results)
            self.add(f"{made}{' = ' * bool(made)}{operation.name}({', '.join(operands)})", operation)
            for block in (block for region in operation.regions for block in region):
                self.add("block")
                self._depth += 1
                self._arguments(block)
                for inner in block:
                    self.operation(inner.operation)
                self._depth -= 1

    def _body(self, block: ir.Block) -> list[str]:
        """Adds what a function does; returns the names of its results."""
        *operations, returned = (each.operation for each in block)
        for operation in operations:
            self.operation(operation)
        return [self._names[value] for value in returned.operands]

    def _arguments(self, block: ir.Block) -> None:
        for argument in block.arguments:
            self.add(f"{self._new(argument)}: {argument.type}")

    def _new(self, value: ir.Value) -> str:
        self._names[value], self._count = f"%{self._count}", self._count + 1
        return self._names[value]

    def _attributes(self, operation: ir.Operation) -> str:
        """Those that say more than names."""
        said = []
        for name in sorted({*operation.attributes} - {"sym_name", "sym_visibility", "function_type", "callee"}):
            text = re.sub(r'jax\.(arg|result)_info = "[^"]*"(, )?', "", str(operation.attributes[name]))
            if text.strip("[{}, ]") or name not in ("arg_attrs", "res_attrs"):
                text = re.sub(r"@([.$\w]+)", self._mentioned, text)
                said.append(f"{name} = {_shortened(text)}")
        return f" {{{', '.join(said)}}}" if said else ""

    def _mentioned(self, name: re.Match[str]) -> str:
        """What a function does, such as that of a composite, in place of its name."""
        return "\n".join(_Text(self._functions).of(name[1])) if name[1] in self._functions else name[0]


def _shortened(text: str) -> str:
    return text if len(text) <= LONG else f"{text[: LONG // 2]}... {hashlib.sha256(text.encode()).hexdigest()[:16]}"


# Exporting, by the dml_jax of this process.


class Program(NamedTuple):
    """What is exported, as plain data: one process lists what others read.

    Args:
      name: for people.
      way: what is made of the operator: a key of `WAYS`, or "buffers" for what compiles a descriptor.
      operator: a public function of dml_jax.
      attributes: its keyword arguments, or the descriptor as JSON.
      arrays: the shape and type of each argument.
      x64: whether 64-bit types are on.
    """

    name: str
    way: str
    operator: str
    attributes: dict[str, Any]
    arrays: tuple[tuple[tuple[int, ...], str], ...]
    x64: bool


def exported(program: Program, platform: str) -> list[str]:
    """The lines of a program, or of the two that a compiled operator has."""
    arrays = [jax.ShapeDtypeStruct(shape, np.dtype(dtype)) for shape, dtype in program.arrays]
    with jax.enable_x64(program.x64):
        if program.way == "buffers":
            texts = _of_buffers(program.attributes, platform)
        else:
            made, arrays = WAYS[program.way](_called(program), arrays)
            texts = [jax.export.export(jax.jit(made), platforms=[platform])(*arrays).mlir_module()]
    with mlir.make_ir_context():
        return [line for text in texts for line in canonical(ir.Module.parse(text))]


def _called(program: Program) -> Callable[..., Any]:
    """The function of the arrays alone, those of a list one by one."""
    function = partial(getattr(dml_jax, program.operator), **program.attributes)
    takes_a_list = any(kind.is_list for kind in getattr(function.func, "kinds", {}).values())
    return (lambda *arrays: function(arrays)) if takes_a_list else function


def _of_buffers(desc: dict[str, Any], platform: str) -> list[str]:
    content = dml_jax.compile_operator(dml_jax.desc_from_json(desc)).serialize([platform])
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        forms = [bytearray(file.read(f"{form}.jax_export")) for form in ("fresh", "bound")]
    return [jax.export.deserialize(form).mlir_module() for form in forms]


Function = Callable[..., Any]
Called = tuple[Function, list[jax.ShapeDtypeStruct]]


def _gradient(function: Function, arrays: list[jax.ShapeDtypeStruct]) -> Called:
    def gradient(cotangent: jax.Array, *arrays: jax.Array) -> list[jax.Array]:
        return [each for each in jax.vjp(function, *arrays)[1](cotangent) if each.dtype != jax.dtypes.float0]

    return gradient, [jax.eval_shape(function, *arrays), *arrays]


def _mapped(which: slice) -> Callable[[Function, list[jax.ShapeDtypeStruct]], Called]:
    def mapped(function: Function, arrays: list[jax.ShapeDtypeStruct]) -> Called:
        axes = [None] * len(arrays)
        for i in range(len(arrays))[which]:
            axes[i], arrays[i] = 0, jax.ShapeDtypeStruct((3, *arrays[i].shape), arrays[i].dtype)
        return jax.vmap(function, axes), arrays

    return mapped


WAYS: Mapping[str, Callable[[Function, list[jax.ShapeDtypeStruct]], Called]] = {
    "forward": lambda function, arrays: (function, arrays),
    "gradient": _gradient,
    "vmap": _mapped(slice(None)),
    "vmap of the data": _mapped(slice(1)),
    "vmap of the indices": _mapped(slice(1, 2)),
}

# What is exported: the benchmark's cases, and what they leave out.

_READS = ({"mode": "fill"}, {"mode": "promise_in_bounds"}, {"unique_indices": True}, {"deterministic": True})
_WRITES = (
    *({"reduction": name} for name in ("add", "mul", "min", "max")),
    *({"mode": "clip"}, {"unique_indices": True}, {"reduction": "add", "deterministic": True}),
)
CHANGES = {
    **dict.fromkeys(("gather", "gather_elements", "gather_nd"), _READS),
    **dict.fromkeys(("scatter_elements", "scatter_nd"), _WRITES),
    "as_strided": ({"deterministic": True},),
}
_CUBE, _FEW, _DEPTH, _SPACE = (64, 512, 64), (64, 128, 64), (2, 64, 96, 96), (2, 16, 192, 192)
_DATA, _BUFFER, _VIEW = (_CUBE, "float32"), ((2**18,), "float32"), ((512, 64), "float32")
OTHERS = (
    ("forward", "gather_nd", {"batch_dims": 1}, (_DATA, ((64, 256, 1), "int32"))),
    ("gradient", "gather_nd", {"batch_dims": 1}, (_DATA, ((64, 256, 1), "int32"))),
    ("forward", "as_strided_scatter", {"strides": (96, 1)}, (_BUFFER, _VIEW)),
    ("gradient", "as_strided_scatter", {"strides": (96, 1)}, (_BUFFER, _VIEW)),
    ("forward", "as_strided_scatter", {"strides": (1, 512)}, (_BUFFER, _VIEW)),
    ("vmap", "as_strided_scatter", {"strides": (1, 512)}, (_BUFFER, _VIEW)),
    ("forward", "gather", {"axis": 0}, (((2**20, 32), "float32"), ((2**18,), "int32"))),
    (
        "forward",
        "scatter_nd",
        {"reduction": "max"},
        (((2**17, 64), "float16"), ((16, 1), "int32"), ((16, 64), "float16")),
    ),
)
# Structs, sizes of their tensors, and their other fields.
DESCS = (
    (dml_jax.GatherDesc, (_CUBE, (1, 1, 512), _CUBE), (1, 1)),
    (dml_jax.GatherElementsDesc, (_CUBE, _CUBE, _CUBE), (1,)),
    (dml_jax.GatherNDDesc, (_CUBE, (1, 4096, 2), (1, 4096, 64)), (3, 2)),
    (dml_jax.GatherND1Desc, (_CUBE, (64, 128, 1), _FEW), (3, 3, 1)),
    (dml_jax.ScatterElementsDesc, (_CUBE, _FEW, _FEW, _CUBE), (1,)),
    (dml_jax.ScatterNDDesc, (_CUBE, (1, 512, 2), (1, 512, 64), _CUBE), (3, 2)),
    (dml_jax.DepthToSpaceDesc, (_DEPTH, _SPACE), (2,)),
    (dml_jax.DepthToSpace1Desc, (_DEPTH, _SPACE), (2, "COLUMN_ROW_DEPTH")),
    (dml_jax.SpaceToDepthDesc, (_SPACE, _DEPTH), (2,)),
    (dml_jax.SpaceToDepth1Desc, (_SPACE, _DEPTH), (2, "COLUMN_ROW_DEPTH")),
)
# Data, indices, and whether x64 is on: where it is off, 64-bit elements are pairs of words.
TYPES = (
    ("UINT8", "UINT32", False),
    ("FLOAT32", "UINT32", False),
    ("FLOAT64", "INT64", False),
    ("FLOAT64", "INT64", True),
)
# The order in which dimensions lie, the closest first, and the gap between rows; of all inputs, and of the output.
LAYOUTS: Mapping[str, Callable[[int], tuple[Iterable[int], int]]] = {
    "packed": lambda rank: (range(rank - 1, -1, -1), 0),
    "turned": lambda rank: (range(rank), 0),
    "channels last": lambda rank: ((1, *range(rank - 1, 1, -1), 0), 0),
    "padded": lambda rank: (range(rank - 1, -1, -1), 32),
}
PAIRS = (*((layout, layout) for layout in LAYOUTS), *(("packed", layout) for layout in LAYOUTS if layout != "packed"))


def listed(text: str = "") -> list[Program]:
    """The programs with `text` in their names, each once."""
    found: dict[str, Program] = {}
    for program in (*_of_cases(text), *_of_others(), *_of_descs()):
        if text in program.name:
            found.setdefault(repr(program[1:]), program)
    return list(found.values())


def _of_cases(text: str) -> Iterator[Program]:
    for way, case in _cases():
        if text in (name := f"{case.name}, {way}"):
            arrays = tuple((x.shape, str(x.dtype)) for x in case.arrays)
            if way == "vmap" and not arrays:
                continue  # such as a fill, of which nothing can be mapped
            is_wide = any(np.dtype(dtype).itemsize == 8 for _, dtype in arrays)
            yield Program(name, way, case.operator, dict(case.attributes), arrays, is_wide)


def _cases() -> Iterator[tuple[str, Any]]:
    """Ways and cases, for which variants are chosen and for which none is."""
    from dml_jax.bench import gather_gradients, operators

    far = (case for case in operators.full(2**27) if case.operator.startswith(("gather_elements", "depth", "space")))
    for case in (*operators.small(), *operators.sweep(2**20), *far):
        yield "forward", case
    changed: dict[Any, Any] = {}
    for case in operators.full(2**23):
        is_indexed, is_float = case.operator.startswith(("gather", "scatter")), "float" in case.detail
        ways = ("forward", "gradient")[: 1 + is_float]
        yield from ((way, case) for way in (*ways, "vmap"))
        yield from ((f"vmap of the {part}", case) for part in ("data", "indices") if is_indexed)
        if "uint8" in case.detail or "float32" in case.detail:
            changed[case.operator, str(case.attributes), ways] = case
    for (operator, _, ways), case in changed.items():
        for change in CHANGES.get(operator, ()):
            new = replace(case, detail=f"{case.detail} {change}", attributes={**case.attributes, **change})
            yield from ((way, new) for way in ways)
    for case in (*gather_gradients.cases(2**23), *gather_gradients.cases(2**27)):
        if not case.name.endswith(("Zipf", "one id")):  # where indices lie makes no other program
            yield "gradient", _read_of(case)


def _read_of(case: Any) -> Any:
    """The read whose gradient is measured; its case makes what flows back."""
    attributes = {name: value for name, value in case.attributes.items() if name != "shape"}
    updates, indices = case.arrays
    table = replace(updates, shape=case.attributes["shape"])
    return replace(case, attributes=attributes, arrays=[table, indices])


def _of_others() -> Iterator[Program]:
    for way, operator, attributes, arrays in OTHERS:
        yield Program(f"{operator} {attributes}, {way}", way, operator, attributes, arrays, x64=False)


def _of_descs() -> Iterator[Program]:
    for (cls, sizes, fields), (data, index, x64), (inputs, output) in product(DESCS, TYPES, PAIRS):
        types = [data, index, data, data] if len(sizes) > 2 else [data, data]
        layouts = [*[inputs] * (len(sizes) - 1), output]
        tensors = map(_tensor, types, sizes, layouts)
        name = f"{cls.operator_type} {data} {inputs} to {output}{' x64' * x64}, buffers"
        yield Program(name, "buffers", cls.operator_type, dml_jax.desc_to_json(cls(*tensors, *fields)), (), x64)


def _tensor(dtype: str, sizes: tuple[int, ...], layout: str) -> dml_jax.TensorDesc:
    order, gap = LAYOUTS[layout](len(sizes))
    strides, reach = {}, 1
    for d in order:
        strides[d], reach, gap = reach, reach * sizes[d] + gap, 0
    return dml_jax.TensorDesc(dtype, sizes, [strides[d] for d in range(len(sizes))])


# The command, and the processes that do the work.


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    about = "Compares the programs of the working tree with those of a commit; exits with 1 if any differs."
    parser = argparse.ArgumentParser("python -m benchmarks.programs", description=about)
    parser.add_argument("base", metavar="BASE", help="the commit")
    parser.add_argument("-k", metavar="TEXT", default="", help="only programs with TEXT in their names")
    options = parser.parse_args(arguments)
    commit = f"{options.base}^{{commit}}"
    if _git("rev-parse", "--verify", "--quiet", "--end-of-options", commit).returncode:
        parser.error(f"there is no commit {options.base!r}")
    try:
        with tempfile.TemporaryDirectory(prefix="dml-jax-programs-") as folder:
            with tarfile.open(fileobj=io.BytesIO(_git("archive", commit, "dml_jax").stdout)) as file:
                file.extractall(folder, filter="data")
            return compared(Path(folder), options.k)
    except KeyboardInterrupt:
        return 130


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], stdout=subprocess.PIPE)


def compared(base: Path, text: str = "") -> int:
    """Prints how the programs of the working tree differ from those of the tree `base`; returns the exit status."""
    with _worker(ROOT, "list", text) as lister:
        programs = lister.communicate()[0]
    total, done, differing = len(PLATFORMS) * programs.count("\n"), 0, 0
    if not total:
        sys.stderr.write(f"no program has {text!r} in its name\n")
        return 2
    with _worker(base, "export") as old, _worker(ROOT, "export") as new:
        for worker in (old, new):
            worker.stdin.write(programs)
            worker.stdin.close()
        for done, pair in enumerate(zip(old.stdout, new.stdout, strict=False), 1):
            (name, before), (_, after) = map(json.loads, pair)
            if before != after or after[0].startswith(FAILED):
                differing += 1
                lines = list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:] or after
                sys.stdout.write("\n    ".join([name, *lines[:SHOWN]]) + "\n")
            sys.stderr.write(f"\r{done} of {total} " if done % 20 == 0 else "")
    if done < total:
        raise RuntimeError(f"a process ended after {done} of {total} programs")
    sys.stderr.write("\r")
    sys.stdout.write(f"{done} programs compared, {differing} differ\n")
    return int(differing > 0)


@contextmanager
def _worker(tree: Path, *work: str) -> Iterator[Any]:
    """A process with the dml_jax of a tree, which ends with the block; Ctrl-C is left to this one."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "JAX_PLATFORMS": "cpu"}
    command, pipe = [sys.executable, "-P", __file__, WORKER, str(tree), *work], subprocess.PIPE
    with subprocess.Popen(
        command, env=environment, stdin=pipe, stdout=pipe, text=True, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _work(tree: str, what: str, text: str = "") -> None:
    if not Path(dml_jax.__file__).is_relative_to(tree):
        raise RuntimeError(f"dml_jax is {dml_jax.__file__}, which is not in {tree}")
    for line in map(as_line, listed(text)) if what == "list" else _exports(sys.stdin):
        sys.stdout.write(f"{line}\n")


def as_line(program: Program) -> str:
    """For another process: attributes may be dtypes and activations."""
    return b64encode(pickle.dumps(tuple(program))).decode()


def from_line(line: str) -> Program:
    return Program(*_Unpickler(io.BytesIO(b64decode(line))).load())


class _Unpickler(pickle.Unpickler):
    """Finds the classes of dml_jax by their public names, as the other tree may have them in other modules."""

    def find_class(self, module: str, name: str) -> Any:
        return getattr(dml_jax, name) if module.startswith("dml_jax.") else super().find_class(module, name)


def _exports(programs: Iterable[str]) -> Iterator[str]:
    for program in [from_line(line) for line in programs]:
        for platform in PLATFORMS:
            try:
                lines = exported(program, platform)
            except Exception as error:  # what one of two trees cannot export is a difference
                lines = f"{FAILED} {type(error).__name__}: {error}".splitlines()
            yield json.dumps([f"{program.name}, {platform}", lines])


if __name__ == "__main__":
    sys.exit(_work(*sys.argv[2:]) if sys.argv[1:2] == [WORKER] else main())
