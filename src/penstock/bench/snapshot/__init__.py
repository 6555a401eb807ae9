"""What a snapshot of a table costs: the initial one, and one that is taken while the pipeline runs."""
