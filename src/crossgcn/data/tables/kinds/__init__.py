"""The kinds of columns: how each is detected, encoded, saved, and checked in new tables."""
