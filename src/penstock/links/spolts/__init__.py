"""Spolts: user code between topics."""
