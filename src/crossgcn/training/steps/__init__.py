"""Training steps: what one epoch or batch computes."""
