"""The bench of loads into Redshift."""
