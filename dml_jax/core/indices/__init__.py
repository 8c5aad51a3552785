"""Indices of gathers and scatters: modes, rules of axes and of index tuples."""
