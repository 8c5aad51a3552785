"""Indices of gathers and scatters: the index rule, index tuples, promises."""
