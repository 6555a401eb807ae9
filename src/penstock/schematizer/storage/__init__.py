"""The registry's database: its tables, connections, upgrades, history and backups."""
