"""The warehouse spolt: files into tables."""
