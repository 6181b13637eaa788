"""Training supernets and plain models."""
