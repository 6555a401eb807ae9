"""What the Schematizer costs, beside a bare endpoint of the same web framework."""
