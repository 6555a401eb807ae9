"""The leader's lock."""
