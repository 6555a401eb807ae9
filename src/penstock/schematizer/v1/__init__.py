"""The Schematizer's own face: the /v1 routes."""
