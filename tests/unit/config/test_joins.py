"""Joins in a pipeline's file, each in a file of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config.join_steps import as_begun, steps_of
from penstock.config.load import load_join, parse
from penstock.core.errors import ConfigError
from penstock.core.topic_policy import rule_of

EXAMPLE = """\
join:
  - schema_id: 12345            # or topic: shop.user_review
    join_keys: [biz_id]
    exclude_fields: [content, review_id]
  - schema_id: 23143
    join_keys: [business_id]
    aliases:
      - from: business_id
        to: biz_id
    exclude_fields: [address, name]
output:
  namespace: joinery_example
  source: business_review_join
  doc: Join of business table and review table
  pkey: [business_id]
"""
PIPELINE = """\
pipeline: shop
sources:
  - {name: shopdb, kind: mysql, host: 127.0.0.1, port: 3306, user: cdc, password_env: X, tables: ["shop.*"]}
sinks: [{name: warehouse, kind: duckdb, path: w.duckdb}]
joins: [business_review.yaml]
"""


def write(directory: Path, text: str) -> Path:
    file = directory / "business_review.yaml"
    file.write_text(text)
    return file


def mistakes(text: str, directory: Path) -> str:
    with pytest.raises(ConfigError) as wrong:
        parse(text, "shop.yaml", directory)
    return str(wrong.value)


def test_the_form_of_the_original_is_read(tmp_path: Path) -> None:
    join = load_join(write(tmp_path, EXAMPLE))

    assert join.name == "business_review_join"
    assert [each.schema_id for each in join.inputs] == [12345, 23143]
    assert join.inputs[0].exclude_fields == ("content", "review_id")
    assert [(each.old, each.new) for each in join.inputs[1].aliases] == [("business_id", "biz_id")]
    assert join.output.pkey == ("business_id",)


def test_an_audit_of_a_join_is_refused_with_what_to_type(tmp_path: Path) -> None:
    write(tmp_path, EXAMPLE)
    link = "links: [{from: business_review_join, to: warehouse}]\n"
    audit = "audits: [{source: business_review_join, sink: warehouse}]\n"

    told = mistakes(PIPELINE + link + audit, tmp_path)

    assert "audits.0.source: is a join, and an audit compares the tables of a source" in told
    assert "penstock joinery verify FILE business_review_join" in told


def test_doc_may_have_a_capital(tmp_path: Path) -> None:
    join = load_join(write(tmp_path, EXAMPLE.replace("doc:", "Doc:")))

    assert join.output.doc == "Join of business table and review table"


def test_a_pipeline_reads_its_joins_beside_its_own_file(tmp_path: Path) -> None:
    write(tmp_path, EXAMPLE)

    spec = parse(PIPELINE + "links: [{from: business_review_join, to: warehouse}]\n", "shop.yaml", tmp_path)

    assert [join.name for join in spec.joins] == ["business_review_join"]


def test_mistakes_of_a_join_are_told_with_its_file_and_line(tmp_path: Path) -> None:
    write(tmp_path, EXAMPLE.replace("pkey", "pkeys"))

    told = mistakes(PIPELINE, tmp_path)

    assert "line 5: joins.0: business_review.yaml: line 15: output.pkeys: unknown key (did you mean pkey?)" in told


def test_a_join_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert "there is no file" in mistakes(PIPELINE, tmp_path)


def test_an_input_has_one_name(tmp_path: Path) -> None:
    write(tmp_path, EXAMPLE.replace("schema_id: 23143", "schema_id: 23143\n    topic: shop.business"))

    assert "give schema_id or topic, and not both" in mistakes(PIPELINE, tmp_path)


def test_a_join_of_one_stream_is_none(tmp_path: Path) -> None:
    first, _, rest = EXAMPLE.partition("  - schema_id: 23143")

    with pytest.raises(ConfigError) as wrong:
        load_join(write(tmp_path, first + rest[rest.index("output:") :]))

    assert "line 1: join: should have 2 to 30 streams, and has 1" in str(wrong.value)


def test_a_join_and_a_source_have_different_names(tmp_path: Path) -> None:
    write(tmp_path, EXAMPLE.replace("business_review_join", "shopdb"))

    assert 'a source is called "shopdb" too' in mistakes(PIPELINE, tmp_path)


def test_a_join_on_a_cluster_needs_a_home_that_its_workers_have(tmp_path: Path) -> None:
    write(tmp_path, EXAMPLE)
    said = "say spark.shared_home: true"

    assert said in mistakes(PIPELINE + 'spark: {master: "spark://m:7077"}\n', tmp_path)
    assert said not in mistakes(PIPELINE + 'spark: {master: "spark://m:7077", shared_home: true}\n', tmp_path)


TREE = """\
join:
  - topic: shop.user_review
    join_keys: [biz_id]
    exclude_fields: [content]
  - topic: shop.business
    type: left
    join_keys: [business_id]
    aliases: [{from: business_id, to: biz_id}]
    exclude_fields: [owner_id, name]
    where: city <> 'Ulm'
  - topic: shop.owner
    join_keys: [id]
    left_keys: [owner_id]
    aliases: [{from: id, to: owner}]
