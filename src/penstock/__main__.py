"""`python -m penstock`: the same as the `penstock` command."""

from __future__ import annotations

from penstock.cli.main import main

main()
