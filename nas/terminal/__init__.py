"""What is shown in a terminal: progress bars, tables, drawings of architectures."""
