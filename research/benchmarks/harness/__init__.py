"""Shared parts of the benchmarks: peers, agreement checks, timing and records."""
