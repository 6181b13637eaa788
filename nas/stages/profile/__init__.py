"""The stage `profile`: measures a device for a space, and checks predictions."""
