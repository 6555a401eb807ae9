"""What a join's file may say of its inputs, and what its output then looks like."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.core.errors import UsageError
from penstock.core.joins.inputs import JoinInput, JoinOutput
from penstock.core.joins.plan import JoinPlan, plan_join
from penstock.core.tables import (
    Column,
    DecimalType,
    EnumType,
    FloatType,
    IntegerType,
    PrintedType,
    TableId,
    TableSchema,
    TextType,
)

NUMBER, TEXT = IntegerType(64, unsigned=False), TextType(200, "utf8mb4")


def column(name: str, *, nullable: bool = True) -> Column:
    return Column(name, NUMBER if name.endswith("id") or name == "stars" else TEXT, nullable)


REVIEW = TableSchema(
    TableId("shop", "user_review"),
    (column("review_id", nullable=False), column("biz_id"), column("stars"), column("content")),
    ("review_id",),
)
BUSINESS = TableSchema(
    TableId("shop", "business"),
    (column("business_id", nullable=False), column("name"), column("address"), column("city")),
    ("business_id",),
)
REVIEWS = JoinInput("shopdb.shop.user_review", REVIEW, ("biz_id",), ("content", "review_id"))
BUSINESSES = JoinInput(
    "shopdb.shop.business", BUSINESS, ("business_id",), ("address", "name"), (("business_id", "biz_id"),)
)


def plan(
    first: JoinInput = REVIEWS, other: JoinInput = BUSINESSES, key: tuple[str, ...] = ("business_id",)
) -> JoinPlan:
    return plan_join([first, other], JoinOutput(TableId("example", "business_review_join"), key, "A join"))


def test_join_keys_of_one_name_are_one_field_that_is_never_null() -> None:
    assert [column.name for column in plan().output.columns] == ["biz_id", "stars", "city", "review_id"]
    assert not plan().output.column("biz_id").nullable


def test_a_key_that_does_not_identify_rows_gives_way_to_the_keys_of_the_inputs() -> None:
    found = plan()

    assert not found.is_declared_key
    assert found.output.key == ("review_id",)
    assert found.kept == ("review_id",)


def test_a_key_that_identifies_rows_is_the_key() -> None:
    found = plan(replace(REVIEWS, exclude=("content",)), key=("review_id",))

    assert found.is_declared_key
    assert found.output.key == ("review_id",)
    assert found.kept == ()


def test_names_that_differ_in_case_alone_are_one_name_to_targets() -> None:
    towns = replace(BUSINESSES, aliases=(*BUSINESSES.aliases, ("city", "Stars")))
    with pytest.raises(UsageError) as refused:
        plan(other=towns)
    assert refused.value.message.startswith("shopdb.shop.user_review.stars and shopdb.shop.business.city are both")
    assert refused.value.message.endswith("called stars, or Stars")
    assert "aliases" in refused.value.hint

    # Nor does what stays for the key's sake get such a name.
    other = replace(BUSINESSES, aliases=(*BUSINESSES.aliases, ("city", "Review_ID")))
    assert plan(other=other).output.key == ("user_review_review_id",)


def test_one_to_one_rows_are_identified_by_their_join_key() -> None:
    owners = JoinInput(
        "shopdb.shop.owner", replace(BUSINESS, table=TableId("shop", "owner")), ("business_id",), ("name",)
    )
    owners = replace(owners, aliases=(("address", "street"), ("city", "town"), ("business_id", "biz_id")))

    found = plan(owners, key=("biz_id",))

    assert found.is_declared_key
    assert found.output.key == ("biz_id",)
    assert found.remembered == 0


def test_many_to_many_rows_are_identified_by_both_keys() -> None:
    tags = TableSchema(TableId("shop", "tag"), (column("tag_id", nullable=False), column("biz_id")), ("tag_id",))

    found = plan(other=JoinInput("shopdb.shop.tag", tags, ("biz_id",)), key=("biz_id",))

    assert found.output.key == ("review_id", "tag_id")


def test_each_field_says_where_it_comes_from() -> None:
    comments = {column.name: column.comment for column in plan().output.columns}

    assert comments["biz_id"] == "from shopdb.shop.user_review.biz_id = shopdb.shop.business.business_id"
    assert comments["city"] == "from shopdb.shop.business.city"


def test_nothing_is_stored_that_the_output_has_not() -> None:
    stored = [[column.name for column in each.stored.columns] for each in plan().inputs]

    assert stored == [["review_id", "biz_id", "stars"], ["city"]]


def test_a_stream_that_may_have_no_match_gives_the_key_a_field_that_is_never_null() -> None:
    all_reviews = replace(REVIEWS, exclude=("content",), is_optional=True)

    found = plan(BUSINESSES, all_reviews, ("business_id", "review_id"))

    assert found.is_declared_key
    assert found.output.key == ("biz_id", "review_id_key")
    assert found.stand_ins == ("review_id_key",)
    assert [c.name for c in found.output.columns if c.nullable] == ["city", "review_id", "stars"]
    assert (
        found.output.column("review_id_key").comment == "from shopdb.shop.user_review.review_id, or 0 without a match"
    )


def test_a_key_that_tells_its_match_needs_no_more() -> None:
    found = plan(replace(REVIEWS, exclude=("content",)), replace(BUSINESSES, is_optional=True), ("review_id",))

    assert found.is_declared_key
    assert found.output.key == ("review_id",)
    assert found.stand_ins == ()
    assert found.output.column("biz_id").nullable, "a review without a business is there, too"


def test_the_key_of_what_may_have_no_match_does_not_identify_rows() -> None:
    found = plan(BUSINESSES, replace(REVIEWS, exclude=("content",), is_optional=True), ("review_id",))

    assert not found.is_declared_key
    assert found.output.key == ("biz_id", "review_id_key")


def test_a_field_is_that_of_the_stream_that_always_has_it() -> None:
    owners = TableSchema(TableId("shop", "owner"), (column("biz_id", nullable=False), column("name")), ("biz_id",))
    first = replace(BUSINESSES, aliases=(), exclude=("address", "name"))
    optional = replace(REVIEWS, is_optional=True)
    last = JoinInput("shopdb.shop.owner", owners, ("biz_id",))

    found = plan_join([first, optional, last], JoinOutput(TableId("example", "joined"), ("business_id",)))

    assert found.output.column("biz_id").comment == "from shopdb.shop.owner.biz_id = shopdb.shop.user_review.biz_id"
    assert not found.output.column("biz_id").nullable


def test_a_condition_needs_its_columns_and_keeps_none_of_them() -> None:
    found = plan(replace(REVIEWS, where="stars > 3 AND content IS NOT NULL"))

    assert [c.name for c in found.inputs[0].tested] == ["stars", "content"]
    assert "content" not in [c.name for c in found.inputs[0].stored.columns]


def test_what_changes_the_rows_changes_the_digest() -> None:
    plans = [plan(), plan(other=replace(BUSINESSES, is_optional=True)), plan(replace(REVIEWS, where="stars = 5"))]

    assert len({each.digest for each in plans}) == len(plans)


@pytest.mark.parametrize(
    ("first", "other", "key", "told"),
    [
        (
            replace(REVIEWS, table=replace(REVIEW, key=())),
            BUSINESSES,
            ("biz_id",),
            "shop.user_review has no primary key",
        ),
        (replace(REVIEWS, join_keys=("business",)), BUSINESSES, ("biz_id",), "no field business, which its join_keys"),
        (REVIEWS, replace(BUSINESSES, join_keys=("city",)), ("biz_id",), "(text) cannot be compared"),
        (REVIEWS, replace(BUSINESSES, join_keys=("business_id", "city")), ("biz_id",), "as many join_keys"),
        (REVIEWS, replace(BUSINESSES, aliases=(("city", "stars"),)), ("biz_id",), "are both called stars"),
        (replace(REVIEWS, aliases=(("stars", "biz_id"),)), BUSINESSES, ("biz_id",), "are both called biz_id"),
        (REVIEWS, replace(BUSINESSES, aliases=(("town", "place"),)), ("biz_id",), "no field town, which its aliases"),
        (REVIEWS, replace(BUSINESSES, exclude=("street",)), ("biz_id",), "no field street, which its exclude_fields"),
        (REVIEWS, BUSINESSES, ("address",), "pkey address is not in the output: it is excluded"),
        (REVIEWS, BUSINESSES, ("place",), "pkey place is not in the output"),
        (replace(REVIEWS, exclude=()), BUSINESSES, ("review_id", "stars"), "pkey stars can be null"),
        (replace(REVIEWS, is_optional=True), BUSINESSES, ("biz_id",), "stands first and has type: left"),
        (replace(REVIEWS, where="star = 5"), BUSINESSES, ("biz_id",), "there is no such column (did you mean stars?)"),
        (replace(REVIEWS, where="stars = 'x'"), BUSINESSES, ("biz_id",), "and needs a number"),
    ],
)
def test_a_join_that_cannot_be_made_is_refused(
    first: JoinInput, other: JoinInput, key: tuple[str, ...], told: str
) -> None:
    with pytest.raises(UsageError) as refused:
        plan(first, other, key)

    assert told in str(refused.value)


CITIES = replace(BUSINESSES, join_keys=("city",))
TEXTUAL = replace(REVIEW, columns=(*REVIEW.columns[:1], replace(REVIEW.columns[1], type=TEXT), *REVIEW.columns[2:]))
OPTIONAL = replace(REVIEWS, is_optional=True)
WHOLE = replace(REVIEWS, exclude=())
KEYLESS = replace(REVIEWS, table=replace(REVIEW, key=()))
PARTIAL = replace(REVIEWS, table=replace(REVIEW, partial_rows=True))
STARRED = replace(
    REVIEW, columns=tuple(replace(each, nullable=each.nullable and each.name != "stars") for each in REVIEW.columns)
)
BOTH_STARS = replace(BUSINESSES, aliases=(("city", "stars"),))
NO_FIELD = replace(BUSINESSES, exclude=("street",))
Joined = tuple[JoinInput, JoinInput, tuple[str, ...]]
NUMBERS: tuple[str, ...] = ("review_id", "stars")


@pytest.mark.parametrize(
    ("refused", "hint", "mended"),
    [
        ((KEYLESS, BUSINESSES, ("biz_id",)), "user_review a primary key", (REVIEWS, BUSINESSES, ("biz_id",))),
        ((OPTIONAL, BUSINESSES, ("biz_id",)), "streams that may have no match", (BUSINESSES, OPTIONAL, ("biz_id",))),
        ((REVIEWS, CITIES, ("biz_id",)), "join_keys of one kind", (REVIEWS, BUSINESSES, ("biz_id",))),
        (
            (REVIEWS, CITIES, ("biz_id",)),
            "or change the type of a column",
            (replace(REVIEWS, table=TEXTUAL), replace(CITIES, aliases=()), ("biz_id",)),
        ),
        (
            (REVIEWS, BOTH_STARS, ("biz_id",)),
            "another name in aliases",
            (replace(REVIEWS, aliases=(("stars", "points"),)), BOTH_STARS, ("biz_id",)),
        ),
        (
            (REVIEWS, BOTH_STARS, ("biz_id",)),
            "or exclude it in exclude_fields",
            (replace(REVIEWS, exclude=("content", "stars")), BOTH_STARS, ("biz_id",)),
        ),
        ((REVIEWS, NO_FIELD, ("biz_id",)), "its fields are: business_id, name", (REVIEWS, BUSINESSES, ("biz_id",))),
        ((REVIEWS, BUSINESSES, ("place",)), "the output has: biz_id, stars, city", (REVIEWS, BUSINESSES, ("city",))),
        ((WHOLE, BUSINESSES, NUMBERS), "leave it out of pkey", (WHOLE, BUSINESSES, ("review_id",))),
        (
            (WHOLE, BUSINESSES, NUMBERS),
            "or make the column NOT NULL",
            (replace(WHOLE, table=STARRED), BUSINESSES, NUMBERS),
        ),
    ],
)
def test_a_join_that_was_refused_can_be_made_when_its_hint_is_followed(
    refused: Joined, hint: str, mended: Joined
) -> None:
    with pytest.raises(UsageError) as raised:
        plan(*refused)
    assert hint in raised.value.hint

    assert plan(*mended).output.columns


@pytest.mark.parametrize("type_", [FloatType(64), DecimalType(10, 2)])
def test_columns_of_types_that_are_not_compared_are_no_join_keys(type_: FloatType | DecimalType) -> None:
    odd = replace(BUSINESS, columns=(replace(column("business_id", nullable=False), type=type_), *BUSINESS.columns[1:]))

    with pytest.raises(UsageError):
        plan(other=replace(BUSINESSES, table=odd))


def test_dates_as_text_are_joined_where_they_have_as_many_digits() -> None:
    def keyed(table: TableSchema, name: str, digits: int) -> TableSchema:
        type_ = PrintedType("datetime", digits)
        return replace(table, columns=tuple(replace(c, type=type_) if c.name == name else c for c in table.columns))

    reviews = replace(REVIEWS, table=keyed(REVIEW, "biz_id", 3))

    with pytest.raises(UsageError, match=r"\(datetime with 3 digits of fraction\) and .* \(datetime\) cannot be"):
        plan(reviews, replace(BUSINESSES, table=keyed(BUSINESS, "business_id", 0)))
    assert plan(reviews, replace(BUSINESSES, table=keyed(BUSINESS, "business_id", 3))).output.columns


def test_a_key_of_a_type_that_nothing_stands_in_for_is_refused() -> None:
    colours = Column("colour", EnumType(("red", "blue")), nullable=False)
    tags = TableSchema(TableId("shop", "tag"), (column("biz_id"), colours), ("colour",))

    with pytest.raises(UsageError, match="its type has no value for a row without a match"):
        plan(BUSINESSES, JoinInput("shopdb.shop.tag", tags, ("biz_id",), is_optional=True), ("biz_id",))
