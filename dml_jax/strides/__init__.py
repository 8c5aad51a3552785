"""The algebra of sizes and strides, without arrays."""
