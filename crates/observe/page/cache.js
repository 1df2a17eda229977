// The page of a cache: its headline, figures and texts, and the state of its flash devices. All
// numbers come from /api/stats; docs/reference/memcached.md explains their names.

import { element, shape } from "/figures.js";
import { drawCurves } from "/curves.js";
import { $, addFigure, latency, rate, ring, share, told, watch } from "/live.js";
import { SPACE, bytes, number, percent } from "/words.js";

const TIERS = [
  { kind: "kv", field: "dram_hits", name: "DRAM", what: "Hits in memory, without waiting." },
  { kind: "block", field: "flash_hits", name: "Flash", what: "Hits on a device or in its write buffers." },
  { kind: "measuring", field: "misses", name: "Misses", what: "Never stored, expired, or evicted." },
];
/** By number in the samples: higher is worse. */
const STATES = [
  { name: "ok", what: "works" },
  { name: "suspect", what: "has failed or been slow recently" },
  { name: "warming", what: "is back in service, and its keys move back to it as they are requested" },
  { name: "out", what: "is out of service; its keys go to other devices" },
];
const clock = (ms) => new Date(ms).toLocaleTimeString([], { hour12: false });
const of = (name, device) => `${name}@${device}`;

// ---- Figures ----

const layer = ({ kind, field, name }) => ({
  kind, name, value: (i) => rate(field, i), filled: (i) => rate(field, i),
});
const line = (kind, name, field, dashed = false) => ({ kind, name, dashed, value: (i) => rate(field, i) });
/** A quotient; null if the divisor is 0. */
const ratio = (above, below) => (below > 0 ? above / below : null);

const readsOfMisses = (i) => rate("index_reads_of_misses", i) + rate("object_reads_of_misses", i);
const readsPerHit = (i) =>
  ratio(rate("index_reads", i) + rate("object_reads", i) - readsOfMisses(i), rate("device_hits", i));
const readsPerMiss = (i) => ratio(readsOfMisses(i), rate("misses", i));
/** Objects count when they enter a buffer, segments when they are written: a minute averages that out. */
const amplification = (i) => {
  const mean = (name) => ring().mean(name, i, told.rings.fine === ring() ? 60 : 6);
  return ratio(mean("flash_bytes_written"), mean("object_bytes_written"));
};

const [dram, flash, absent] = TIERS;
const SPECS = {
  lookups: {
    layers: true, format: number, nothing: "no recent lookups",
    // From the bottom.
    series: [layer(flash), layer(dram), layer(absent)],
  },
  hits: {
    format: percent, max: 1, nothing: "no recent lookups",
    series: [
      { kind: "strong", name: "both", value: (i) => share(["dram_hits", "flash_hits"], ["misses"], i) },
      { kind: "kv", name: "DRAM", value: (i) => share(["dram_hits"], ["flash_hits", "misses"], i) },
      { kind: "block", name: "flash", value: (i) => share(["flash_hits"], ["dram_hits", "misses"], i) },
    ],
  },
  memory: {
    format: bytes, isBytes: true,
    series: [
      line("kv", "objects", "dram_bytes"),
      line("block", "flash", "flash_dram_bytes"),
      line("soft", "budget", "dram_bytes_max", true),
    ],
  },
  objects: {
    format: number, least: 10,
    series: [line("kv", "in DRAM", "dram_objects"), line("block", "on flash", "flash_objects")],
  },
  reads: {
    format: number, least: 1, nothing: "no recent flash lookups",
    series: [
      { kind: "accent", name: "per hit", value: readsPerHit },
      { kind: "strong", name: "per miss", value: readsPerMiss },
    ],
  },
  amplification: {
    format: number, least: 1, nothing: "no recent writes",
    series: [{ kind: "accent", name: "bytes written per byte", value: amplification }],
  },
  written: {
    format: bytes, isBytes: true, least: 1024,
    series: [
      line("accent", "all bytes written", "flash_bytes_written"),
      line("strong", "keys and values", "object_bytes_written"),
      line("soft", "evicted early", "expired_early_bytes", true),
    ],
  },
  left: {
    format: number, least: 1,
    series: [
      line("accent", "no write buffer", "bypassed"),
      line("strong", "too large", "too_large"),
      line("soft", "over budget", "over_budget", true),
    ],
  },
  load: {
    format: number, least: 10,
    series: [
      line("accent", "requests", "requests"),
      line("strong", "evictions", "evictions"),
      line("kv", "invalidations", "invalidations"),
      line("soft", "connections", "clients", true),
    ],
  },
  latency: latency("request"),
};

// ---- Devices ----

/** The card of each device. */
const cards = [];

/** Stretches of one state each, oldest first, in the samples that there are. */
function stretches(device) {
  const { times } = ring(), found = [];
  times.forEach((ms, i) => {
    const state = ring().at(of("state", device), i);
    if (state === null) return;
    // A sample covers the time up to its end.
    const from = i > 0 ? times[i - 1] : ms - 1000;
    const last = found.at(-1);
    if (last?.state === state) last.to = ms;
    else found.push({ state, from, to: ms });
  });
  return found;
}

