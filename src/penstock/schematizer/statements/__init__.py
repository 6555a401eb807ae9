"""CREATE TABLE statements, read as the schema of the table."""
