"""The documentation site in a real browser, from the disk: `make docs`, then `make test-browser`.

Screenshots go to DGPBENCH_SCREENSHOTS (default: the test's own folder), to be looked at.
"""

import os
import time
from pathlib import Path

import pytest
from browser import ELEMENT, Browser, missing

SITE = Path(__file__).resolve().parents[2] / "site"
PAGES = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html") if path.name != "404.html")
LOADED = """return performance.getEntriesByType('resource').map(r => r.name)
  .filter(n => !n.startsWith('data:') && !n.startsWith('file:'))"""
BROKEN = "return [...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src.slice(0, 80))"
HIDDEN = """return [...document.querySelectorAll('article table')].filter((table) => {
  let box = table.parentElement;
  while (box && !['auto', 'scroll'].includes(getComputedStyle(box).overflowX)) box = box.parentElement;
  const own = ['auto', 'scroll'].includes(getComputedStyle(table).overflowX);
  return !own && !box && table.getBoundingClientRect().right > innerWidth; })
  .map((table) => table.innerText.slice(0, 60))"""
SPILLED = """return [...document.querySelectorAll('article img')].filter((image) => {
  const box = image.getBoundingClientRect(); return box.right > innerWidth + 0.5 || box.left < 0; })
  .map((image) => image.src.slice(-60))"""
CHECKS = {"loaded": LOADED, "broken": BROKEN, "hidden columns": HIDDEN, "wide plots": SPILLED}
WIDE = "return document.documentElement.scrollWidth"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if why := missing():
        pytest.skip(why)
    if not PAGES:
        pytest.skip("no site here: make docs")
    found = Browser(tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    folder = Path(os.environ.get("DGPBENCH_SCREENSHOTS") or tmp_path_factory.mktemp("pictures"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(390, 844), (768, 1024), (1440, 900)])
def test_every_page_fits_has_its_pictures_and_loads_nothing_from_elsewhere(browser, pictures, size, scheme):
    wrong = {}
    for name in PAGES:
        browser.open(SITE / name, *size, scheme)
        found = {check: browser.run(script) for check, script in CHECKS.items()}
        if (width := browser.run(WIDE)) > size[0]:
            found["width"] = width
        if any(found.values()):
            wrong[name] = found
        browser.screenshot(pictures / f"docs-{size[0]}-{scheme}-{name.replace('/', '-')}.png")
    assert not wrong


def test_search_works_from_the_disk(browser, pictures):
    browser.open(SITE / "index.html", 1280, 900, "light")
    box = browser.find("input.md-search__input")
    browser.run("arguments[0].focus()", box)
    browser.post(f"/element/{box[ELEMENT]}/value", text="critical difference")
    end = time.monotonic() + 30
    found = []
    while not found and time.monotonic() < end:
        time.sleep(0.3)
        found = browser.run(
            "return [...document.querySelectorAll('.md-search-result__link')].map(a => a.href)"
        )
    browser.screenshot(pictures / "docs-search.png")
    assert any("glossary" in link or "compare" in link for link in found)
