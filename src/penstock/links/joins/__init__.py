"""Joins of topics into a topic."""
