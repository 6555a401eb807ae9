"""The routes that Confluent's clients know.

Source: Confluent Schema Registry API reference. Answers are
`application/vnd.schemaregistry.v1+json`. A route that is not here is a 404 in
the form of every other error.
"""

from fastapi import APIRouter

from penstock.schematizer.confluent import associations, schemas, settings, subjects
from penstock.schematizer.confluent.bodies import ConfluentResponse

router = APIRouter(tags=["confluent"], default_response_class=ConfluentResponse)
router.include_router(schemas.router)
router.include_router(subjects.router)
router.include_router(settings.router)
router.include_router(associations.router)
