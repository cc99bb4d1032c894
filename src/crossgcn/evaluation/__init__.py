"""What averages runs: repeats over splits, means and paired differences."""
