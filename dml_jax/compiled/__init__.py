"""Compiled operators: descriptors as executables on flat buffers."""
