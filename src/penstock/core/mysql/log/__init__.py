"""The binary log as a stream: transactions, positions, and what is read from it."""
