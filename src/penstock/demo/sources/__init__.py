"""The kinds of server that the demo's marketplace can be in."""
