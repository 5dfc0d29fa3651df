"""Tables, figures and the report page, from records and published numbers alone: no TensorFlow here."""
