"""Servers for tests and a developer's desk that no pipeline keeps for itself, and stand-ins for clouds."""
