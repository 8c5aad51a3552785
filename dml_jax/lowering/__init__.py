"""How XLA gets an operator done fast on one platform; never what it computes."""
