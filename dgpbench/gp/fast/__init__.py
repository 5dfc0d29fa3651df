"""The fast forms of a layer's batch part. Private: reached through gp/layer.py, which keeps their conditions."""
