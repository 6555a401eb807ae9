"""Avro: schemas from tables, and rows to and from bytes."""
