"""The benchmark as a module of the repository; `dml-jax bench` is the same from an installed package."""
