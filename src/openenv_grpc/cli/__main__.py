"""`python -m openenv_grpc.cli`: the command where its script is not on the path."""

from openenv_grpc.cli.main import main

if __name__ == "__main__":
    main()
