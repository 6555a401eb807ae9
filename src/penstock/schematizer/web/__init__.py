"""The Schematizer's web pages: rendered here, without a build step, and whole without JavaScript."""
