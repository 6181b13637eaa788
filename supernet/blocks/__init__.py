"""Block kinds: one file each. The folder is scanned; adding a file adds a kind."""
