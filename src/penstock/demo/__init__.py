"""The main job, end to end, on a marketplace database."""
