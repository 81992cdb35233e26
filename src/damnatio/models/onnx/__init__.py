"""ONNX graphs as networks, in and out."""
