"""Scripts that measure, search, and write pages from records."""