function makeCard(index) {
  const card = {
    path: element("span", { class: "path" }),
    state: element("b", { class: "state" }),
    strip: shape("svg", { class: "states", role: "img" }),
    changes: element("ol", { class: "changes quiet" }),
    facts: element("dl", { class: "facts" }),
    figure: element("figure"),
  };
  const about = "Latency of lookups that read this device, once or twice.";
  card.item = element("li", { "data-device": index },
    element("h3", {}, card.path, card.state), card.strip, card.changes, card.facts,
    element("p", { class: "quiet" }, about), card.figure);
  $("devices").append(card.item);
  addFigure(card.figure, latency("read", of("", index)));
  return card;
}

function facts(device, index, at) {
  const then = (name) => ring().at(of(name, index), at);
  const objects = then("objects"), segments = then("segments") ?? 0;
  const perEntry = objects > 0 ? `${perObject(then("index_bytes") / objects)} each` : "–";
  return [
    ["size", bytes(device.bytes), "Usable size."],
    ["segments", `${segments} of ${device.segments_max}`, "Objects are stored in segments, which are written and evicted as a whole."],
    ["objects", objects === null ? "–" : number(objects), "Estimated: some of them have been replaced since."],
    ["index", perEntry, "DRAM of the index for each object: filters, changes, and the fixed part of each partition and segment."],
    ["read", `${number(rate(of("reads", index), at))}${SPACE}/s`, "Index pages, records and buckets of small objects read by lookups."],
    ["written", `${bytes(rate(of("bytes_written", index), at) ?? 0)}${SPACE}/s`, "Segments, index pages and other metadata."],
    ["outages", times(then("outages")), "Times that it was taken out of service since the start."],
    ["recoveries", times(then("recoveries")), "Times that it returned to service, empty."],
  ];
}

const perObject = (value) => `${number(Number(value.toPrecision(3)))}${SPACE}B`;
const times = (count) => (count === 1 ? "once" : count === 2 ? "twice" : count > 0 ? `${count} times` : "never");

function drawStrip(card, found, from, to) {
  const box = card.strip.getBoundingClientRect();
  const width = box.width || 300, height = 22;
  card.strip.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const x = (ms) => width * Math.min(1, Math.max(0, (ms - from) / Math.max(1, to - from)));
  const parts = found.filter((stretch) => stretch.to > from).map((stretch) => {
    const { name, what } = STATES[stretch.state];
    const tall = height * (stretch.state + 1) / STATES.length;
    const part = shape("rect", {
      class: name, "data-state": name, "data-from": stretch.from, "data-to": stretch.to,
      x: x(stretch.from), width: Math.max(1.5, x(stretch.to) - x(stretch.from)), y: height - tall, height: tall,
    });
    part.append(shape("title", {}, `${name}: ${what}, ${clock(stretch.from)} to ${clock(stretch.to)}`));
    return part;
  });
  card.strip.replaceChildren(...parts);
}

function drawDevice(device, index, at, isNow, from, to) {
  const card = (cards[index] ??= makeCard(index));
  const then = ring().at(of("state", index), at);
  // A sample has the worst state of its time; the present state is that of the device.
  const state = isNow || then === null ? device.state : STATES[then].name;
  card.item.dataset.state = state;
  card.item.className = state;
  card.path.textContent = device.path;
  card.state.textContent = state;
  card.state.title = `It ${STATES.find(({ name }) => name === state).what}.`;
  const found = stretches(index);
  drawStrip(card, found, from, to);
  const changes = found.slice(-7).map((stretch, i) => {
    const when = i + found.length <= 7 && i === 0 ? "first" : clock(stretch.from);
    return element("li", { "data-state": STATES[stretch.state].name, "data-ms": stretch.from }, `${when} ${STATES[stretch.state].name}`);
  });
  card.changes.replaceChildren(...(found.length > 1 ? changes : []));
  const said = found.map((stretch) => `${STATES[stretch.state].name} from ${clock(stretch.from)}`);
  card.strip.setAttribute("aria-label", `${device.path}: ${said.join(", ")}.`);
  const pairs = facts(device, index, at).flatMap(([name, text, what]) => [
    element("dt", { title: what }, name), element("dd", { title: what }, text),
  ]);
  card.facts.replaceChildren(...pairs);
}

function drawTiers(at) {
  const items = TIERS.map(({ kind, field, name, what }) => {
    const others = TIERS.filter((other) => other.field !== field).map((other) => other.field);
    const part = share([field], others, at);
    const text = part === null ? "no recent lookups" : `${number(rate(field, at))}${SPACE}/s, ${percent(part)}`;
    return element("li", { class: kind, "data-tier": field, "data-share": part ?? "" },
      element("h3", {}, name), element("p", {}, text), element("p", { class: "quiet" }, what));
  });
  $("tiers").replaceChildren(...items);
}

