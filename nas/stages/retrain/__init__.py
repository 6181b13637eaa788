"""Train subnets on their own."""
