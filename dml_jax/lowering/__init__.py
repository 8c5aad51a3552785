"""Mechanisms by which operations run faster on one platform; never what they compute.

`gpu/` and `cpu/` hold them, one file each, and `registry.py` lists their variants. Importing this package registers
them with `operations/`, which knows nothing of it: while a program is lowered, the first variant of the platform runs
that can run a call and pays for it.

    gather(x, i)  ->  operations/gather.py: GatherCase  ->  variant_selection.choose("gather", ...)
                                                                 |
              on a GPU: gpu/words.py, if rows have 4 bytes or more; on a CPU: cpu/long_loops.py, if rows are short; else
              operations/gather.py: lax.gather

docs/forms.md describes the mechanisms, how to measure them and how to add one.
"""

from importlib import import_module

from ..operations.programs.variant_selection import register

register(lambda: import_module(".registry", __name__).VARIANTS)
