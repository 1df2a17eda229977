// The page of a store: says in words and figures what there is. All numbers come from
// /api/stats; docs/reference/http.md has their names.

import { drawCurves } from "/curves.js";
import { element, shape } from "/figures.js";
import { $, latency, rate, ring, share, told, watch } from "/live.js";
import { SPACE, bytes, number, percent } from "/words.js";

const MIB = 1 << 20;
const COMPONENTS = [
  { kind: "kv", name: "Values (KV)", plural: "values", what: "Whole answers by key: a get that finds one reads nothing." },
  { kind: "kp", name: "Pointers (KP)", plural: "pointers", what: "Where an entry lies, in a few bytes: a get that finds one reads at most one block." },
  { kind: "block", name: "Blocks", plural: "blocks", what: "Pieces of files as they are stored: good for scans and for keys that are neighbours." },
];
const MEASURING = { kind: "measuring", name: "Measuring", what: "Notes on what was asked for and is not here: by them it is known what more bytes would save." };

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
  tide: {
    layers: true, isBytes: true, format: bytes,
    // From the bottom: deep water, shallow water, sand.
    series: [layer(blocks), layer(values), layer(pointers), {
      ...MEASURING, format: bytes,
      value: (i) => ring().at("measuring_bytes", i), filled: (i) => ring().at("measuring_bytes", i),
    }],
  },
  "per-operation": {
    format: number, least: 1, nothing: "no operations lately",
    series: [{ kind: "accent", name: "reads for an operation", value: perOperation }],
  },
  next: {
    format: number, nothing: "not measured",
    series: each((kind, i) => perMiB(`${kind}_wanted`, "window_bytes", i)),
  },
  saved: {
    format: number, nothing: "nothing in the caches yet",
    series: each((kind, i) => perMiB(`${kind}_saved`, `${kind}_bytes`, i)),
  },
  hits: {
    format: percent, max: 1, nothing: "nothing asked lately",
    series: [
      { kind: "kv", name: "Values", value: (i) => share(["kv_hits"], ["kp_hits", "point_misses"], i) },
      { kind: "kp", name: "Pointers, for the rest", value: (i) => share(["kp_hits"], ["point_misses"], i) },
      { kind: "block", name: "Data blocks", value: (i) => share(["data_hits"], ["data_misses"], i) },
      { kind: "metadata", name: "Index and filter blocks", dashed: true, value: (i) => share(["metadata_hits"], ["metadata_misses"], i) },
    ],
  },
  filters: {
    format: number, least: 1,
    series: [
      { kind: "accent", name: "false positives a second", value: (i) => rate("false_positives", i) },
      { kind: "strong", name: "repairs a second", value: (i) => rate("repairs", i) },
      { kind: "soft", name: "storage reads for repairs", dashed: true, value: (i) => rate("repair_reads", i) },
    ],
  },
  cold: {
    format: number, least: 1, nothing: "no lookup waited lately",
    series: [
      { kind: "accent", name: "all blocks", value: (i) => perColdLookup("cold_reads", i) },
      { kind: "strong", name: "in vain", value: (i) => perColdLookup("cold_reads_in_vain", i) },
      { kind: "soft", name: "filters", dashed: true, value: (i) => perColdLookup("cold_filter_reads", i) },
    ],
  },
  load: {
    format: number, least: 10,
    series: [
      { kind: "accent", name: "operations a second", value: (i) => rate("operations", i) },
      { kind: "soft", name: "storage reads a second", dashed: true, value: (i) => rate("reads", i) },
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
  const measuring = ring().at("measuring_bytes", at) ?? 0;
  items.push(element("li", { class: MEASURING.kind },
    element("h3", {}, MEASURING.name),
    element("p", {}, measuring > 0 ? bytes(measuring) : "nothing is measured"),
    element("p", { class: "quiet" }, MEASURING.what)));
  $("components").replaceChildren(...items);
}

// ---- Words ----

/** Of the budget, what has to change hands within so many seconds to be worth a word. */
const MOVED = 0.015;
const LATELY = 15;

/** What becomes of the lines between the caches, and whether another MiB is measured. */
function lines() {
  const { policy, outlook } = told.stats;
  if (outlook.reason === "blocks-alone") return "none";
  if (outlook.reason === "other-ghosts") return "by other ghosts";
  const moves = policy.startsWith("tide") && !policy.includes("controller");
  return moves ? "by worth" : "fixed";
}

/** How the boundaries have moved lately: who gained most, and from whom. */
function drift() {
  const { fine } = told.rings;
  const last = fine.times.length - 1, first = Math.max(0, last - LATELY);
  const budget = fine.at("cache_bytes_max", last), windowMib = fine.at("window_bytes", last) / MIB;
  const moves = COMPONENTS.map((component) => {
    const most = `${component.kind}_bytes_max`;
    const wanted = fine.mean(`${component.kind}_wanted`, last, LATELY) ?? 0;
    const worth = windowMib > 0 ? wanted / windowMib : 0;
    return { ...component, gained: fine.at(most, last) - fine.at(most, first), worth };
  }).sort((a, b) => b.gained - a.gained);
  const [gainer, , loser] = moves;
  // The budget itself may have changed, which is no tide.
  const least = MOVED * budget;
  const isMoving = gainer.gained > least && loser.gained < -least;
  return { isMoving, gainer, loser, moves };
}

/** Whether no command has come since the start. */
const isUntouched = () => told.stats.now.counters["server.commands"] === 0;

function headline() {
  const { fine } = told.rings;
  const last = fine.times.length - 1;
  if (last < 0) return "The server has just started.";
  const operations = fine.mean("operations", last, 5), reads = fine.mean("reads", last, 5);
  if (operations < 0.05) {
    return isUntouched() ? "Nothing has been asked of this server yet." : "No operations at the moment.";
  }
  const count = number(operations < 10 ? operations : Math.round(operations));
  const one = `${count} operation${count === "1" ? "" : "s"} a second`;
  return reads < 0.05 ? `${one}, all without reading storage.` : `${one}, ${number(reads / operations)} storage reads each.`;
}

/** What another MiB would save, of the component where it is most first. */
function worths(moves) {
  const [best, ...others] = [...moves].sort((a, b) => b.worth - a.worth);
  const rest = others.map((other) => `one of ${other.plural} ${number(other.worth)}`).join(" and ");
  return best.worth < 0.05
    ? "More memory would save no reads in any of the caches."
    : `Another MiB of ${best.plural} would save ${number(best.worth)} reads a second, ${rest}.`;
}

function reason() {
  const { policy, outlook } = told.stats;
  const { fine } = told.rings, kind = lines();
  if (!fine.times.length) return "";
  if (kind === "none") return `The policy ${policy} gives the caches’ memory to blocks alone: nothing moves.`;
  const { isMoving, gainer, loser, moves } = drift();
  const name = gainer.plural[0].toUpperCase() + gainer.plural.slice(1);
  const gain = `${name} get more memory at the moment (${bytes(gainer.gained)} in the last ${LATELY}${SPACE}s)`;
  if (kind === "by other ghosts") {
    return `The policy ${policy} moves the lines by ghosts of its own.${isMoving ? ` ${gain}.` : ""}`;
  }
  const isQuiet = fine.mean("reads", fine.times.length - 1, 5) < 0.05;
  if (kind === "fixed") {
    const worth = isQuiet || outlook.reason ? "" : ` ${worths(moves)}`;
    return `The policy ${policy} keeps the lines where they are.${worth}`;
  }
  if (isUntouched()) return "Its caches are empty. Connect a client, and watch where their memory goes.";
  if (isQuiet) return "The lines between the caches stay where they are while storage is not read: there is nothing to save.";
  if (isMoving) {
    const why = gainer.worth > loser.worth
      ? `, because another MiB of ${gainer.plural} would save ${number(gainer.worth)} reads a second, and one of ${loser.plural} ${number(loser.worth)}`
      : "";
    return `${gain}${why}.`;
  }
  if (outlook.reason === "too-small") {
    return "The caches are too small to measure what their bytes are worth, so the lines stay.";
  }
  return `The lines are at rest. ${worths(moves)}`;
}

function sharing() {
  const budget = `a budget of ${bytes(told.stats.cache_bytes_max)}`;
  return {
    none: `Blocks have all of ${budget}.`,
    fixed: `Three caches share ${budget}. The lines between them stay where the policy has put them.`,
    "by other ghosts": `Three caches share ${budget}. The lines between them move as the policy’s own ghosts say.`,
    "by worth": `Three caches share ${budget}. The lines between them move to where a byte saves the most reads of storage.`,
  }[lines()];
}

const UNKNOWN = {
  idle: "In the last minute hardly anything was asked for that storage had to be read for: there is nothing to estimate, and little that more memory could save.",
  "blocks-alone": "It is not measured: where blocks have all of the memory, nobody takes notes.",
  "other-ghosts": "It is not measured: the policy’s own ghosts say where the lines go, and not what more memory would save.",
  "no-ghosts": "It is not measured: under this policy nobody takes notes of what has left.",
  "too-small": "It is not measured: the caches are too small for that.",
};

function drawOutlook() {
  const { outlook, cache_bytes_max: budget } = told.stats;
  const target = $("outlook");
  if (outlook.unknown) {
    const why = UNKNOWN[outlook.reason ?? outlook.unknown];
    target.replaceChildren(element("p", { class: "note" }, why));
    return;
  }
  const { reads_half: half, reads_now: now, reads_twice: twice, operations } = outlook;
  const most = Math.max(half, now, twice, 1e-9);
  const rows = [
    ["half", half, "Half", 0.5, "soft"], ["now", now, "Now", 1, "strong"], ["twice", twice, "Twice", 2, "accent"],
  ];
  const parts = rows.flatMap(([key, reads, name, factor, kind]) => {
    const bar = shape("svg", { class: kind, "aria-hidden": "true", preserveAspectRatio: "none", viewBox: "0 0 100 10" });
    bar.append(shape("rect", { x: 0, y: 0, height: 10, width: 100 * reads / most, rx: 0.6 }));
    const amount = `${number(reads)} reads each, ${number(reads * operations)}${SPACE}/s`;
    return [
      element("dt", {}, element("b", {}, name), element("span", { class: "quiet" }, bytes(budget * factor))),
      element("dd", { "data-outlook": key, "data-reads": reads }, bar, element("span", { class: "amount" }, amount)),
    ];
  });
  const note = "It assumes that the curve of reads over memory goes on as it runs here (a power law). Where a "
    + "working set just fits, real curves break; the farther from now, the less this can be trusted."
    + (lines() === "fixed" ? " And it takes for granted that memory goes where it saves most, which this policy does not do." : "");
  target.replaceChildren(element("dl", { class: "bars" }, ...parts), element("p", { class: "note" }, note));
}

function show() {
  const { stats } = told;
  $("headline").textContent = headline();
  $("reason").textContent = reason();
  $("sharing").textContent = sharing();
  $("goes").hidden = lines() !== "by worth";
  $("sizes").hidden = !stats.curves.length;
  drawCurves($("curves"), stats.curves);
  $("place").textContent = location.host;
  $("version").textContent = `TideKV ${stats.version}, policy ${stats.policy}, ${bytes(stats.memory_bytes_max)} of memory.`;
  drawOutlook();
}

watch(SPECS, { show, drawn: drawComponents });
