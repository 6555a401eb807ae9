"""`penstock schematizer`: serve the registry, look into one that runs, document, protect and move it."""

from __future__ import annotations

import typer

from penstock.cli.schematizer_backup import backup, restore
from penstock.cli.schematizer_document import document
from penstock.cli.schematizer_serve import serve
from penstock.cli.schematizer_show import show
from penstock.cli.schematizer_transfer import export_registry, import_registry
from penstock.cli.schematizer_users import app as users_app

app = typer.Typer(no_args_is_help=True, help="Serve, show, document, protect, back up and move the registry.")
app.command()(serve)
app.command()(show)
app.command()(document)
app.command()(backup)
app.command()(restore)
app.command("import")(import_registry)
app.command("export")(export_registry)
app.add_typer(users_app, name="user")
