"""Snowflake, by its own connector."""
