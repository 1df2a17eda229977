// The page of a store: its headline, figures and texts. All numbers come from /api/stats;
// docs/reference/http.md explains their names.

import { drawCurves } from "/curves.js";
import { element, shape } from "/figures.js";
import { $, latency, rate, ring, share, told, watch } from "/live.js";
import { SPACE, bytes, number, percent } from "/words.js";

const MIB = 1 << 20;
const COMPONENTS = [
  { kind: "kv", name: "Values (KV)", plural: "values", what: "Values by key: a get that hits one reads nothing from storage." },
  { kind: "kp", name: "Pointers (KP)", plural: "pointers", what: "Locations of entries, a few bytes each: a get that hits one reads at most one block." },
  { kind: "block", name: "Blocks", plural: "blocks", what: "Parts of files as they are stored: good for scans and for neighbouring keys." },
];
const MEASURING = { kind: "measuring", name: "Measurement", what: "Ghost caches and sketches, which measure the reads that more memory would save." };

// ---- Figures ----

function perMiB(name, size, i) {
  const mib = (rate(size, i) ?? 0) / MIB;
  return mib > 0.03 ? (rate(name, i) ?? 0) / mib : null;
}

const perOperation = (i) => {
  const operations = rate("operations", i);
  return operations > 0 ? rate("reads", i) / operations : null;
};

const perColdLookup = (name, i) => {
  const lookups = rate("cold_lookups", i);
  return lookups > 0 ? rate(name, i) / lookups : null;
};

const layer = ({ kind, name }) => ({
  kind, name, format: bytes,
  value: (i) => ring().at(`${kind}_bytes_max`, i),
  filled: (i) => ring().at(`${kind}_bytes`, i),
});
const [values, pointers, blocks] = COMPONENTS;
const each = (value) => COMPONENTS.map(({ kind, name }) => ({ kind, name, value: (i) => value(kind, i) }));

const SPECS = {
  partition: {
    layers: true, isBytes: true, format: bytes,
    // From the bottom.
    series: [layer(blocks), layer(values), layer(pointers), {
      ...MEASURING, format: bytes,
      value: (i) => ring().at("ghost_bytes", i), filled: (i) => ring().at("ghost_bytes", i),
    }],
  },
  "per-operation": {
    format: number, least: 1, nothing: "no recent operations",
    series: [{ kind: "accent", name: "reads per operation", value: perOperation }],
  },
  next: {
    format: number, nothing: "not measured",
    series: each((kind, i) => perMiB(`${kind}_ghost_saved`, "ghost_window_bytes", i)),
  },
  saved: {
    format: number, nothing: "the caches are empty",
    series: each((kind, i) => perMiB(`${kind}_saved`, `${kind}_bytes`, i)),
  },
  hits: {
    format: percent, max: 1, nothing: "no recent lookups",
    series: [
      { kind: "kv", name: "Values", value: (i) => share(["kv_hits"], ["kp_hits", "point_misses"], i) },
      { kind: "kp", name: "Pointers (of value misses)", value: (i) => share(["kp_hits"], ["point_misses"], i) },
      { kind: "block", name: "Data blocks", value: (i) => share(["data_hits"], ["data_misses"], i) },
      { kind: "metadata", name: "Index and filter blocks", dashed: true, value: (i) => share(["metadata_hits"], ["metadata_misses"], i) },
    ],
  },
  filters: {
    format: number, least: 1,
    series: [
      { kind: "accent", name: "false positives per second", value: (i) => rate("false_positives", i) },
      { kind: "strong", name: "repairs per second", value: (i) => rate("repairs", i) },
      { kind: "soft", name: "storage reads for repairs", dashed: true, value: (i) => rate("repair_reads", i) },
    ],
  },
  cold: {
    format: number, least: 1, nothing: "no recent cold lookups",
    series: [
      { kind: "accent", name: "all blocks", value: (i) => perColdLookup("cold_reads", i) },
      { kind: "strong", name: "tables without the key", value: (i) => perColdLookup("cold_wrong_table_reads", i) },
      { kind: "soft", name: "filters", dashed: true, value: (i) => perColdLookup("cold_filter_reads", i) },
    ],
  },
  load: {
    format: number, least: 10,
    series: [
      { kind: "accent", name: "operations per second", value: (i) => rate("operations", i) },
      { kind: "soft", name: "storage reads per second", dashed: true, value: (i) => rate("reads", i) },
    ],
  },
  "read-latency": latency("read"),
  "write-latency": latency("write"),
};

