"""Hashes of the data that planned units run on, each looked up once."""

from __future__ import annotations

from collections.abc import Callable

from dgpbench.errors import UserError

UNKNOWN_HASH = "0" * 64
Note = Callable[[str], None]


class Hashes:
    """Hashes of the data of configs, read from the cache, or of fetched files.

    With `skip`, data that are not available are remembered with the reason, and their runs keep the hash of
    the catalogue, if it has one: the rest of a long queue continues.
    """

    def __init__(self, fetch: bool, note: Note, skip: bool = False):
        self.fetch, self.note, self.skip = fetch, note, skip
        self._found: dict[str, tuple[str, str | None]] = {}
        self._said: set[str] = set()

    def of(self, cfg: dict) -> str:
        """The hash of a config's data."""
        return self._look(cfg)[0]

    def lacking(self, cfg: dict) -> str | None:
        """The reason why a config's data is not available, or None."""
        return self._look(cfg)[1]

    def _look(self, cfg: dict) -> tuple[str, str | None]:
        from dgpbench.data.cache import key_of

        key = key_of([cfg["dataset"], cfg["protocol"]["split_rule"], cfg["protocol"]["row_number"]])
        if key not in self._found:
            self._found[key] = self._search(cfg)
        return self._found[key]

    def _search(self, cfg: dict) -> tuple[str, str | None]:
        from dgpbench.data.cache import check_cache, load_data, load_recipe
        from dgpbench.data.catalogue import entry_from_config
        from dgpbench.data.loader import recipe_for

        expected = None
        try:
            entry = entry_from_config(cfg["dataset"])
            if entry.on_demand:
                return load_data(entry, cfg["paths"]).data_hash, None
            recipe = recipe_for(entry, cfg["paths"], cfg["protocol"])
            expected = recipe.expect.get("data_sha256")
            meta, _ = check_cache(recipe)
            if meta is not None:
                return meta["data_hash"], None
            if not self.fetch and entry.kind in ("file", "images"):
                if not expected:
                    self._say(f"{entry.name} is not fetched yet: whether its units are done cannot be known")
                return expected or UNKNOWN_HASH, None
            return load_recipe(recipe, entry.name, self.note).data_hash, None
        except UserError as error:
            if self.skip:
                return expected or UNKNOWN_HASH, str(error)
            if not expected:
                raise
            self._say(f"{entry.name}: {error}; its units will be recorded as failed unless the data turn up")
            return expected, None

    def _say(self, text: str) -> None:
        """Note a text once, also where several configs take different rows of one dataset."""
        if text not in self._said:
            self._said.add(text)
            self.note(text)
