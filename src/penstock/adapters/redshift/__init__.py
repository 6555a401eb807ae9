"""Amazon Redshift as a target."""
