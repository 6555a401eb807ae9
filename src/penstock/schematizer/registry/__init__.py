"""Schemas, subjects and topics: what is registered, and by which rules."""
