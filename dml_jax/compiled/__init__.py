"""Descriptors as executables on flat buffers."""
