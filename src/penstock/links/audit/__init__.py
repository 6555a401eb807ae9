"""An audit: two tables compared by their signatures, and rows that differ looked at again."""
