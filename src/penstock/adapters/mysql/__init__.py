"""MySQL and MariaDB: a source, and the schema tracker."""
