"""The links as jobs on Spark."""
