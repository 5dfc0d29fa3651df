"""Execute the notebooks of examples/ and store their outputs: python .ci/notebooks.py [FOLDER]

Each runs in a new folder, so that nothing of it stays. With FOLDER, the executed notebooks are written there
and those of examples/ are left as they are.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def execute(path: Path) -> nbformat.NotebookNode:
    """The notebook with its outputs, run from top to bottom; raises CellExecutionError where a cell fails."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=300, resources={"metadata": {"path": folder}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times, which differ from run to run
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def main(folder: Path) -> None:
    os.environ["PYTHONPATH"] = os.pathsep.join([str(EXAMPLES.parent), os.environ.get("PYTHONPATH", "")])
    for path in sorted(EXAMPLES.glob("*.ipynb")):
        nbformat.write(execute(path), folder / path.name)
        print(folder / path.name)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else EXAMPLES)
