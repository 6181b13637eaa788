"""Checks what is available on this machine."""
