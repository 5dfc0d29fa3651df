"""The report page in a real browser: `make test-browser`. Not part of `make test`: it needs Chromium.

Screenshots go to DGPBENCH_SCREENSHOTS (default: the test's own folder), to be looked at.
"""

import os
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from browser import Browser, missing

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "papers"))
sys.path.insert(0, str(ROOT / "tests" / "report"))

from report_units import record, write  # noqa: E402
from test_figures import letters_run  # noqa: E402

from dgpbench.cli import main  # noqa: E402

PHONE, TABLET, DESKTOP = (390, 844), (768, 1024), (1440, 900)
SIZES = pytest.mark.parametrize("size", [PHONE, TABLET, DESKTOP], ids=["phone", "tablet", "desktop"])
SCHEMES = pytest.mark.parametrize("scheme", ["light", "dark"])
LOADED = """return performance.getEntriesByType('resource').map(r => r.name)
  .filter(n => !n.startsWith('data:') && !n.endsWith('/runs/vega.js'))"""
DRAW_ALL = """for (const fold of document.querySelectorAll('details')) fold.open = true;
Promise.all([...document.querySelectorAll('.chart')].map((panel) => draw(panel)))
  .then(() => setTimeout(arguments[0], 100))"""
MISPLACED = """return [...document.querySelectorAll('.chart')].flatMap((panel) => {
  const card = panel.getBoundingClientRect(), name = panel.querySelector('figcaption').textContent;
  const found = [];
  if (card.left < 0 || card.right > document.documentElement.clientWidth + 0.5) found.push('card');
  if (!panel.querySelector('svg')) found.push('not drawn');
  for (const part of panel.querySelectorAll('svg, svg text')) {
    const box = part.getBoundingClientRect();
    const over = Math.max(card.left - box.left, box.right - card.right, box.bottom - card.bottom);
    if (box.width && over > 1) found.push(`${part.tagName} ${part.textContent.slice(0, 40)}: ${over} px`);
    if (part.tagName === 'text' && parseFloat(getComputedStyle(part).fontSize) < 10) found.push('small text');
  }
  const titles = panel.querySelectorAll('.role-axis-title text').length;
  if (titles < 2) found.push(`${titles} axis titles`);
  return found.map((text) => `${name}: ${text}`); })"""
HIDDEN_COLUMNS = """return [...document.querySelectorAll('table')].flatMap((table) => {
  if (!table.offsetWidth) return [];
  const box = table.closest('.scroll'), name = table.closest('[id]')?.id;
  if (!box || !['auto', 'scroll'].includes(getComputedStyle(box).overflowX)) return [`${name}: no scrolling`];
  const heads = [...table.tHead.rows[0].cells].filter((cell) => cell.offsetWidth), found = [];
  const view = box.getBoundingClientRect(), place = (cell) => cell.getBoundingClientRect();
  box.scrollLeft = 1e6;
  if (place(heads[heads.length - 1]).right > view.right + 1) found.push(`${name}: last column`);
  box.scrollLeft = 0;
  if (heads.length > 1 && view.right - place(heads[0]).right < 20) found.push(`${name}: first column only`);
  return found; })"""
IMAGES = """return [...document.querySelectorAll('.picture img')].filter(i => i.offsetWidth)
  .map(i => [i.className, i.naturalWidth])"""
CELLS = """return [...document.querySelectorAll('#t-S7 > figure > .scroll > table > tbody > tr')]
  .map(r => [r.cells[0].textContent, r.cells[1].textContent, r.cells[arguments[0]].dataset.value ?? null])"""
BARS = """return [...document.querySelectorAll('.chart .mark-rect path')]
  .map(r => r.getBoundingClientRect().height)"""
