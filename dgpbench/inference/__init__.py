"""Inference: the bounds that are maximised and the updates that maximise them."""
