"""MCP proper: the eras before and since 2026-07-28, over HTTP and standard input and output."""
