"""What SQL statements of the log do to tables."""
