"""What talks to servers and files; no adapter imports another."""
