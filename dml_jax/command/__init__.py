"""The command `dml-jax`: one file per subcommand."""
