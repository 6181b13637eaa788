"""Evaluate architectures of a supernet, or a subnet."""
