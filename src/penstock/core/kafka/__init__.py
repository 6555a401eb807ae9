"""Kafka's wire format, as far as publishing in transactions needs it: bytes in, bytes out."""
