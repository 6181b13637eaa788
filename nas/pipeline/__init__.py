"""`nas run`: all stages of one config, one after the other; what is done already is not done again."""
