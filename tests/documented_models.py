"""The documented model files, and the command run in-process by click's CliRunner."""

import json
import shutil

from click.testing import CliRunner
from example_models import MARK
from model_cases import FOLDER

from dml_jax.command.main import command

PAGE = FOLDER.parent / "command.md"
FILES = sorted(path.name for path in FOLDER.glob("*.json") if MARK not in path.read_text())


def dml_jax_command(*arguments):
    """Runs the command inside this process."""
    return CliRunner().invoke(command, [str(a) for a in arguments])


def copy_models(tmp_path):
    """A copy of the documented models, that a run may write beside."""
    return shutil.copytree(FOLDER, tmp_path / "models", ignore=shutil.ignore_patterns("out"))


def printed_json(*arguments, status=0):
    """Parses the output of the command, which must be JSON alone."""
    result = dml_jax_command(*arguments, "--json")
    assert result.exit_code == status, result.output
    assert result.stderr == ""
    return json.loads(result.stdout)
