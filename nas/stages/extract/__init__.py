"""Extract selected architectures as standalone models."""
