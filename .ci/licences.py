"""Print the licence of every package that is installed beside dgpbench, as its own metadata state it."""

from __future__ import annotations

from importlib.metadata import Distribution, distributions


def licence(package: Distribution) -> str:
    """The licence expression, else the classifiers, else the first line of the licence field."""
    data = package.metadata
    if expression := data.get("License-Expression"):
        return expression
    names = [c.rpartition(" :: ")[2] for c in data.get_all("Classifier") or () if c.startswith("License ::")]
    return ", ".join(names) or (data.get("License") or "not stated").strip().splitlines()[0][:60]


def main() -> None:
    found = {package.metadata["Name"]: (package.version, licence(package)) for package in distributions()}
    width = max(map(len, found))
    for name in sorted(found, key=str.lower):
        version, text = found[name]
        print(f"{name:<{width}}  {version:<14}  {text}")


if __name__ == "__main__":
    main()
