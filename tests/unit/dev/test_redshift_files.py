"""What S3 says of a COPY's files, in the words of the Redshift stand-in."""

from __future__ import annotations

import pytest

from penstock.dev.redshift.files import explain


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("status 404 Not Found: NoSuchBucket http://127.0.0.1:24031/nowhere", "Status 404,Error NoSuchBucket"),
        ("status 404 Not Found: id 1403f http://127.0.0.1:31403/nowhere", "Status 404,Error NoSuchBucket"),
        ("status 403 Forbidden: http://127.0.0.1:24041/x", "Status 403,Error AccessDenied"),
    ],
)
def test_the_digits_of_a_port_are_no_status(said: str, told: str) -> None:
    assert told in explain(OSError(said), "s3://nowhere/x").detail
