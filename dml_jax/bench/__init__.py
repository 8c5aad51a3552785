"""The benchmark: every operator beside a copy and beside its peers, in the same rounds."""
