"""Residuals: one file each, found by its declaration; see README.md."""
