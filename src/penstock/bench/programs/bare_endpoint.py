"""The least that the Schematizer's web framework can do: a constant as a schema, and a registration that does nothing.

    python -m penstock.bench.programs.bare_endpoint PORT

The web server is set as the Schematizer sets it.
"""

# FastAPI looks annotations up, so they stay what they are.
import sys

import uvicorn
from fastapi import FastAPI, Response

from penstock.bench.schematizer.workload import MEDIA_TYPE, SCHEMA_BODY
from penstock.embedded.ports import LOOPBACK
from penstock.schematizer.server import Service, listen, web_settings

app = FastAPI()


@app.get("/schemas/ids/{schema_id}")
async def get_schema(schema_id: int) -> Response:  # noqa: ARG001 - read, as every endpoint reads its own
    """Return the one schema."""
    return Response(SCHEMA_BODY, media_type=MEDIA_TYPE)


@app.post("/subjects/{subject}/versions")
async def post_version(subject: str, body: dict[str, str]) -> dict[str, int]:  # noqa: ARG001 - the same
    """Return the one id."""
    return {"id": 1}


def main(arguments: list[str]) -> None:
    """Serve until stopped."""
    service = Service("", LOOPBACK, int(arguments[0]))
    with listen(service.host, service.port) as listener:
        uvicorn.Server(web_settings(app, service)).run(sockets=[listener])


if __name__ == "__main__":
    main(sys.argv[1:])
