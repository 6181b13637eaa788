"""The application: command line, costs, tasks, training runs, search, export and report."""
