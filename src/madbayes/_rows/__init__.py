"""Rows of any source, handed out in blocks, and the threads that work on the blocks."""
