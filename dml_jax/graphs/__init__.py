"""Graphs of operators."""
