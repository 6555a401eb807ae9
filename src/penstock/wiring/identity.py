"""Whether a state database holds the rows of this pipeline, and not of another one of the same name.

Two things tell: the Kafka cluster that has the positions, and the names of the
sources. Who serves a source may change (a new master), so it is not among them:
whether a log is the one in which we stood, its GTIDs tell.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from penstock.adapters.state.migrate import migrate
from penstock.config.places import has_state, state_url
from penstock.core.errors import START_ANEW, UsageError
from penstock.ports.state import PipelineIdentity
from penstock.wiring.open import open_pipeline_state, open_topic_log

if TYPE_CHECKING:
    from penstock.config.specs import PipelineSpec
    from penstock.ports.state import State

_ANOTHER = "give one of the two another `pipeline` name, or a state database of its own"


def claim_state(spec: PipelineSpec, state: State) -> None:
    """Make sure that `state` is this pipeline's, and write down that it is.

    Raises UsageError for the rows of another pipeline, and UnavailableError.
    """
    ours = own_identity(spec)
    require_identity(spec, state.identity(), ours)
    # Sources may be added. Written each time, so that an interrupted start is made up for.
    state.save_identity(ours)


def prepare_state(spec: PipelineSpec) -> None:
    """Give a state database that is there this release's tables, and make sure that its rows can be this pipeline's.

    For who holds the leader's lock, before anything else is made or started. Raises as `claim_state` does.
    """
    if not has_state(spec):
        return
    migrate(state_url(spec))
    with closing(open_pipeline_state(spec)) as state:
        require_identity(spec, state.identity(), own_identity(spec, ask_kafka=False))


def own_identity(spec: PipelineSpec, *, ask_kafka: bool = True) -> PipelineIdentity:
    """Return this pipeline's identity, its cluster "" unless Kafka is asked. Raises UnavailableError then."""
    cluster = ""
    if ask_kafka:
        with closing(open_topic_log(spec)) as log:
            cluster = log.cluster_id()
    return PipelineIdentity(cluster, tuple(source.name for source in spec.sources))


def require_identity(spec: PipelineSpec, known: PipelineIdentity | None, ours: PipelineIdentity) -> None:
    """Raise UsageError unless `known`, if anything is, can be ours; an unknown cluster is that of ""."""
    if known is None:
        return
    if ours.kafka_cluster and known.kafka_cluster and known.kafka_cluster != ours.kafka_cluster:
        message = (
            f"{_named(spec)} has its positions in the Kafka cluster {known.kafka_cluster}, "
            f"and this config leads to {ours.kafka_cluster}"
        )
        hint = (
            f"if those are two pipelines: {_ANOTHER}; if its Kafka was exchanged, its positions are gone with it: "
            f"{START_ANEW}"
        )
        raise UsageError(message, hint)
    gone = sorted(set(known.sources) - set(ours.sources))
    if gone:
        message = f"{_named(spec)} has the source {', '.join(gone)}, which this config does not have"
        hint = (
            f"if those are two pipelines: {_ANOTHER}; if a source got another name: give it back, "
            "because its positions, topics and rows have it"
        )
        raise UsageError(message, hint)


def _named(spec: PipelineSpec) -> str:
    return f'pipeline "{spec.pipeline}" of the state database {_shown(state_url(spec))}'


def _shown(url: str) -> str:
    """A URL without its password."""
    scheme, slashes, rest = url.partition("://")
    login, at, place = rest.rpartition("@")
    return f"{scheme}{slashes}{login.partition(':')[0]}{at}{place}"
