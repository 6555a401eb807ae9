"""The pipeline file: the only reader of files and environment."""
