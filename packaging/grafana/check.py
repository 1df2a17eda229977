#!/usr/bin/env python3
"""Checks that every metric of the dashboards and alerts is in a scrape of /metrics.

    curl -s localhost:8379/metrics > store.txt
    curl -s localhost:8380/metrics > cache.txt
    packaging/grafana/check.py store.txt cache.txt

Give one scrape of a store and one of a cache with a flash device: without a
device the metrics of devices are not shown. Exits with 1 if a name is missing.
Metrics that do not begin with `tidekv_` come from other exporters and are not
checked. Where promtool is installed, it also checks the syntax of the dashboards'
expressions.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
# Not the names of recorded rules, which have colons.
NAME = re.compile(r"(?<![:\w])tidekv_[a-z0-9_]+(?![:\w])")


def expressions():
    """All expressions, as (where, expression)."""
    for path in sorted(HERE.glob("*.json")):
        content = json.loads(path.read_text())
        for panel in content["panels"]:
            for target in panel.get("targets", []):
                yield f"{path.name}: {panel['title']}", target["expr"]
        for variable in content["templating"]["list"]:
            query = variable["query"]
            yield f"{path.name}: variable {variable['name']}", query if isinstance(query, str) else query["query"]
    alerts = HERE.parent / "prometheus" / "alerts.yml"
    for number, line in enumerate(alerts.read_text().splitlines(), 1):
        if not line.lstrip().startswith("#"):
            yield f"{alerts.name}:{number}", line


def names_in(scrapes):
    """The names of all series in the scrapes."""
    names = set()
    for scrape in scrapes:
        for line in Path(scrape).read_text().splitlines():
            found = re.match(r"[a-zA-Z_:][a-zA-Z0-9_:]*", line)
            if found:
                names.add(found.group())
    return names


def accepted_by_promtool():
    """Whether promtool reads all expressions of the dashboards; true where it is missing."""
    promtool = shutil.which("promtool")
    if promtool is None:
        print("promtool is not here: the syntax of the expressions was not checked")
        return True
    rules = [
        {"record": "checked", "expr": expression.replace("$__rate_interval", "1m")}
        for where, expression in expressions()
        if ".json" in where and "variable" not in where
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        # JSON is YAML. One group for each rule, so that equal names are no duplicates.
        groups = [{"name": str(at), "rules": [rule]} for at, rule in enumerate(rules)]
        json.dump({"groups": groups}, file)
        file.flush()
        done = subprocess.run([promtool, "check", "rules", "--lint=none", file.name], capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stdout + done.stderr)
    return done.returncode == 0


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    known, missing, used = names_in(sys.argv[1:]), {}, set()
    for where, expression in expressions():
        for name in NAME.findall(expression):
            used.add(name)
            if name not in known:
                missing.setdefault(name, []).append(where)
    for name, places in sorted(missing.items()):
        print(f"{name} is in no scrape; used in {'; '.join(dict.fromkeys(places))}")
    print(f"{len(used)} metrics used, {len(used) - len(missing)} found")
    ok = accepted_by_promtool()
    sys.exit(1 if missing or not used or not ok else 0)


if __name__ == "__main__":
    main()
