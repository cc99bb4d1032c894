"""What the benchmark scripts share: peers, checks that both sides agree, timing, records."""
