"""What became slower from one release of jax to another: `python -m benchmarks.releases 0.10.2 0.11.2`.

Runs the quick cases of the benchmark under each release, in an environment of its own that pip fills, with this Python.
Times are in units of what NumPy takes in the same run, in the mean over its cases: some releases copy faster than
others. The first release named is what they are compared with.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean, median

from dml_jax.bench.results import Results, slower

# A case and an implementation, or "copy", to a time in units of NumPy's.
Times = Mapping[tuple[str, str], float]

ROOT = Path(__file__).resolve().parent.parent
COMPLETE = "complete"  # a file that an environment has when all of it is installed
TOO_LATE = 130  # the exit status after Ctrl-C


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints what got slower. Exit status: 0 nothing, 1 something or an error, 2 misused, 130 interrupted."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.releases", description=__doc__)
    parser.add_argument("releases", nargs="+", type=_release, metavar="RELEASE", help="of jax, two or more: 0.10.2")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="keep the environments here, for another time")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="of each release, in turn; medians count (3)")
    parser.add_argument("--tolerance", type=float, default=0.15, metavar="PART", help="of the speed to lose (0.15)")
    parser.add_argument("-k", metavar="PATTERN", help="only cases with this in their names, as of dml-jax bench")
    given = parser.parse_args(arguments)
    if len(set(given.releases)) < 2:
        parser.error("two releases or more are compared; name another one")
    with tempfile.TemporaryDirectory() as temporary:
        try:
            pythons = {release: environment(given.folder or Path(temporary), release) for release in given.releases}
            runs = [_run(pythons, Path(temporary), given.k, f"run {i + 1} of {given.runs}") for i in range(given.runs)]
        except (OSError, RuntimeError) as error:
            sys.exit(f"error: {error}")
        except KeyboardInterrupt:
            sys.exit(TOO_LATE)
    times = {release: times_of([run[release] for run in runs]) for release in pythons}
    lines, count = compared(times, given.tolerance)
    print("\n".join(lines))  # noqa: T201
    if count:
        sys.exit(1)


def _release(text: str) -> str:
    if not re.fullmatch(r"\d+(\.\d+)+", text):
        raise argparse.ArgumentTypeError(f"a release is numbers with dots, such as 0.10.2, but it is {text!r}")
    return text


def environment(folder: Path, release: str) -> Path:
    """The Python of an environment with a release of jax and what the benchmark needs, which is made if need be.

    Raises:
      RuntimeError: it cannot be installed.
    """
    home = folder.absolute() / f"jax-{release}-python{sys.version_info.major}.{sys.version_info.minor}"
    python, complete = home / "bin" / "python", home / COMPLETE
    if complete.exists():
        return python
    shutil.rmtree(home, ignore_errors=True)  # what an interruption left
    try:
        _checked([sys.executable, "-m", "venv", str(home)], f"an environment for jax {release} cannot be made")
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        this = f"Python {sys.version_info.major}.{sys.version_info.minor}"
        _checked([*pip, f"jax=={release}", *_requirements()], f"jax {release} cannot be installed for {this}")
        complete.touch()
    finally:
        if not complete.exists():
            shutil.rmtree(home, ignore_errors=True)
    return python


def _requirements() -> list[str]:
    """What dml_jax and its command need, but for jax, whose release is given."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["cli"]]
    return [one for one in needed if not one.startswith("jax")]


def _run(pythons: dict[str, Path], folder: Path, pattern: str | None, which: str) -> dict[str, Results]:
    """One run of each release, one after the other."""
    found = {}
    for release, python in pythons.items():
        print(f"jax {release}, {which}", file=sys.stderr, flush=True)  # noqa: T201
        found[release] = _measured(python, release, folder / "results.json", pattern)
    return found


def _measured(python: Path, release: str, file: Path, pattern: str | None) -> Results:
    only = ["--only", pattern] if pattern else []
    command = [str(python), "-m", "dml_jax", "bench", "--quick", "--no-peers", "--json", str(file), *only]
    _checked(command, f"the benchmark failed under jax {release}", env={**os.environ, "PYTHONPATH": str(ROOT)})
    return Results.read(file)


def _checked(command: Sequence[str], failure: str, env: dict[str, str] | None = None) -> None:
    """Runs a command that must succeed; the last line that it wrote says why it did not."""
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=ROOT)
    if done.returncode:
        *_, last = ["it wrote nothing", *(done.stderr or done.stdout).strip().splitlines()]
        raise RuntimeError(f"{failure}: {last}")


def times_of(runs: Sequence[Results]) -> Times:
    """How long everything took: the medians of runs, each in units of what NumPy took in it."""
    found: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        # Without NumPy's cases, as -k may leave them out, nothing tells a machine that is slower for a while.
        unit = geometric_mean([row.seconds for row in run.rows if row.contender == "NumPy"] or [1.0])
        for row in run.rows:
            found.setdefault((row.case, row.contender), []).append(row.seconds / unit)
            if row.contender == "dml_jax":
                found.setdefault((row.case, "copy"), []).append(row.seconds * row.of_copy / unit)
    return {measured: median(times) for measured, times in found.items()}


def compared(times: Mapping[str, Times], tolerance: float) -> tuple[list[str], int]:
    """Each release beside the first one: lines to print, and how many measurements are slower.

    Args:
      times: of each release.
      tolerance: the part of the speed that may be lost.
    """
    (first, old), *others = times.items()
    lines, count = [], 0
    for release, new in others:
        longer = {measured: new[measured] / old[measured] for measured in old if measured in new}
        before, after = ({measured: 1 / time for measured, time in of.items()} for of in (old, new))
        ours, lost = slower(before, after, tolerance)
        missing = {case for case, _ in old} ^ {case for case, _ in new}
        lines.append(
            f"jax {release} beside {first}: {len(ours)} measurements, {len(lost)} slower by more than {tolerance:.0%};"
            f" {_in_the_mean(longer)}"
        )
        lines += [f"  slower: {_line(longer, *measured)}" for measured in lost]
        lines += [f"  measured under one of them only: {case}" for case in sorted(missing)]
        count += len(lost)
    return lines, count


def _in_the_mean(longer: Times) -> str:
    """What the release means for all cases, and for a copy."""
    means = {
        name: geometric_mean([times for (_, who), times in longer.items() if who == name] or [1.0])
        for name in ("dml_jax", "jnp", "copy")
    }
    return "times as long, in the mean: " + ", ".join(f"{name} {mean:.2f}" for name, mean in means.items())


def _line(longer: Times, case: str, implementation: str) -> str:
    """Whether it is the release, or the form that was chosen for it, says what jax.numpy lost."""
    beside = f", jnp {longer[case, 'jnp']:.2f}" if (case, "jnp") in longer else ""
    return f"{case}, {implementation}: {longer[case, implementation]:.2f} times as long{beside}"


if __name__ == "__main__":
    main()