function drawComponents(at) {
  const items = COMPONENTS.map(({ kind, name, what }) => {
    const taken = ring().at(`${kind}_bytes`, at) ?? 0, most = ring().at(`${kind}_bytes_max`, at) ?? 0;
    return element("li", { class: kind, "data-component": kind, "data-bytes": taken, "data-bytes-max": most },
      element("h3", {}, name),
      element("p", {}, most > 0 ? `${bytes(taken)} of ${bytes(most)}` : "no memory"),
      element("p", { class: "quiet" }, what));
  });
  const ghosts = ring().at("ghost_bytes", at) ?? 0;
  items.push(element("li", { class: MEASURING.kind },
    element("h3", {}, MEASURING.name),
    element("p", {}, ghosts > 0 ? bytes(ghosts) : "nothing is measured"),
    element("p", { class: "quiet" }, MEASURING.what)));
  $("components").replaceChildren(...items);
}

// ---- Texts ----

/** The text reports a move of this share of the budget within that many seconds. */
const MOVED = 0.015;
const RECENT_S = 15;

/** How the policy sets the boundaries between the caches. */
function boundaries() {
  const { policy, estimate } = told.stats;
  if (estimate.reason === "block-cache-only") return "none";
  if (estimate.reason === "ac-key-ghosts") return "by AC-Key";
  const moves = policy.startsWith("adaptive") && !policy.includes("controller");
  return moves ? "by saved reads" : "fixed";
}

/** How the boundaries have moved recently: the cache that gained most, and the one that lost most. */
function drift() {
  const { fine } = told.rings;
  const last = fine.times.length - 1, first = Math.max(0, last - RECENT_S);
  const budget = fine.at("cache_bytes_max", last), windowMib = fine.at("ghost_window_bytes", last) / MIB;
  const moves = COMPONENTS.map((component) => {
    const most = `${component.kind}_bytes_max`;
    const saved = fine.mean(`${component.kind}_ghost_saved`, last, RECENT_S) ?? 0;
    const worth = windowMib > 0 ? saved / windowMib : 0;
    return { ...component, gained: fine.at(most, last) - fine.at(most, first), worth };
  }).sort((a, b) => b.gained - a.gained);
  const [gainer, , loser] = moves;
  // A changed budget is no move.
  const least = MOVED * budget;
  const isMoving = gainer.gained > least && loser.gained < -least;
  return { isMoving, gainer, loser, moves };
}

/** Whether the server has received no command since its start. */
const isUntouched = () => told.stats.now.counters["server.commands"] === 0;

function headline() {
  const { fine } = told.rings;
  const last = fine.times.length - 1;
  if (last < 0) return "The server has just started.";
  const operations = fine.mean("operations", last, 5), reads = fine.mean("reads", last, 5);
  if (operations < 0.05) {
    return isUntouched() ? "No commands received yet." : "No operations right now.";
  }
  const count = number(operations < 10 ? operations : Math.round(operations));
  const one = `${count} operation${count === "1" ? "" : "s"} per second`;
  return reads < 0.05 ? `${one}, all answered without storage reads.` : `${one}, ${number(reads / operations)} storage reads each.`;
}

/** The reads that one more MiB of each cache would save, highest first. */
function worths(moves) {
  const [best, ...others] = [...moves].sort((a, b) => b.worth - a.worth);
  const rest = others.map((other) => `one of ${other.plural} ${number(other.worth)}`).join(" and ");
  return best.worth < 0.05
    ? "More memory would save no reads in any of the caches."
    : `One more MiB of ${best.plural} would save ${number(best.worth)} reads per second, ${rest}.`;
}

