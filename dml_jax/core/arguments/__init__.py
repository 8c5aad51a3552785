"""Arguments of functions and their calls: readers, kinds, and the decorator of operators."""
