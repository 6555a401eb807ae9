"""A client of the Schematizer."""
