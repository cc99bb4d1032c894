"""What calls ``backward``: configuration, objective, loop, records, many runs."""
