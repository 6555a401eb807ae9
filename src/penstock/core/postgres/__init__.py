"""What PostgreSQL's log and catalog say, decoded."""
