"""Hook of mkdocs: the notebooks of examples/ as pages of the site, with their stored outputs."""

from __future__ import annotations

import json
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]


def on_files(files, config):
    for path in sorted((ROOT / "examples").glob("*.ipynb")):
        content = page(json.loads(path.read_text(encoding="utf-8")), path.name)
        files.append(File.generated(config, f"examples/{path.stem}.md", content=content))
    return files


def page(notebook: dict, name: str) -> str:
    """Markdown of a notebook: its text, its code, and what the code printed or drew."""
    parts = []
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
        elif cell["cell_type"] == "code":
            parts.append(f"```python\n{text}\n```")
            parts += [found for output in cell["outputs"] if (found := shown(output))]
    return "\n\n".join([*parts, f"The notebook is `examples/{name}` in the repository."]) + "\n"


def shown(output: dict) -> str:
    """An output as Markdown: a picture, else its text."""
    data = output.get("data", {})
    if "image/png" in data:
        encoded = "".join(data["image/png"]).replace("\n", "")
        return f"![output](data:image/png;base64,{encoded})"
    text = "".join(data.get("text/plain", output.get("text", ""))).rstrip()
    return f"```text\n{text}\n```" if text else ""
