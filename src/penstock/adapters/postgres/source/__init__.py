"""PostgreSQL as a source: its log, its catalog, copies of its tables."""
