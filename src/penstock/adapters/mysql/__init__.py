"""A MySQL or MariaDB source."""
