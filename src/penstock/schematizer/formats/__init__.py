"""The languages of schemas: Avro, JSON Schema and Protobuf."""
