"""The parts that operators share: arguments, rules, structs, tensors, indices. No operator's name occurs here."""
