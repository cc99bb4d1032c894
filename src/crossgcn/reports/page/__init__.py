"""The HTML page of a run: its contents are one JSON object, which one script draws."""
