"""Terminal output: progress bars, tables, drawings of architectures."""
