"""Row changes as flat JSON messages: see docs/json-topics.md."""
