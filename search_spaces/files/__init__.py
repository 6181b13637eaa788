"""Reading and writing files; YAML files of spaces."""
