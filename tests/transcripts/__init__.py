"""The conversations of `proto/conformance`, and what replays them against a server."""
