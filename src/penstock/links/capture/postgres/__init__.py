"""What a capture does that is about PostgreSQL alone."""
