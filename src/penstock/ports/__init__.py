"""Small protocols that state promises."""
