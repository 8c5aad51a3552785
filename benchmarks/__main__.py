"""Runs `dml-jax bench` with the same arguments."""

import sys

from dml_jax.__main__ import main

sys.argv.insert(1, "bench")
main()
