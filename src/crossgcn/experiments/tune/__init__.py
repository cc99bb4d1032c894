"""The search for hyper-parameters."""
