"""The error of a job that cannot start or go on, where nothing is wrong with the operator."""

__all__ = ["BatchError"]


class BatchError(Exception):
    """A file, a folder, a disk or another process stands in the way; what was done so far is kept."""
