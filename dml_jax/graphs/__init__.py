"""Graphs of operators: DML_GRAPH_DESC as a description, a builder of such, its serialized form, and its picture."""
