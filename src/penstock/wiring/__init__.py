"""From spec to adapter: the only importer of adapters."""
