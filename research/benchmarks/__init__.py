"""Benchmarks: one module each, run by ``crossgcn bench`` or by itself."""
