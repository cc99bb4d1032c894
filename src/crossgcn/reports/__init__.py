"""Run records to tables. Nothing here computes a result anew."""
