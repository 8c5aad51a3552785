"""The DML_*_OPERATOR_DESC structs: DirectML's rules exactly, by feature level, with padded ranks and strides."""
