"""The report of a run: one page that works offline, with plots and tables."""
