"""What the /v1 API takes and answers."""
