"""The pages that show schemas: of topics, of subjects, and each by itself."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse
from sqlalchemy.orm import Session

from penstock.schematizer.api.dependencies import Store
from penstock.schematizer.api.queries import SchemaId, TopicName
from penstock.schematizer.http.error_answers import PAGES
from penstock.schematizer.security.rights import Asking
from penstock.schematizer.web.browsing import After, Text
from penstock.schematizer.web.figures import KafkaFigures
from penstock.schematizer.web.rendering import render
from penstock.schematizer.web.schema_reading import (
    read_foreign_subjects,
    read_schema_page,
    read_subject_page,
    read_topic_page,
)

router = APIRouter(prefix=PAGES, include_in_schema=False)
_SUBJECTS_PER_PAGE = 100


def figures_of(request: Request) -> KafkaFigures | None:
    """Return who asks Kafka, None where the service was not told of any."""
    figures = request.app.state.figures
    assert figures is None or isinstance(figures, KafkaFigures)  # noqa: S101 - the application's factory put it there
    return figures


def pair_of(
    old: Annotated[SchemaId | None, Query()] = None, new: Annotated[SchemaId | None, Query()] = None
) -> tuple[int, int] | None:
    """Return the ids of the two schemas that are to be compared, None unless both are said."""
    return None if old is None or new is None else (old, new)


Figures = Annotated[KafkaFigures | None, Depends(figures_of)]
Pair = Annotated[tuple[int, int] | None, Depends(pair_of)]


@router.get("/topics/{name}")
def get_topic(request: Request, store: Store, name: TopicName, pair: Pair, figures: Figures) -> HTMLResponse:
    """Show a topic: where it comes from and goes to, its fields, and its schemas side by side."""
    page = store.read(lambda session: read_topic_page(session, name, pair))
    return render(request, "topic.html", page=page, has_kafka=figures is not None)


@router.get("/topics/{name}/figures")
def get_figures(request: Request, name: TopicName, figures: Figures) -> HTMLResponse:
    """Show the live figures of a topic, which may take some seconds: the topic's page asks for them once it stands."""
    return render(request, "figures.html", topic=name, figures=figures.read(name) if figures else None)


@router.get("/schemas/{schema_id}")
def get_schema(request: Request, store: Store, schema_id: SchemaId, asking: Asking) -> HTMLResponse:
    """Show a schema, who has it, and the notes on it."""
    page = store.read(lambda session: read_schema_page(session, schema_id, asking))
    return render(request, "schema.html", page=page, draft=None)


@router.get("/subjects")
def get_subjects(request: Request, store: Store, part: Text = "", after: After = "") -> HTMLResponse:
    """Show the subjects that are no table's."""

    def work(session: Session) -> tuple[list[tuple[str, int]], str]:
        return read_foreign_subjects(session, part, after, _SUBJECTS_PER_PAGE)

    found, following = store.read(work)
    return render(request, "subjects.html", found=found, next=following, part=part)


@router.get("/subjects/{name}")
def get_subject(request: Request, store: Store, name: TopicName, pair: Pair) -> HTMLResponse:
    """Show a subject with its versions."""
    page = store.read(lambda session: read_subject_page(session, name, pair))
    return render(request, "subject.html", page=page)
