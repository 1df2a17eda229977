#!/usr/bin/env python3
"""Makes the Grafana dashboards tidekv.json and tidekv-cache.json.

    packaging/grafana/make.py            writes both files beside this script
    packaging/grafana/make.py --check    exits with 1 if they are not up to date

Each dashboard is one flat table of rows (title, expression, unit, description).
Rows with the same title are one panel. A row with only a title opens a section.
The label that tells the lines of an expression apart is its legend. In an
expression $job and $instance are the dashboard's variables, written as {...}
for a metric without other labels: `{}` becomes `{job="$job",instance=~"$instance"}`.
"""

import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent


def rate(metric, labels=""):
    return f"rate({metric}{{{labels}}}[$__rate_interval])"


def summed(metric, by="", labels=""):
    return f"sum by ({by}) ({rate(metric, labels)})" if by else f"sum({rate(metric, labels)})"


def quantile(q, histogram, by=""):
    labels = f"le, {by}" if by else "le"
    buckets = rate(f"{histogram}_bucket")
    return f"histogram_quantile({q}, sum by ({labels}) ({buckets}))"


def quantiles(title, histogram, by, description):
    """The rows of a panel that shows p50, p99 and p99.9 of a histogram."""
    rows = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)]
    return [
        (title, quantile(q, histogram, by), "s", description, f"{name} {{{{{by}}}}}" if by else name)
        for name, q in rows
    ]


def share(part, whole, match=""):
    """A ratio that is empty, and not NaN, when nothing happens. `match` says how lines of both
    sides find each other."""
    return f"{part} / {match} ({whole} > 0)" if match else f"{part} / ({whole} > 0)"


OF_ALL = "on () group_left ()"


HITS = summed("tidekv_keyspace_hits_total")
KEYS = f"({HITS} + {summed('tidekv_keyspace_misses_total')})"
BLOCK_HITS = summed("tidekv_block_cache_hits_total", "kind")
BLOCKS = f"({BLOCK_HITS} + {summed('tidekv_block_cache_misses_total', 'kind')})"
POINT_HITS = summed("tidekv_point_cache_hits_total", "cache")
POINTS = f"({summed('tidekv_point_cache_hits_total')} + {summed('tidekv_point_cache_misses_total')})"
COMPACTION_WRITTEN = summed("tidekv_compaction_bytes_total", labels='direction="write"')
WRITTEN = f"({summed('tidekv_wal_bytes_total')} + {summed('tidekv_flush_bytes_total')} + {COMPACTION_WRITTEN})"

