"""The HTML page of a run: collected as one JSON object, drawn by one script."""
