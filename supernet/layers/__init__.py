"""Plain modules that several blocks share."""
