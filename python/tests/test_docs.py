"""The programs of the documents run, one after another, on the host device."""

import os
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", ["python.md", "python-recipes.md"])
def test_the_programs_of_a_document_run(name, tmp_path, monkeypatch):
    if not DOCS.exists():
        pytest.skip("the documents are not in the wheel")
    if name == "python-recipes.md":
        pytest.importorskip("dask")
    monkeypatch.chdir(tmp_path)
    programs = re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(), re.DOTALL)
    assert programs
    known = {}
    for program in programs:
        exec(compile(program, f"{name}", "exec"), known)
    assert os.listdir(tmp_path)
