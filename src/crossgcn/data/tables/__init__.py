"""A user's own tables: one of nodes, one of edges, and a column to predict."""
