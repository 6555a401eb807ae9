"""The links as jobs: what a driver and its tasks do with micro-batches, whoever runs them."""
