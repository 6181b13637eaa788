"""The report of a run: one page that works offline, with pictures and tables."""
