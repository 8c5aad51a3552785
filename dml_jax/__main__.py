"""The command `dml-jax`; without the extra `cli` it says how to get it."""

import os
import sys


def main() -> None:
    """Runs the command line and exits with its status."""
    try:
        import click
        import PIL  # noqa: F401
        import rich  # noqa: F401
    except ImportError as error:
        sys.exit(f"dml-jax: the command needs {error.name}; install it with: pip install 'dml_jax[cli]'")
    from .cli import command

    try:
        command(prog_name="dml-jax", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


if __name__ == "__main__":
    main()
