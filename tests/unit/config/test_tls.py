"""How a config says that connections to a source and to a tracker are encrypted."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.adapters.mysql.login import Tls
from penstock.config.load import parse
from penstock.config.spec import TlsSpec
from penstock.core.errors import ConfigError
from penstock.wiring.open import mysql_server, tracker_server

if TYPE_CHECKING:
    from penstock.config.specs import PipelineSpec

SMALL = """\
pipeline: shop
sources:
  - name: shopdb
    kind: mysql
    host: h
    user: cdc
    password_env: SHOPDB_PASSWORD
    tables: [shop.*]
"""


def read(text: str) -> PipelineSpec:
    return parse(text, "shop.yaml", Path("/etc/penstock"))


def mistakes(text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        read(text)
    return caught.value.mistakes


def test_nothing_is_encrypted_unless_the_file_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOPDB_PASSWORD", "sesame")

    assert mysql_server(read(SMALL).sources[0]).tls is None


def test_an_empty_mapping_demands_a_certificate_of_a_public_authority(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOPDB_PASSWORD", "sesame")

    assert mysql_server(read(f"{SMALL}    tls: {{}}\n").sources[0]).tls == Tls("full")


def test_files_are_relative_to_the_config(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOPDB_PASSWORD", "sesame")
    monkeypatch.setenv("T", "sesame")
    tracker = "tracker: {host: t, user: u, password_env: T, tls: {ca: ../ca.pem}}\n"

    spec = read(f"{SMALL}    tls: {{verify: ca, ca: ca.pem, cert: /a/cert.pem, key: keys/key.pem}}\n{tracker}")

    assert pickle.loads(pickle.dumps(spec)) == spec  # noqa: S301 - our own bytes
    assert mysql_server(spec.sources[0]).tls == Tls(
        "ca", "/etc/penstock/ca.pem", "/a/cert.pem", "/etc/penstock/keys/key.pem"
    )
    assert spec.tracker is not None
    assert spec.tracker.tls == TlsSpec(ca=Path("/etc/ca.pem"))
    assert tracker_server(spec.tracker).tls == Tls("full", "/etc/ca.pem")


@pytest.mark.parametrize(
    ("tls", "expected"),
    [
        ("", "line 9: sources.0.tls: says nothing: write tls: {} to encrypt, or leave it out"),
        ("yes", "line 9: sources.0.tls: should be a mapping of keys to values"),
        ("{verify: fully}", "line 9: sources.0.tls.verify: should be 'full', 'ca' or 'none'"),
        ("{ca_file: ca.pem}", "line 9: sources.0.tls.ca_file: unknown key (known here: verify, ca, cert, key)"),
        (
            "{key: k.pem}",
            "line 9: sources.0.tls.key: the key is of no use without cert, the certificate that it belongs to",
        ),
        (
            "{verify: none, ca: ca.pem}",
            "line 9: sources.0.tls.ca: verify: none looks at no ca; leave one of the two out",
        ),
    ],
)
def test_a_mistake_is_named_with_its_line(tls: str, expected: str) -> None:
    assert mistakes(f"{SMALL}    tls: {tls}\n") == (expected,)


def test_a_mistake_in_the_trackers_tls_is_named_too() -> None:
    tracker = "tracker: {host: t, user: u, password_env: T, tls: {key: k}}\n"

    assert mistakes(SMALL + tracker)[0].startswith("line 9: tracker.tls.key: the key is of no use without cert")
