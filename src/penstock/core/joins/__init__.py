"""Un-windowed joins of change streams: what is planned, what is kept, and what comes of each change."""
