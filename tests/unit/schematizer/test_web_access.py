"""Who may see and change what in the pages: the roles of the API's routes."""

from __future__ import annotations

import pytest

from penstock.schematizer.ids import NO_ID
from penstock.schematizer.security.access import InNamespace, InSubject, Role
from penstock.schematizer.security.demands import Demand, InNote, InSchema, InTopic, Somewhere, Target, demand_of


def demand(method: str, path: str, query: str = "") -> Demand:
    return demand_of({"method": method, "path": path, "query_string": query.encode()}, b"")


@pytest.mark.parametrize(
    ("path", "query", "targets"),
    [
        ("/ui/static/style.css", "", (Somewhere(),)),
        ("/ui/namespaces/shopdb", "", (InNamespace("shopdb"),)),
        ("/ui/sources/a%2Fb/shop/orders", "", (InNamespace("a/b"),)),
        ("/ui/topics/shopdb.shop.orders", "", (InTopic("shopdb.shop.orders"),)),
        ("/ui/topics/shopdb.shop.orders/figures", "", (InTopic("shopdb.shop.orders"),)),
        ("/ui/topics/t", "old=3&new=4", (InTopic("t"), InSchema(3), InSchema(4))),
        ("/ui/subjects/clicks-value", "old=3&new=4", (InSubject("clicks-value"), InSchema(3), InSchema(4))),
        ("/ui/schemas/7", "", (InSchema(7),)),
        ("/ui/notes/7", "", (InNote(7),)),
        ("/ui/history", "namespace=shopdb", (InNamespace("shopdb"),)),
        ("/ui/search", "q=order&namespace=shopdb", (InNamespace("shopdb"),)),
        ("/ui/topics/t", "old=%2B3", (InTopic("t"), InSchema(NO_ID))),
        ("/ui/schemas/%2B3", "namespace=mine", (InSchema(NO_ID),)),
        ("/ui/", "", ()),
        ("/ui/", "namespace=mine", ()),
        ("/ui/search", "q=order", ()),
        ("/ui/search", "q=order&namespace=", ()),
        ("/ui/search", "namespace=mine&namespace=theirs", ()),
        ("/ui/subjects", "namespace=mine", ()),
    ],
)
def test_a_page_is_for_those_who_may_read_what_it_shows(path: str, query: str, targets: tuple[Target, ...]) -> None:
    assert demand("GET", path, query) == Demand(Role.READ, targets)


@pytest.mark.parametrize(
    ("path", "targets"),
    [
        ("/ui/sources/shopdb/shop/orders", (InNamespace("shopdb"),)),
        ("/ui/sources/shopdb/shop/orders/columns", (InNamespace("shopdb"),)),
        ("/ui/schemas/7/notes", (InSchema(7),)),
        ("/ui/anything", ()),
    ],
)
def test_a_form_is_for_those_who_may_write_what_it_changes(path: str, targets: tuple[Target, ...]) -> None:
    assert demand("POST", path) == Demand(Role.WRITE, targets)
