"""Comparing a table with its copy elsewhere: what each database computes of it, and what the answers mean."""
