"""Computes with sizes and strides alone; no file here knows arrays."""
