"""The stages, one folder each: request.py (arguments), run.py (the work), view.py (terminal output)."""
