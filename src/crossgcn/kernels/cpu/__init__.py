"""Loops of sampling, compiled by Numba for the CPU."""
