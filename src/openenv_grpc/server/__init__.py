"""gRPC in: sessions served over gRPC."""

from openenv_grpc.server.grpc_server import SERVICES, GrpcServer

__all__ = ["SERVICES", "GrpcServer"]
