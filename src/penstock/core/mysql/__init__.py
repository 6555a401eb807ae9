"""MySQL and MariaDB: the binlog's bytes and what they mean."""
