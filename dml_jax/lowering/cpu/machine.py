"""Quantities of CPUs and of their C library that several mechanisms reckon with."""

LINE = 64  # bytes that a cache reads at once
CACHE, WAYS = 2**20, 8  # bytes of a core's second cache, lines in each of its sets
FRESH = 2**25  # bytes of an array that the C library takes fresh from the system each time; smaller ones it keeps
