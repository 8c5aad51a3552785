"""DirectML's structs: fields, rules, feature levels, and the base class of descriptors."""
