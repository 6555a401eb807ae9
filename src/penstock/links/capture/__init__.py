"""MySQL capture: the binlog into Kafka."""
