"""The documented model files, and what the command prints as JSON."""

import json
import shutil

from commands import dml_jax_command
from example_models import MARK
from model_cases import FOLDER

PAGE = FOLDER.parent / "command.md"
FILES = sorted(path.name for path in FOLDER.glob("*.json") if MARK not in path.read_text())


def copy_models(tmp_path):
    """A copy of the documented models, that a run may write beside."""
    return shutil.copytree(FOLDER, tmp_path / "models", ignore=shutil.ignore_patterns("out"))


def printed_json(*arguments, status=0):
    """Parses the output of the command, which must be JSON alone."""
    result = dml_jax_command(*arguments, "--json")
    assert result.exit_code == status, result.output
    assert result.stderr == ""
    return json.loads(result.stdout)
