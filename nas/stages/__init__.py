"""The stages, one folder each: request.py (what can be asked), run.py (does it), view.py (what a person sees)."""
