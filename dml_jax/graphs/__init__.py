"""Operator graphs: DML_GRAPH_DESC as a dataclass, a builder, serialization, and drawing."""
