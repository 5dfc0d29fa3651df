"""Hydra's view of the options that stand many to a file: a config source for paths `dgpbench://FOLDER`."""

from __future__ import annotations

import copy
from pathlib import Path

from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from omegaconf import OmegaConf

from dgpbench.config import expand
from dgpbench.config.tree import default_groups


class ManyToAFile(ConfigSource):
    """Serves group/name for every dataset and experiment in the catalogues and papers of one folder."""

    @staticmethod
    def scheme() -> str:
        return "dgpbench"

    def load_config(self, config_path: str) -> ConfigResult:
        group, _, name = config_path.removesuffix(".yaml").partition("/")
        found = self._options(group)
        if name not in found:
            raise ConfigLoadError(f"Config not found : {self.full_path()}/{config_path}")
        node = copy.deepcopy(expand.load(found[name], default_groups())[name].node)
        header = {"package": "_global_" if group == "experiment" else None}
        return ConfigResult(self.provider, self.full_path(), OmegaConf.create(node), header)

    def available(self) -> bool:
        return Path(self.path).is_dir()

    def is_group(self, config_path: str) -> bool:
        return bool(expand.files(config_path, Path(self.path)))

    def is_config(self, config_path: str) -> bool:
        group, _, name = config_path.removesuffix(".yaml").partition("/")
        return name in self._options(group)

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        found = [] if results_filter == ObjectType.GROUP else sorted(self._options(config_path))
        return found if config_path else [group for group in expand.FOLDERS if self.is_group(group)]

    def _options(self, group: str) -> dict[str, Path]:
        """Names and files of a group, which is read when it is asked for."""
        files = expand.files(group, Path(self.path))
        return {name: path for path in files for name in expand.names(path, default_groups())}


def search_path(folders: list[Path]) -> list[str]:
    """Addresses for hydra.searchpath: the many-to-a-file options of every folder, all else of those after the
    first, which Hydra knows already."""
    Plugins.instance().register(ManyToAFile)
    return [f"dgpbench://{folder}" for folder in folders] + [f"file://{folder}" for folder in folders[1:]]