function reason() {
  const { policy, estimate } = told.stats;
  const { fine } = told.rings, kind = boundaries();
  if (!fine.times.length) return "";
  if (kind === "none") return `The policy ${policy} gives all cache memory to blocks.`;
  const { isMoving, gainer, loser, moves } = drift();
  const name = gainer.plural[0].toUpperCase() + gainer.plural.slice(1);
  const gain = `${name} are gaining memory (${bytes(gainer.gained)} in the last ${RECENT_S}${SPACE}s)`;
  if (kind === "by AC-Key") {
    return `The policy ${policy} moves the boundaries by its own ghost caches.${isMoving ? ` ${gain}.` : ""}`;
  }
  const isQuiet = fine.mean("reads", fine.times.length - 1, 5) < 0.05;
  if (kind === "fixed") {
    const worth = isQuiet || estimate.reason ? "" : ` ${worths(moves)}`;
    return `The policy ${policy} does not move the boundaries.${worth}`;
  }
  if (isUntouched()) return "The caches are empty. Connect a client to see how their memory is divided.";
  if (isQuiet) return "The boundaries do not move while no storage reads occur.";
  if (isMoving) {
    const why = gainer.worth > loser.worth
      ? `, because one more MiB of ${gainer.plural} would save ${number(gainer.worth)} reads per second, and one of ${loser.plural} ${number(loser.worth)}`
      : "";
    return `${gain}${why}.`;
  }
  if (estimate.reason === "too-small") {
    return "The caches are too small for measurement, so the boundaries do not move.";
  }
  return `The boundaries are stable. ${worths(moves)}`;
}

function sharing() {
  const budget = `a budget of ${bytes(told.stats.cache_bytes_max)}`;
  return {
    none: `Blocks use all of ${budget}.`,
    fixed: `Three caches share ${budget}. The policy fixes the boundaries between them.`,
    "by AC-Key": `Three caches share ${budget}. The policy’s own ghost caches move the boundaries between them.`,
    "by saved reads": `Three caches share ${budget}. The boundaries between them move to where a byte saves the most storage reads.`,
  }[boundaries()];
}

const UNKNOWN = {
  idle: "Less than one storage read per second in the last minute: too few for an estimate, and more memory could save few.",
  "block-cache-only": "Not measured: without values and pointers there are no ghost caches.",
  "ac-key-ghosts": "Not measured: the policy’s own ghost caches set the boundaries, but do not measure the reads that more memory would save.",
  "ac-key-fixed": "Not measured: this policy has no ghost caches.",
  "too-small": "Not measured: the caches are too small.",
};

function drawEstimate() {
  const { estimate, cache_bytes_max: budget } = told.stats;
  const target = $("estimate");
  if (estimate.unknown) {
    const why = UNKNOWN[estimate.reason ?? estimate.unknown];
    target.replaceChildren(element("p", { class: "note" }, why));
    return;
  }
  const { reads_half: half, reads_now: now, reads_twice: twice, operations } = estimate;
  const most = Math.max(half, now, twice, 1e-9);
  const rows = [
    ["half", half, "Half", 0.5, "soft"], ["now", now, "Now", 1, "strong"], ["twice", twice, "Twice", 2, "accent"],
  ];
  const parts = rows.flatMap(([key, reads, name, factor, kind]) => {
    const bar = shape("svg", { class: kind, "aria-hidden": "true", preserveAspectRatio: "none", viewBox: "0 0 100 10" });
    bar.append(shape("rect", { x: 0, y: 0, height: 10, width: 100 * reads / most, rx: 0.6 }));
    const amount = `${number(reads)} reads per operation, ${number(reads * operations)}${SPACE}/s`;
    return [
      element("dt", {}, element("b", {}, name), element("span", { class: "quiet" }, bytes(budget * factor))),
      element("dd", { "data-estimate": key, "data-reads": reads }, bar, element("span", { class: "amount" }, amount)),
    ];
  });
  const note = "Assumes that reads fall with memory as they do here (a power law). A real curve drops where a working "
    + "set just fits; the farther from the current size, the less reliable the estimate."
    + (boundaries() === "fixed" ? " It also assumes that memory moves to where it saves the most reads, which this policy does not do." : "");
  target.replaceChildren(element("dl", { class: "bars" }, ...parts), element("p", { class: "note" }, note));
}

function show() {
  const { stats } = told;
  $("headline").textContent = headline();
  $("reason").textContent = reason();
  $("sharing").textContent = sharing();
  $("goes").hidden = boundaries() !== "by saved reads";
  $("sizes").hidden = !stats.curves.length;
  drawCurves($("curves"), stats.curves);
  $("place").textContent = location.host;
  $("version").textContent = `TideKV ${stats.version}, policy ${stats.policy}, ${bytes(stats.memory_bytes_max)} of memory.`;
  drawEstimate();
}

watch(SPECS, { show, drawn: drawComponents });
