"""Published models as architectures, with their published figures."""
