"""Write a search space around a model."""
