"""Arithmetic of sizes and strides; no file here knows arrays."""
