"""What a constraint of the database refuses is told as that, not as a database that is away."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.exc import IntegrityError
from tests.unit.schematizer.served import begin_migrated

from penstock.schematizer.app import create_app
from penstock.schematizer.storage.database import open_database
from penstock.schematizer.storage.models import Note

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy.orm import Session


def break_a_constraint(session: Session) -> None:
    session.add(Note(schema_id=99, element="", text="x", author="", created_at_ms=0, updated_at_ms=0))


@pytest.fixture
def url(tmp_path: Path) -> str:
    begin_migrated(f"sqlite:///{tmp_path}/registry.db")
    return f"sqlite:///{tmp_path}/registry.db"


def test_a_write_that_a_constraint_refuses_each_time_says_so(url: str) -> None:
    with closing(open_database(url)) as database, pytest.raises(IntegrityError, match="FOREIGN KEY"):
        database.write(break_a_constraint)


def test_a_client_is_not_told_to_try_it_again(url: str) -> None:
    app = create_app(url)
    app.add_api_route("/broken", lambda: app.state.database.write(break_a_constraint))

    with TestClient(app, base_url="http://127.0.0.1") as client:
        refused = client.get("/broken")

    assert (refused.status_code, refused.json()["code"]) == (409, "changed_meanwhile")
    assert "FOREIGN KEY" in refused.json()["message"]
    assert "Retry-After" not in refused.headers