STORE = [
    # title, expression, unit, description, legend (optional)
    ("Overview",),
    ("Up for", "time() - max(tidekv_start_time_seconds{})", "s", "Time since the start of the server."),
    ("Commands", summed("tidekv_commands_total"), "ops", "Commands received from clients."),
    ("Connections", "sum(tidekv_connected_clients{})", "short", "Client connections open now."),
    ("Key hit ratio", share(HITS, KEYS), "percentunit", "Of the keys that commands read, the share that exists."),
    ("Stored", "sum(tidekv_level_bytes{})", "bytes", "Bytes of all tables of the tree."),
    ("Write stalls", summed("tidekv_write_stall_seconds_total"), "percentunit", "Share of the time in which writers waited for flushes or compactions. Sustained values above 5 % mean that the disk does not keep up."),
    ("Requests",),
    ("Commands by second", summed("tidekv_commands_total"), "ops", "All commands, those answered from memory without waiting, and those answered with an error.", "all"),
    ("Commands by second", summed("tidekv_commands_from_memory_total"), "ops", "", "from memory"),
    ("Commands by second", summed("tidekv_commands_failed_total"), "ops", "", "failed"),
    *quantiles("Command latency", "tidekv_command_duration_seconds", "kind", "From a whole command to its reply. Commands of one pipeline are measured together; one that writes makes all of them writes."),
    ("Network", summed("tidekv_network_bytes_total", "direction"), "Bps", "Bytes from clients (in) and to clients (out)."),
    ("Connections by second", summed("tidekv_connections_total"), "ops", "Connections accepted, and rejected because of the connection limit.", "accepted"),
    ("Connections by second", summed("tidekv_connections_rejected_total"), "ops", "", "rejected"),
    ("Caches",),
    ("Cache memory", "sum by (cache) (tidekv_caches_bytes{})", "bytes", "Memory of values (kv), pointers (kp) and blocks. Under the policy `adaptive` the targets move to where memory saves the most reads."),
    ("Cache targets", "sum by (cache) (tidekv_caches_target_bytes{})", "bytes", "Memory target of each cache."),
    ("Reads saved", summed("tidekv_caches_saved_reads_total", "cache"), "ops", "Storage reads saved by cache hits."),
    ("Reads saved by one more window", summed("tidekv_caches_ghost_saved_reads_total", "cache"), "ops", "Storage reads that each cache would also have saved with one more ghost window of memory. The adaptive policy moves memory until the caches are equal per byte."),
    ("Point cache hit ratio", share(POINT_HITS, POINTS, OF_ALL), "percentunit", "Of the lookups in the point cache, the share that a value (kv) or a pointer (kp) answered."),
    ("Block cache hit ratio", share(BLOCK_HITS, BLOCKS), "percentunit", "Of the block accesses, the share found in memory, by kind of block."),
    ("Block evictions", summed("tidekv_block_cache_evictions_total", "kind"), "ops", "Blocks evicted from the block cache."),
    ("Memory of the store", "sum by (part) (tidekv_memory_bytes{})", "bytes", "Memory by part, and the budget (--memory)."),
    ("Memory of the store", "sum(tidekv_memory_budget_bytes{})", "bytes", "", "budget"),
    ("Storage",),
    ("Storage reads", summed("tidekv_storage_reads_total"), "ops", "Reads of storage by operations; one run of adjacent blocks is one read.", "reads"),
    ("Storage read bytes", summed("tidekv_storage_read_bytes_total"), "Bps", "Bytes of these reads.", "bytes"),
    ("Reads per command", share(summed("tidekv_storage_reads_total"), summed("tidekv_commands_total")), "short", "Storage reads for each command. This is the number that the caches lower.", "reads"),
    ("Reads per cold lookup", share(summed("tidekv_cold_lookup_reads_total"), summed("tidekv_cold_lookups_total")), "short", "Blocks read by lookups that reach storage, for each lookup.", "reads"),
    ("Filter false positives", summed("tidekv_filter_false_positives_total"), "ops", "Lookups that passed a filter of a table without the key.", "false positives"),
    ("Tables by level", "sum by (level) (tidekv_level_tables{})", "short", "Tables of each level of the tree."),
    ("Bytes by level", "sum by (level) (tidekv_level_bytes{})", "bytes", "Bytes of each level of the tree."),
    ("Read failures", summed("tidekv_storage_read_failures_total"), "ops", "Reads of storage that failed.", "failures"),
    ("Writes and background work",),
    ("Writes", summed("tidekv_writes_total"), "ops", "Entries written or deleted, and commits (writers at the same time share one).", "entries"),
    ("Writes", summed("tidekv_write_groups_total"), "ops", "", "commits"),
    *quantiles("Commit latency", "tidekv_commit_duration_seconds", "", "Duration of commits that waited in the write queue (sampled)."),
    ("Write stall share", summed("tidekv_write_stall_seconds_total"), "percentunit", "Share of the time in which writers waited.", "stalled"),
    ("Write amplification", share(WRITTEN, summed("tidekv_write_bytes_total")), "short", "Bytes written to the log, by flushes and by compactions, for each byte of keys and values written.", "bytes per byte"),
    ("Write-ahead log", summed("tidekv_wal_bytes_total"), "Bps", "Bytes written to the write-ahead log.", "bytes"),
    ("Write-ahead log syncs", summed("tidekv_wal_syncs_total"), "ops", "Syncs of the write-ahead log to stable storage.", "syncs"),
    ("Background jobs", summed("tidekv_background_jobs_total", "job"), "ops", "Flushes and compactions done."),
    *quantiles("Background job duration", "tidekv_background_duration_seconds", "job", "Duration of flushes and compactions."),
    ("Flush and compaction bytes", summed("tidekv_flush_bytes_total"), "Bps", "Bytes written by flushes; bytes read and written by compactions.", "flush write"),
    ("Flush and compaction bytes", summed("tidekv_compaction_bytes_total", "direction"), "Bps", "", "compaction {{direction}}"),
    ("Background errors", "sum(increase(tidekv_background_errors_total{}[$__rate_interval]))", "short", "Flushes and compactions that failed.", "errors"),
]

GETS = summed("tidekv_cache_gets_total")
GET_HITS = summed("tidekv_cache_gets_total", labels='outcome="hit"')
LOOKUPS = f"({summed('tidekv_cache_hits_total')} + {summed('tidekv_cache_misses_total')})"
DEVICE_WRITTEN = " + ".join(
    summed(f"tidekv_cache_device_{part}_bytes_written_total", "device")
    for part in ["segment", "page", "metadata"]
)

