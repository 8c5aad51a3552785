"""How XLA runs the operators fast on each platform; never what they compute.

`plain/` says what each operation means, in jax.numpy and lax. `gpu/` and `cpu/` hold mechanisms that are faster there,
one file each, and `registry.py` lists their variants. `variant_selection.py` chooses: the first variant of the platform
that can run a call and pays for it, else the plain implementation. It chooses while a program is lowered, by
`primitive.py`, as only then the platform and the number of devices are known; `partition.py` divides what a mesh
shares. `values/` serves them all: bits, words, types of sums, orders.

    gather(x, i)  ->  plain/gather.py: GatherCase  ->  variant_selection.choose("gather", ...)
                                                            |
              on a GPU: gpu/words.py, if rows have 4 bytes or more; on a CPU: cpu/long_loops.py, if rows are short; else
              plain/gather.py: lax.gather

docs/forms.md describes the mechanisms, how to measure them and how to add one.
"""
