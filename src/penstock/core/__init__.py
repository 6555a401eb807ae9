"""What Penstock knows: pure, without I/O, clock or randomness."""
