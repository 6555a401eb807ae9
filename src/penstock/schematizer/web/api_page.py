"""The page of the API's routes, made of its OpenAPI document: it needs no program from elsewhere."""

import json
from dataclasses import dataclass
from itertools import groupby
from typing import Any, cast

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse

from penstock.schematizer.web.rendering import render

router = APIRouter(include_in_schema=False)
_DEPTH_MAX = 8
_CONFLUENT = "Confluent Schema Registry"


@dataclass(frozen=True, slots=True)
class RouteShown:
    """A route as it is shown; `body` is an example of what it takes, "" for nothing."""

    group: str
    method: str
    path: str
    summary: str
    description: str
    parameters: tuple[tuple[str, str, str], ...]
    body: str


@router.get("/docs")
def get_routes(request: Request) -> HTMLResponse:
    """Show every route, by subject."""
    app = cast("FastAPI", request.app)
    routes = sorted(read_routes(app.openapi()), key=lambda each: each.group)
    groups = [(name, list(found)) for name, found in groupby(routes, lambda each: each.group)]
    return render(request, "api.html", groups=groups)


# An OpenAPI document is JSON of any form: what is read of it is what FastAPI writes.
def read_routes(document: dict[str, Any]) -> list[RouteShown]:
    """List the routes of an OpenAPI document."""
    return [
        _shown(document, method, path, told)
        for path, methods in document["paths"].items()
        for method, told in methods.items()
    ]


def _shown(document: dict[str, Any], method: str, path: str, told: dict[str, Any]) -> RouteShown:
    body = told.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    return RouteShown(
        (told.get("tags") or [_CONFLUENT])[0],
        method.upper(),
        path,
        told.get("summary", ""),
        told.get("description", ""),
        tuple(
            (each["name"], each["in"], each.get("description") or each.get("schema", {}).get("description", ""))
            for each in told.get("parameters", ())
        ),
        json.dumps(_example(document, body, _DEPTH_MAX), indent=2, ensure_ascii=False) if body else "",
    )


def _example(document: dict[str, Any], schema: dict[str, Any], depth: int) -> object:
    """Return a value that a schema allows, as its examples have it."""
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    told = schema.get("examples") or schema.get("enum") or ([schema["default"]] if "default" in schema else [])
    if told or depth == 0:
        return told[0] if told else None
    kinds = schema.get("anyOf") or schema.get("allOf")
    if kinds:
        return _example(document, kinds[0], depth - 1)
    if "properties" in schema:
        return {name: _example(document, each, depth - 1) for name, each in schema["properties"].items()}
    if schema.get("type") == "array":
        return [_example(document, schema.get("items", {}), depth - 1)]
    return {"string": "", "integer": 0, "number": 0, "boolean": False, "object": {}}.get(schema.get("type", ""))
