"""Order aggregations: from the hidden vectors of the K orders to one vector."""
