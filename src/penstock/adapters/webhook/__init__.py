"""Tells a URL of what happened."""
