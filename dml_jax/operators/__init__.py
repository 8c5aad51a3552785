"""The operators: plain functions on JAX arrays, natural ranks, traceable everywhere."""
