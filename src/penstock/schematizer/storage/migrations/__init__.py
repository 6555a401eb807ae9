"""The steps that brought the registry's database to its present tables."""
