"""Models, which ``catalogue`` lists and builds by name."""
