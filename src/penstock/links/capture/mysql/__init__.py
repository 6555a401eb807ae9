"""What capture knows of MySQL and MariaDB alone: their statements, and what their logs lack."""
