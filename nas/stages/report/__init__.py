"""The report of a run: what is in its folder, as one page that needs no network, pictures and tables."""
