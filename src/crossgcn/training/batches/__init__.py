"""Training in mini-batches."""
