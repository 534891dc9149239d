"""Counts, categories, gaps: divergences other than the squared distance, for the same search."""
