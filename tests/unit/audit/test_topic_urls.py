"""URLs of topics: what they say, and what is wrong with others."""

from __future__ import annotations

import pytest

from penstock.core.errors import UsageError
from penstock.core.tables import TableId
from penstock.links.audit.compare import Bounds
from penstock.wiring.audit_topics import parse_topic_url
from penstock.wiring.audit_urls import TableAt, audit_urls

REGISTRY = "schematizer=http://127.0.0.1:1"


def test_a_url_names_brokers_topic_and_registry_and_may_log_in_to_both() -> None:
    plain = parse_topic_url(f"topic://k1:9092,k2/src.shop.orders?{REGISTRY}", "unused")
    options = "protocol=SASL_SSL&mechanism=PLAIN&ca_file=/etc/ca.pem&pipeline=shop&schematizer_token_env=TOKEN"
    guarded = parse_topic_url(f"topic://al%40ice@k1:9093/t?{REGISTRY}&{options}", "secret=1")

    assert (plain.cluster.bootstrap_servers, plain.topic, plain.pipeline) == ("k1:9092,k2", "src.shop.orders", "")
    assert (plain.cluster.login, plain.registry.url) == ((), "http://127.0.0.1:1")
    assert dict(guarded.cluster.login) == {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": "/etc/ca.pem",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "al@ice",
        "sasl.password": "secret=1",
    }
    assert (guarded.registry.token_env, guarded.pipeline) == ("TOKEN", "shop")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("topic://k:9092/t", "does not say where its schemas are"),
        (f"topic:///t?{REGISTRY}", "names brokers and one topic"),
        (f"topic://k:9092/?{REGISTRY}", "names brokers and one topic"),
        (f"topic://k:9092/a/b?{REGISTRY}", "names brokers and one topic"),
        (f"topic://k:port/t?{REGISTRY}", "names brokers and one topic"),
        (f"topic://k:9092/t?{REGISTRY}&registry=x", "has no option registry"),
        (f"topic://u:12/secret@k:9092/t?{REGISTRY}", "has an @ behind its brokers"),
        (f"topic://u:12?secret@k:9092/t?{REGISTRY}", "has an @ behind its brokers"),
        (f"topic://u:secret@k:9092/t?{REGISTRY}", "has a user, or a protocol for one, but not both"),
        (f"topic://k:9092/t?{REGISTRY}&protocol=SASL_SSL", "has a user, or a protocol for one, but not both"),
        (f"topic://u:secret@k:9092/t?{REGISTRY}&protocol=KERBEROS", "no way to log in to Kafka"),
        (f"topic://k:9092/t?{REGISTRY}&ca_file=/ca.pem", "a protocol without TLS"),
        ("topic://k:9092/t?schematizer=http://u:secret@h:1", "has a user in it"),
        (f"topics://k:9092/t?{REGISTRY}", "cannot be audited"),
    ],
)
def test_a_url_that_is_none_of_a_topic_says_what_to_write(url: str, said: str) -> None:
    at = TableAt(url, TableId("shop", "orders"))

    with pytest.raises(UsageError) as refused:
        audit_urls(at, at, Bounds())

    assert said in refused.value.message
    assert "secret" not in str(refused.value)
    assert refused.value.hint
