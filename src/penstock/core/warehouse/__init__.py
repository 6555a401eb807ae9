"""Warehouses: dialects as data, and the SQL planned from them."""