CACHE = [
    # title, expression, unit, description, legend (optional)
    ("Overview",),
    ("Up for", "time() - max(tidekv_cache_start_time_seconds{})", "s", "Time since the start of the server."),
    ("Requests", summed("tidekv_cache_requests_total"), "ops", "Requests received from clients."),
    ("Connections", "sum(tidekv_cache_connected_clients{})", "short", "Client connections open now."),
    ("Hit ratio of gets", share(GET_HITS, GETS), "percentunit", "Of the keys that gets read, the share found."),
    ("Objects in DRAM", "sum(tidekv_cache_dram_objects{})", "short", "Objects in DRAM."),
    ("Devices out", "sum(tidekv_cache_device_state{} == bool 3)", "short", "Flash devices that are out of service. Their keys go to the other devices."),
    ("Requests",),
    ("Requests by second", summed("tidekv_cache_requests_total"), "ops", "All requests, and those that ran on an I/O thread.", "all"),
    ("Requests by second", summed("tidekv_cache_requests_offloaded_total"), "ops", "", "on an I/O thread"),
    *quantiles("Request latency", "tidekv_cache_request_duration_seconds", "", "From whole requests to their replies; requests that arrive together are measured together."),
    ("Gets", summed("tidekv_cache_gets_total", "outcome"), "ops", "Keys of gets, by outcome."),
    ("Sets and deletes", summed("tidekv_cache_sets_total"), "ops", "Sets, deletes, and sets rejected because the value was too large or found no memory.", "sets"),
    ("Sets and deletes", summed("tidekv_cache_deletes_total"), "ops", "", "deletes"),
    ("Sets and deletes", summed("tidekv_cache_sets_rejected_total", "reason"), "ops", "", "rejected: {{reason}}"),
    ("Network", summed("tidekv_cache_network_bytes_total", "direction"), "Bps", "Bytes from clients (in) and to clients (out)."),
    ("Connections by second", summed("tidekv_cache_connections_total"), "ops", "Connections accepted, rejected because of the connection limit, and closed by the idle timeout.", "accepted"),
    ("Connections by second", summed("tidekv_cache_connections_rejected_total"), "ops", "", "rejected"),
    ("Connections by second", summed("tidekv_cache_connections_idle_closed_total"), "ops", "", "idle timeout"),
    ("Cache",),
    ("Hit ratio by tier", share(summed("tidekv_cache_hits_total", "tier"), LOOKUPS, OF_ALL), "percentunit", "Of all lookups, the share found in DRAM and on flash."),
    ("Misses", summed("tidekv_cache_misses_total"), "ops", "Lookups that found no object.", "misses"),
    ("DRAM", "sum(tidekv_cache_dram_bytes{})", "bytes", "DRAM that objects take, and the budget (--dram).", "used"),
    ("DRAM", "sum(tidekv_cache_dram_budget_bytes{})", "bytes", "", "budget"),
    ("Evictions", summed("tidekv_cache_evictions_total"), "ops", "Objects evicted from DRAM, those of them never read, and objects found expired.", "evicted"),
    ("Evictions", summed("tidekv_cache_evictions_unfetched_total"), "ops", "", "evicted, never read"),
    ("Evictions", summed("tidekv_cache_expired_total"), "ops", "", "expired"),
    ("Flash",),
    ("State", "max by (device) (tidekv_cache_device_state{})", "short", "0: in service; 1: suspect; 2: warming; 3: out."),
    ("Objects on flash", "sum by (device) (tidekv_cache_device_objects{})", "short", "Objects on the device, estimated: some have been replaced since."),
    *quantiles("Read latency", "tidekv_cache_device_read_duration_seconds", "device", "Duration of lookups that read the device once or twice and did not fail."),
    ("Device hit ratio", share(summed("tidekv_cache_device_hits_total", "device"), f"({summed('tidekv_cache_device_hits_total', 'device')} + {summed('tidekv_cache_device_misses_total', 'device')})"), "percentunit", "Of the lookups that reached the device, the share that found a record."),
    ("Device reads", summed("tidekv_cache_device_object_reads_total", "device"), "ops", "Records and index pages read.", "records {{device}}"),
    ("Device reads", summed("tidekv_cache_device_index_reads_total", "device"), "ops", "", "index pages {{device}}"),
    ("Device bytes", summed("tidekv_cache_device_read_bytes_total", "device"), "Bps", "Bytes read from and written to the device.", "read {{device}}"),
    ("Device bytes", DEVICE_WRITTEN, "Bps", "", "written {{device}}"),
    ("Flash write amplification", share(f"({DEVICE_WRITTEN})", summed("tidekv_cache_device_object_bytes_written_total", "device")), "short", "Bytes written to the device for each byte of keys and values."),
    ("Objects not written", summed("tidekv_cache_device_bypassed_total", "device"), "ops", "Objects not written to flash: no write buffer was free, the write budget was used up, or the object was too large.", "no buffer {{device}}"),
    ("Objects not written", summed("tidekv_cache_device_over_budget_total", "device"), "ops", "", "over budget {{device}}"),
    ("Objects not written", summed("tidekv_cache_device_too_large_total", "device"), "ops", "", "too large {{device}}"),
    ("Device errors", "sum by (device) (increase(tidekv_cache_device_errors_total{}[$__rate_interval]))", "short", "Operations that the device failed, and damaged records and pages.", "errors {{device}}"),
    ("Device errors", "sum by (device) (increase(tidekv_cache_device_damaged_total{}[$__rate_interval]))", "short", "", "damaged {{device}}"),
    ("DRAM for the device", "sum by (device) (tidekv_cache_device_dram_bytes{})", "bytes", "DRAM of the index and the write buffers of the device."),
]

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
SELECTOR = 'job="$job",instance=~"$instance"'


