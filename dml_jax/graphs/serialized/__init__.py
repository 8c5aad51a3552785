"""The serialized form of a DirectML graph, which ONNX Runtime's DirectML provider writes and DxDispatch reads."""
