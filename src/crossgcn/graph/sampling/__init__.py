"""Mini-batches: neighbour samplers, blocks and the graphs they are cut from."""
