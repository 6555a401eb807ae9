"""Migrations of the state database, applied when it is opened."""
