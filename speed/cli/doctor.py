"""``speed doctor``: examine a root and this machine, and say what to do."""

from __future__ import annotations

from dataclasses import asdict

import click

from speed.cli.options import Settings, common_options
from speed.cli.output import print_rows, print_value


@click.command("doctor")
@common_options
def doctor_command(settings: Settings) -> int:
    """Examine filesystem, bells, permissions, clock, inotify limits, registry and leftovers.

    Ends with status 8 when nodes cannot write or read here, with 1 when something else is broken; warnings alone do
    not fail.
    """
    from speed.cli.checks import examine

    findings = examine(settings)
    broken = any(finding.state == "broken" for finding in findings)
    if settings.as_json:
        print_value({"healthy": not broken, "findings": [asdict(finding) for finding in findings]}, True)
    else:
        rows = [(one.state, one.check, one.found, one.todo) for one in findings]
        print_rows(("", "check", "found", "what to do"), rows, title=settings.root)
    return 8 if any(finding.code for finding in findings) else int(broken)
