"""`penstock bench capture`: from a source's log to Kafka, beside Debezium and python-mysql-replication."""
