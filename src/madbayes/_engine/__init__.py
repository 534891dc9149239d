"""Rows in blocks from any source, threads over them, nearest centres and sums with bounds."""