output: {namespace: example, source: reviews, pkey: [review_id], partitions: 4, retention_hours: unlimited}
"""


def test_other_keys_are_joined_in_steps(tmp_path: Path) -> None:
    write(tmp_path, TREE)

    step, last = parse(PIPELINE, "shop.yaml", tmp_path).joins

    assert (step.name, last.name) == ("reviews_step1", "reviews")
    assert [each.topic for each in step.inputs] == ["shop.user_review", "shop.business"]
    assert [each.exclude_fields for each in step.inputs] == [("content",), ("name",)]
    assert [each.topic for each in last.inputs] == ["reviews_step1.example.reviews_step1", "shop.owner"]
    assert (last.inputs[0].join_keys, last.inputs[0].exclude_fields) == (("owner_id",), ("owner_id",))
    assert [each.is_step for each in last.inputs] == [True, False]
    assert (step.output.partitions, step.output.retention_hours, step.output.pkey) == (4, "unlimited", ())


def test_every_topic_of_an_output_is_kept_as_its_file_says(tmp_path: Path) -> None:
    write(tmp_path, TREE)
    step, last = parse(PIPELINE, "shop.yaml", tmp_path).joins
    rules = [rule for join in (step, last) if (rule := join.topic_rule) is not None]

    found = [
        rule_of(f"reviews.example.reviews{end}", rules) for end in ("", ".v2", "-0123456789ab", "-0123456789ab.v2")
    ]

    assert found == [last.topic_rule] * 4
    assert rule_of("reviews_step1.example.reviews_step1", rules) == step.topic_rule


def test_a_join_key_that_one_stream_excludes_and_another_shows_is_shown(tmp_path: Path) -> None:
    by_both = TREE.replace("left_keys: [owner_id]", "left_keys: [biz_id, owner_id]").replace("[id]", "[biz, id]")
    write(tmp_path, by_both.replace("    type: left\n", "").replace("[content]", "[content, biz_id]"))
    _, last = parse(PIPELINE, "shop.yaml", tmp_path).joins
    assert last.inputs[0].exclude_fields == ("owner_id",)

    # A state that an older release has begun keeps what it had, until it is rebuilt.
    assert as_begun(last, ["review_id"]).inputs[0].exclude_fields == ("owner_id", "biz_id")
    assert as_begun(last, ["review_id", "biz_id"]) == last

    # The second stream may have no match here: what it shows is not what the first one has.
    write(tmp_path, by_both.replace("[content]", "[content, biz_id]"))
    _, last = parse(PIPELINE, "shop.yaml", tmp_path).joins
    assert last.inputs[0].exclude_fields == ("biz_id", "owner_id")


def test_left_keys_that_are_the_first_streams_keys_make_no_step(tmp_path: Path) -> None:
    write(tmp_path, TREE.replace("left_keys: [owner_id]", "left_keys: [biz_id]"))

    (join,) = parse(PIPELINE, "shop.yaml", tmp_path).joins

    assert [each.join_keys for each in join.inputs] == [("biz_id",), ("business_id",), ("id",)]


def test_the_first_join_may_be_by_left_keys(tmp_path: Path) -> None:
    write(tmp_path, TREE.replace("    type: left\n", "    left_keys: [writer]\n"))

    step, _ = parse(PIPELINE, "shop.yaml", tmp_path).joins

    assert [each.join_keys for each in step.inputs] == [("writer",), ("business_id",)]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "    join_keys: [biz_id]\n",
            "    join_keys: [biz_id]\n    type: left\n",
            "has type: left in its first stream",
        ),
        (
            "    join_keys: [biz_id]\n",
            "    join_keys: [biz_id]\n    left_keys: [a]\n",
            "has left_keys in its first stream",
        ),
        ("type: left", "type: outer", "should be 'inner' or 'left'"),
        ("left_keys: [owner_id]", "left_keys: [owner_id, city]", "has 2 left_keys and 1 join_keys"),
        ("city <> 'Ulm'", "city <> upper(name)", "has 'UPPER(name)' where a column or a constant should be"),
        ("source: reviews", f"source: {'r' * 42}", "should have at most 41 characters"),
        ("partitions: 4", "partitions: 0", "greater than or equal to 1"),
        ("unlimited", "0", "greater than or equal to 1"),
    ],
)
def test_what_left_joins_filters_and_steps_cannot_be_is_told(tmp_path: Path, old: str, new: str, told: str) -> None:
    write(tmp_path, TREE.replace(old, new, 1))

    assert told in mistakes(PIPELINE, tmp_path)


def test_a_step_has_a_name_that_no_other_join_has(tmp_path: Path) -> None:
    write(tmp_path, TREE)
    (tmp_path / "other.yaml").write_text(EXAMPLE.replace("business_review_join", "reviews_step1"))

    pipeline = PIPELINE.replace("[business_review.yaml]", "[business_review.yaml, other.yaml]")

    with pytest.raises(ConfigError, match='another join is called "reviews_step1" too'):
        parse(pipeline, "shop.yaml", tmp_path)


def test_the_example_of_the_docs_is_two_joins() -> None:
    (example,) = (Path(__file__).parents[3] / "docs" / "examples").glob("*.yaml")

    assert [step.name for step in steps_of(load_join(example))] == ["account_step1", "account"]


@pytest.mark.parametrize("parallelism", [0, 65, "4"])
def test_a_parallelism_that_no_state_can_have_is_refused(tmp_path: Path, parallelism: object) -> None:
    file = tmp_path / "join.yaml"
    file.write_text(f"{EXAMPLE}parallelism: {parallelism!r}\n")

    with pytest.raises(ConfigError, match="parallelism"):
        load_join(file)
