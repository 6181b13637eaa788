"""Generate, classify and translate with a subnet."""