// ---- Tenants ----

const COLUMNS = [
  ["tenant", (one) => one.name],
  ["keys", (one) => (one.prefix ? `${one.prefix}…` : "all others")],
  ["DRAM", (one) => `${bytes(one.dram_bytes)} of ${bytes(one.dram_bytes_max)}`],
  ["flash", (one) => (one.flash_bytes_max ? bytes(one.flash_bytes_max) : "–")],
  ["objects in DRAM", (one) => number(one.dram_objects)],
  ["on flash, estimated", (one) => number(one.flash_objects)],
  ["hit ratio in DRAM", (one) => found(one, one.dram_hits)],
  ["on flash", (one) => found(one, one.flash_hits)],
];

function found(one, hits) {
  const lookups = one.dram_hits + one.flash_hits + one.misses;
  return lookups ? percent(hits / lookups) : "–";
}

function drawTenants() {
  const { tenants } = told.stats;
  $("shares").hidden = !tenants.length;
  const head = element("tr", {}, ...COLUMNS.map(([title]) => element("th", { scope: "col" }, title)));
  const rows = tenants.map((one) => element("tr", { "data-tenant": one.name },
    ...COLUMNS.map(([, text]) => element("td", {}, text(one)))));
  $("tenants").replaceChildren(head, ...rows);
}

function drawn(at, isNow, from, to) {
  drawTiers(at);
  drawTenants();
  told.stats.devices.forEach((device, i) => drawDevice(device, i, at, isNow, from, to));
}

// ---- Texts ----

function headline() {
  const { fine } = told.rings;
  const last = fine.times.length - 1;
  if (last < 0) return "The cache has just started.";
  const mean = (name) => fine.mean(name, last, 5) ?? 0;
  const requests = mean("requests"), hits = mean("dram_hits") + mean("flash_hits");
  if (requests < 0.05) {
    return told.stats.numbers["server.requests"] === 0 ? "No requests received yet." : "No requests right now.";
  }
  const count = number(requests < 10 ? requests : Math.round(requests));
  const one = `${count} request${count === "1" ? "" : "s"} per second`;
  const lookups = hits + mean("misses");
  if (lookups < 0.05) return `${one}, none of them lookups.`;
  const flashes = told.stats.devices.length ? `, ${percent(mean("flash_hits") / lookups)} on flash` : "";
  return `${one}; hit ratio ${percent(mean("dram_hits") / lookups)} in DRAM${flashes}.`;
}

/** The last outage of a device in the history. */
function outage() {
  const all = told.stats.devices.flatMap((device, i) =>
    stretches(i).filter(({ state }) => state === 3).map((stretch) => ({ ...stretch, path: device.path })));
  return all.sort((a, b) => a.from - b.from).at(-1);
}

function reason() {
  const { devices } = told.stats;
  if (!devices.length) return "No flash tier: objects evicted from DRAM are lost.";
  const inState = (state) => devices.filter((device) => device.state === state).map(({ path }) => path);
  const they = (paths, one, many) => `${paths.join(" and ")} ${paths.length === 1 ? one : many}`;
  const out = inState("out"), suspect = inState("suspect"), warming = inState("warming");
  const parts = [];
  if (out.length) {
    const keys = out.length < devices.length ? "its keys go to the other devices" : "only DRAM is in service";
    parts.push(`${they(out, "is", "are")} out of service: ${keys} until ${out.length === 1 ? "it returns" : "they return"}.`);
  }
  if (suspect.length) parts.push(`${they(suspect, "has", "have")} failed or been slow recently, and will be taken out of service if that continues.`);
  if (warming.length) parts.push(`${they(warming, "is", "are")} back in service and warming.`);
  if (parts.length) return parts.join(" ");
  const all = ["The flash device works", "Both flash devices work"][devices.length - 1] ?? `All ${devices.length} flash devices work`;
  const last = outage();
  return last ? `${all}; ${last.path} was out of service from ${clock(last.from)} to ${clock(last.to)}.` : `${all}.`;
}

function show() {
  const { stats } = told;
  $("headline").textContent = headline();
  $("reason").textContent = reason();
  $("place").textContent = location.host;
  const flashBytes = stats.devices.reduce((sum, device) => sum + device.bytes, 0);
  const flashes = flashBytes ? `, ${bytes(flashBytes)} of flash` : "";
  $("version").textContent = `TideKV ${stats.version}, ${bytes(stats.numbers["cache.dram_bytes_max"])} of DRAM${flashes}.`;
  $("flash").hidden = !stats.devices.length;
  $("sizes").hidden = !stats.curves.length;
  drawCurves($("curves"), stats.curves);
  $("elastic").hidden = !stats.elastic?.last;
  if (stats.elastic?.last) {
    const { resizes, last, unix_ms: at } = stats.elastic;
    $("elastic").textContent = `Sizes adapt to the requests and have changed ${times(resizes)}. At ${clock(at)}: ${last}.`;
  }
}

watch(SPECS, { show, drawn });
