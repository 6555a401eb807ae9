"""Rows of the log: images taken apart, whole columns at once or row by row."""
