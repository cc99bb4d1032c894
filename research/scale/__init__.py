"""A cost model of training steps and what it predicts for many GPUs."""
