"""Public paths of the search; the stage is `nas.stages.search`."""
