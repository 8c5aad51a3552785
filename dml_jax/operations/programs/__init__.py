"""How an operation becomes a program: the primitive, the choice of a variant, and the parts of a mesh's devices."""
