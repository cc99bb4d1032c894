"""Timings of crossgcn beside what else there is."""
