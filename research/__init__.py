"""Measurements, their records and pages; needed by the project only and not part of the wheel."""
