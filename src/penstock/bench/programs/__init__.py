"""Small programs that benches start and measure: each is a process of its own, and says by marks what it did when."""
