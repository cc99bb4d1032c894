"""Measurements of options beyond the paper, and the page that reports them."""
