"""Measures this project beside the reference, in one run. Linux only: it reads /proc."""
