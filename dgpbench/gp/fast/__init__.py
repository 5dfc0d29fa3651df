"""The fast forms of a layer's batch part. Private: gp/layer.py keeps their conditions."""
