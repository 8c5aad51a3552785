"""Every operation in jax.numpy and lax: its meaning, bit-exact and differentiable on every platform.

One operation one file, such as `gather.py`. All gathers and scatters share `promises.py`, `index_rule.py`,
`indexed_read.py` and `indexed_write.py`. `programs/` makes programs of them: the primitive, the choice of a variant,
and the part of each device of a mesh. It chooses while a program is lowered, as only then the platform and the number
of devices are known. `values/` serves them all: bits, words, types of sums, orders.

`lowering/` makes operations faster on single platforms; without it they give the same results.
"""
