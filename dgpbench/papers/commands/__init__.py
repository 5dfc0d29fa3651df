"""What the papers add to dgpbench: commands, one module each, and a part of the report."""

COMMANDS = {
    "tables": (
        "dgpbench.papers.commands.tables",
        "the papers' tables from our records, beside the published numbers",
    ),
    "figures": ("dgpbench.papers.commands.figures", "the papers' figures from our records and draws"),
    "repro": ("dgpbench.papers.commands.repro", "go on with the runs of the papers' tables"),
}
REPORT = "dgpbench.papers.report_sections"
