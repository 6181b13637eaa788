"""Published models as architectures, with the figures their publications print."""
