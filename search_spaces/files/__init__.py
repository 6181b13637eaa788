"""Reading and writing files; YAML files of spaces."""

ARCHITECTURE = "architecture.json"
"""The file of an architecture in a folder."""
