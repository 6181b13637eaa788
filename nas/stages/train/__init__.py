"""Train a supernet."""
