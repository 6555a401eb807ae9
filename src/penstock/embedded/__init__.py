"""What `penstock run` keeps for itself: servers on loopback, jars, a Java runtime, and their processes."""
