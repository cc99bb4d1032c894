"""Training steps compiled for the CPU by Numba."""
