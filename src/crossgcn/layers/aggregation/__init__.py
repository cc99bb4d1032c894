"""Aggregations of neighbours; :data:`~crossgcn.layers.catalogue.AGGREGATIONS` names them."""
