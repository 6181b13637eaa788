"""List devices and whether each is available here."""
