"""What a pipeline does with a sink of each kind: one module a kind, and one table of them."""
