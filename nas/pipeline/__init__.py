"""`nas run`: all stages of one config, one after the other; finished stages are skipped."""
