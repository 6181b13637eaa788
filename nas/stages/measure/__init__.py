"""Time subnets on devices."""
