"""Change data capture from MySQL and PostgreSQL through Kafka into warehouses, on Spark."""
