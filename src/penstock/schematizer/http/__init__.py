"""What stands around both faces: limits, sign-in, turns, and how errors are told."""
