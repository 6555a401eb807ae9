"""What people say about schemas and topics, and who uses them."""
