"""Model providers: the built-in embedder, model servers, and cross-encoders in ONNX files."""
