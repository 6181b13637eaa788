"""Make a subnet smaller."""
