"""A pipeline's live page, its metrics and its health endpoints."""
