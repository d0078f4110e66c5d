"""The command `openenv-grpc`: one module a command."""
