"""Tables that stay where they are: DuckDB files, folders of Parquet, tables of a Spark cluster."""