def selected(expression):
    """`expression` with the dashboard's variables in the braces of each metric."""
    with_labels = re.sub(r"\{(?=\w)", "{" + SELECTOR + ",", expression)
    return with_labels.replace("{}", "{" + SELECTOR + "}")


def legend_of(expression):
    """The labels by which the outer sum keeps lines apart, without `le`."""
    found = re.search(r"by \(([^)]*)\)", expression)
    labels = [label for label in re.split(r",\s*", found.group(1)) if label != "le"] if found else []
    return " ".join(f"{{{{{label}}}}}" for label in labels) or "__auto"


def panels_of(rows):
    """The panels of a table; those of the first section are single numbers."""
    panels, section, x, y, by_title = [], 0, 0, 0, {}

    def place(panel, w, h):
        nonlocal x, y
        if x + w > 24:
            x, y = 0, y + h
        panel |= {"id": len(panels) + 1, "gridPos": {"x": x, "y": y, "w": w, "h": h}}
        x += w
        panels.append(panel)

    for row in rows:
        title = row[0]
        if len(row) == 1:
            if x > 0:
                y += 4 if section == 1 else 8
            section, x, by_title = section + 1, 0, {}
            place({"type": "row", "title": title, "collapsed": False, "panels": []}, 24, 1)
            x, y = 0, y + 1
            continue
        expression, unit, description = row[1:4]
        legend = row[4] if len(row) > 4 else legend_of(expression)
        panel = by_title.get(title)
        if panel is None:
            panel = panel_of(title, unit, description, single=section == 1)
            by_title[title] = panel
            place(panel, *((4, 4) if section == 1 else (12, 8)))
        panel["targets"].append({
            "datasource": DATASOURCE,
            "expr": selected(expression),
            "legendFormat": legend,
            "refId": chr(ord("A") + len(panel["targets"])),
        })
    return panels


def panel_of(title, unit, description, single):
    panel = {
        "type": "stat" if single else "timeseries",
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
        "targets": [],
    }
    if unit == "percentunit":
        panel["fieldConfig"]["defaults"]["min"] = 0
    if single:
        panel["options"] = {"reduceOptions": {"calcs": ["lastNotNull"]}, "graphMode": "area"}
    else:
        panel["fieldConfig"]["defaults"]["custom"] = {"fillOpacity": 10, "showPoints": "never"}
        panel["options"] = {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    return panel


def variable(name, label, query, multiple):
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": multiple,
        "includeAll": multiple,
    }


def dashboard(uid, title, info, rows):
    datasource = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    return {
        "uid": uid,
        "title": title,
        "tags": ["tidekv"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                datasource,
                variable("job", "Job", f"label_values({info}, job)", False),
                variable("instance", "Instance", f'label_values({info}{{job="$job"}}, instance)', True),
            ]
        },
        "panels": panels_of(rows),
    }


DASHBOARDS = {
    "tidekv.json": dashboard("tidekv", "TideKV", "tidekv_info", STORE),
    "tidekv-cache.json": dashboard("tidekv-cache", "TideKV cache", "tidekv_cache_info", CACHE),
}


def main():
    stale = []
    for name, content in DASHBOARDS.items():
        path, text = HERE / name, json.dumps(content, indent=2) + "\n"
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(name)
    if stale:
        sys.exit(f"not up to date: {', '.join(stale)}; run packaging/grafana/make.py")


if __name__ == "__main__":
    main()
