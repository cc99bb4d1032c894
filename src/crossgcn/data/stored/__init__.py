"""Graph folders: arrays on disk that are mapped into memory instead of loaded."""
