"""`penstock bench warehouse`: from topics into warehouses, beside dlt and Debezium's JDBC sink."""
