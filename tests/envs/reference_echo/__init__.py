"""The echo environment as the reference has it, on the reference's classes."""
