"""Finding the best trade-offs between quality and cost."""
