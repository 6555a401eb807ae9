"""What the Schematizer's database shares with the state database, and takes from it."""

from penstock.adapters.state.sqlite import use_write_ahead_log

__all__ = ["use_write_ahead_log"]
