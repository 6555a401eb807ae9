"""The routes that Confluent's clients know.

Source: Confluent Schema Registry API reference. Answers are
`application/vnd.schemaregistry.v1+json`. A route that is not here is a 404 in
the form of every other error.
"""

from fastapi import APIRouter

from penstock.schematizer import (
    confluent_associations,
    confluent_schemas,
    confluent_settings,
    confluent_subjects,
)
from penstock.schematizer.confluent_bodies import ConfluentResponse

router = APIRouter(tags=["confluent"], default_response_class=ConfluentResponse)
router.include_router(confluent_schemas.router)
router.include_router(confluent_subjects.router)
router.include_router(confluent_settings.router)
router.include_router(confluent_associations.router)
