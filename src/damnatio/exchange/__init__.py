"""Models in other people's formats: ONNX graphs and PyTorch state dicts, in and out."""
