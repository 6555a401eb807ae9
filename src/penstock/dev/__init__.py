"""Real servers on loopback, for the demo, the tests and a developer's desk."""
