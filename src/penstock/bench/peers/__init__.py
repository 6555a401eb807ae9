"""The peers that we are measured against."""
