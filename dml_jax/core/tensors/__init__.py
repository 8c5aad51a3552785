"""Tensors in buffers: data types, sizes and strides, their JSON form, and their bytes."""
