"""Domain types to protos and back."""
