"""A Redshift to test against: a wire-protocol server before a PostgreSQL of its own. README.md tells what it can do."""

from penstock.dev.redshift.service import RedshiftServer, start_redshift

__all__ = ["RedshiftServer", "start_redshift"]
