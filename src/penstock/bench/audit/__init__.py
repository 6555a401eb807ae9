"""What it costs to prove two tables equal, or to name what differs: ours beside reladiff."""
