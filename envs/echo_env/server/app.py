"""Serves echo: `app` for `openenv-grpc serve` and ASGI servers, `main` for the script `server`."""

from __future__ import annotations

import argparse

from echo_env.models import EchoAction, EchoObservation
from echo_env.server.echo_environment import EchoEnvironment
from openenv_grpc import ConfigurationError, create_app, serve

# Tool calls are taken besides: every environment with tools takes them.
app = create_app(EchoEnvironment, EchoAction, EchoObservation, env_name="echo_env")


def main() -> None:
    """Serves until it is stopped."""
    parser = argparse.ArgumentParser(description="Serves the echo environment.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="of HTTP, WebSocket and MCP")
    parser.add_argument("--grpc-port", type=int, default=50051)
    parser.add_argument("--insecure", action="store_true", help="listen beyond this machine")
    arguments = parser.parse_args()
    try:
        serve(
            app,
            host=arguments.host,
            http_port=arguments.port,
            grpc_port=arguments.grpc_port,
            insecure=arguments.insecure,
            on_ready=lambda server: print(
                f"echo listens: grpc={server.grpc_address} http={server.http_address}", flush=True
            ),
        )
    except ConfigurationError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
