"""`penstock bench postgres`: capture from PostgreSQL, beside Debezium."""
