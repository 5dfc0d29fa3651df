"""Tables, figures and the report page, from records and published numbers alone: no TensorFlow here.

`specs` say what a table is, `cells` find its records, `table` puts both together; `views`, `compare`,
`significance`, `calibration` and `frontier` make grids of it, `render` prints them; `figures`, `page` draw.
"""
