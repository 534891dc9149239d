"""Rows divided among centres: nearest centres, bounds, sums, exact moves, Ward merges, Lloyd."""
