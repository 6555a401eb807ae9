"""Who asks, and what he may do."""
