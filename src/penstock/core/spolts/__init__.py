"""Spolts: what user code gets and gives, and how both are written in Kafka."""
