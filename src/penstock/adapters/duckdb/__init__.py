"""DuckDB as a warehouse."""
