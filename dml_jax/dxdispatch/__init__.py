"""DxDispatch model files: reading and checking one, and running it on whatever device JAX has."""
