"""Delta tables through Spark."""
