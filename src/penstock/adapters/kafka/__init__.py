"""Kafka: the transactional publisher and readers."""
