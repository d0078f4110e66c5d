"""What runs in the server."""
