"""Timings of crossgcn beside what else there is: see README.md in this folder.

The benchmarks import the package by its public names, except for ``benchmarks/ours.py``, which
times single training steps and so needs names from inside.
"""