LUMINANCE = """
const parse = (c) => c.match(/[\\d.]+/g).slice(0, 3).map(Number).map((v) => {
  v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
const light = (c) => { const [r, g, b] = parse(c); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const paper = getComputedStyle(document.body).backgroundColor;
return [...document.querySelectorAll(arguments[0])].slice(0, 50).map((element) => {
  const [a, b] = [light(getComputedStyle(element).color), light(paper)];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); });
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    """A report with runs done, a failed one, an own folder and draws."""
    folder = tmp_path_factory.mktemp("report")
    results = folder / "results"
    values = {"boston": -2.5, "concrete": -3.1, "energy": -0.7, "kin8nm": 1.2, "power": -2.75}
    for i, (name, shift) in enumerate((("linear", -0.4), ("sgp", 0.0), ("dgp2", 0.2))):
        for dataset, value in values.items():
            for split in range(3):
                noise = 0.05 * ((7 * i + 3 * split + len(dataset)) % 5 - 2)
                made = record(
                    f"dsvi2017_{name}",
                    dataset,
                    split,
                    {"test_loglik": value + shift + noise, "test_rmse": 1.0},
                    training={"seconds": 10.0 + 30 * i},
                    details={"pit_histogram": [0.1] * 10},
                )
                write(results, made)
    write(
        results,
        record("dsvi2017_dgp2", "boston", 3, status="diverged", reason="not finite: bound <at> step 812"),
    )
    letters_run(results)
    assert main(["report", "--results", str(results), "-o", str(folder / "out")]) == 0
    return folder / "out" / "index.html"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if reason := missing():
        pytest.skip(reason)
    found = Browser(tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def shots(tmp_path_factory) -> Path:
    given = os.environ.get("DGPBENCH_SCREENSHOTS")
    folder = Path(given) if given else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    print(f"screenshots in {folder}")
    return folder


def draw_all(browser) -> None:
    """Open every fold and draw every chart."""
    browser.post("/execute/async", script=DRAW_ALL, args=[])


@SCHEMES
@SIZES
def test_it_fits_reads_and_loads_nothing(page, browser, shots, size, scheme):
    browser.open(page, *size, scheme)
    draw_all(browser)
    assert browser.run("return document.title") == "dgpbench report"
    assert browser.run("return document.documentElement.scrollWidth") <= size[0]
    assert browser.run(LOADED) == []
    background = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")
    for selector in ("h1", "tbody tr.ours td", "tbody tr.published td", ".notes li", "td small", "nav a"):
        assert min(browser.run(LUMINANCE, selector)) >= 4.5, (selector, scheme)
    images = browser.run(IMAGES)
    assert images and all(name == f"only-{scheme}" and width > 300 for name, width in images)
    assert browser.run(MISPLACED) == [] and browser.run(HIDDEN_COLUMNS) == []
    assert browser.complaints() == []
    browser.screenshot(shots / f"report-{size[0]}-{scheme}.png", whole=True)


@SIZES
def test_the_score_is_seen_without_scrolling(page, browser, size):
    browser.open(page, *size, "light")
    for table in ("#board table", "#run-list"):
        box = browser.run(
            "const table = document.querySelector(arguments[0]);"
            "const row = [...table.tBodies[0].rows].find(r => !r.hidden);"
            "const cell = [...row.cells].find(c => c.offsetWidth && c.dataset.value);"
            "const b = cell.getBoundingClientRect(), s = table.closest('.scroll').getBoundingClientRect();"
            "return [b.left - s.left, s.right - b.right]",
            table,
        )
        assert min(box) >= -1, table


def test_panels_answer_to_the_mouse_and_follow_the_theme(page, browser):
    browser.open(page, *DESKTOP, "light")
    draw_all(browser)
    mark = browser.find("#test_loglik-models .chart .mark-symbol path")
    browser.scroll_to(mark)
    browser.hover(mark)
    tip = browser.run("return document.querySelector('.tip:not([hidden])')?.innerText")
    assert "average rank" in tip and "model: " in tip
    fill = "return document.querySelector('#test_loglik-models .mark-symbol path').getAttribute('fill')"
    light = browser.run(fill)
    browser.run("window.scrollTo(0, 0)")
    browser.click(browser.find("#theme"))
    browser.post("/execute/async", script="setTimeout(arguments[0], 1500)", args=[])
    assert browser.run(fill) != light


def test_models_have_their_own_colours_and_marks(page, browser):
    browser.open(page, *DESKTOP, "light")
    draw_all(browser)
    drawn = browser.run(
        "return [...document.querySelectorAll('#test_loglik-models .chart:first-child .mark-symbol path')]"
        ".map(p => [p.getAttribute('fill'), p.getAttribute('d')])"
    )
    assert len(drawn) == 3 and len({fill for fill, _ in drawn}) == 3 and len({d for _, d in drawn}) == 3
    legend = browser.run(
        "return [...document.querySelectorAll('#test_loglik-seconds .legend svg path')]"
        ".map(p => getComputedStyle(p).fill)"
    )
    assert len(set(legend)) == len(legend) == 3


def test_the_scripts_of_the_page_are_the_only_ones(page, browser):
    browser.open(page, *DESKTOP, "light")
    browser.run(
        "const script = document.createElement('script'); script.textContent = 'window.bad = 1';"
        "document.body.append(script)"
    )
    assert browser.run("return window.bad ?? null") is None
    browser.complaints()  # of what was refused


def column(browser, index):
    return browser.run(CELLS, index)


def test_sorting_keeps_pairs_together(page, browser):
    browser.open(page, *DESKTOP, "light")
    before = column(browser, 3)
    assert [row[:2] for row in before[:2]] == [["boston", "ours"], ["", "published"]]
    button = browser.find("#t-S7 > figure > .scroll > table > thead th:nth-child(4) button")  # SGP
    browser.click(button)
    after = column(browser, 3)
    values = [float(row[2]) for row in after if row[0]]
    assert values == sorted(values, reverse=True) and sorted(map(str, after)) == sorted(map(str, before))
    first = next(i for i, row in enumerate(after) if row[0] == "boston")
    assert after[first + 1] == before[1]
    browser.click(button)
    assert [float(row[2]) for row in column(browser, 3) if row[0]] == sorted(values)
    browser.click(button)
    assert column(browser, 3) == before


def test_details_of_a_failed_cell_and_its_records(page, browser, shots):
    browser.open(page, *DESKTOP, "light")
    cell = browser.find("#t-S7 td.failed")
    browser.scroll_to(cell)
    panel = "const p = document.getElementById('detail'); return p.hidden ? null : p.innerText"
    assert browser.run(panel) is None
    browser.hover(cell)
    assert "split 3 diverged: not finite: bound <at> step 812" in browser.run(panel)
    browser.screenshot(shots / "desktop-detail.png")
    browser.click(cell)
    links = browser.run("return [...document.querySelectorAll('#detail a')].map(a => a.href)")
    assert len(links) == 4 and all(Path(unquote(urlsplit(link).path)).is_file() for link in links)
    browser.press("\ue00c")  # Escape
    assert browser.run(panel) is None
    browser.run("document.activeElement.blur(); arguments[0].focus()", cell)  # by keyboard as well
    assert "split 3 diverged" in browser.run(panel)


def test_detail_stays_on_a_phone_screen(page, browser, shots):
    browser.open(page, *PHONE, "dark")
    cell = browser.find("#t-S7 td.failed")
    browser.scroll_to(cell)
    browser.click(cell)
    box = browser.run(
        "const r = document.getElementById('detail').getBoundingClientRect(); return [r.left, r.right, r.top]"
    )
    assert box[0] >= 0 and box[1] <= PHONE[0] and box[2] >= 0
    browser.screenshot(shots / "phone-detail.png")


def test_the_button_turns_light_to_dark(page, browser):
    browser.open(page, *DESKTOP, "light")
    browser.click(browser.find("#theme"))
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(21, 25, 31)"
    assert {name for name, _ in browser.run(IMAGES)} == {"only-dark"}
    browser.click(browser.find("#theme"))
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


BOARD = """return [...document.querySelectorAll('#board tbody tr')].filter(r => !r.hidden)
  .map(r => [r.dataset.model, ...[...r.cells].slice(3).filter(c => !c.hidden).map(c =>
    [c.dataset.set, c.dataset.value ?? null, c.classList.contains('bold')])])"""
CHOOSE = """const c = document.querySelector(`#board [data-filter="${arguments[0]}"]`);
c.value = arguments[1]; c.dispatchEvent(new Event('input', {bubbles: true}))"""


def test_leaderboard_filters_and_marks_the_best(page, browser, shots):
    browser.open(page, *DESKTOP, "light")
    rows = {row[0]: {name: (value, bold) for name, value, bold in row[1:]} for row in browser.run(BOARD)}
    assert set(rows) == {"linear", "sgp", "dgp2"} and set(rows["sgp"]) == set(rows["dgp2"])
    best = [model for model, cells in rows.items() if cells["energy"][1]]
    assert "dgp2" in best and "linear" not in best
    browser.run(CHOOSE, "metric", "test_rmse")
    assert {cell[1] for row in browser.run(BOARD) for cell in row[1:] if cell[1]} == {"1"}
    browser.run(CHOOSE, "metric", "test_loglik")
    browser.run(CHOOSE, "dataset", "boston")
    assert [[cell[0] for cell in row[1:]] for row in browser.run(BOARD)] == [["boston"]] * 3
    browser.run(CHOOSE, "model", "sgp")
    assert [row[0] for row in browser.run(BOARD)] == ["sgp"]
    browser.screenshot(shots / "desktop-board-filtered.png")
    browser.run(CHOOSE, "search", "nothing like this")
    assert browser.run(BOARD) == []
    assert not browser.run("return document.getElementById('board-none').hidden")


def test_no_id_stands_twice(page, browser):
    browser.open(page, *DESKTOP, "light")
    ids = browser.run("return [...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids)) > 10


@SCHEMES
@SIZES
def test_page_of_a_run(page, browser, shots, size, scheme):
    browser.open(page, *size, scheme)
    link = browser.run("return document.querySelector('#run-list tbody a').getAttribute('href')")
    browser.open(page.parent / link, *size, scheme)
    draw_all(browser)
    assert browser.run(MISPLACED) == [] and browser.run(HIDDEN_COLUMNS) == []
    assert browser.run("return document.documentElement.scrollWidth") <= size[0]
    assert browser.run(LOADED) == [] and browser.complaints() == []
    text = browser.run("return document.querySelector('pre.command').innerText")
    assert text.startswith("dgpbench run dataset=") and "experiment=dsvi2017_" in text
    assert min(browser.run(BARS)) > 10  # of the PIT histogram: no empty panel
    browser.screenshot(shots / f"run-{size[0]}-{scheme}.png", whole=True)
    browser.click(browser.find("main a"))
    assert browser.run("return document.title") == "dgpbench report"


@SIZES
def test_page_of_a_comparison(page, browser, shots, size, tmp_path, capsys):
    words = [
        "compare",
        "experiment=dsvi2017_linear,dsvi2017_sgp,dsvi2017_dgp2",
        "dataset=boston,energy,power",
    ]
    assert main([*words, "--format", "html", "--results", str(page.parents[1] / "results")]) == 0
    file = tmp_path / "comparison.html"
    file.write_text(capsys.readouterr().out, encoding="utf-8")
    browser.open(file, *size, "light")
    assert browser.run("return document.documentElement.scrollWidth") <= size[0]
    assert browser.run(LOADED) == [] and browser.complaints() == []
    assert "Paired tests against dsvi2017_linear" in browser.run("return document.body.innerText")
    assert browser.run(HIDDEN_COLUMNS) == []
    browser.screenshot(shots / f"comparison-{size[0]}.png")
