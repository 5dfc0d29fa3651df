"""Models: what is believed about the data. They know nothing of datasets, metrics or records."""
