"""What stages share: run folders, subnets, measures and costs, evaluation, timing, the Ray cluster."""
