"""Readers: files in, blocks of numbers out, in bounded memory, with errors that name line and column.

`formats` lists the readers of catalogued files by name; `text`, `archives`, `images`, `airline` are theirs;
`user_file` and `user_labels` read a file of the user's own.
"""
