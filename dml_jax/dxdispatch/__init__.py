"""DxDispatch model files: reading, checking and running one on a device of JAX."""
