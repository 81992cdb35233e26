"""ONNX graphs as networks: reading, training and writing."""
