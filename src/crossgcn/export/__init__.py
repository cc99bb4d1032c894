"""Scores where the data lives: a trained model as one SQL query, or as an ONNX graph."""
