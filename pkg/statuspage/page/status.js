"use strict";

// The page asks for "data" beside itself, so it works behind any path prefix.
const byId = (id) => document.getElementById(id);
const svg = "http://www.w3.org/2000/svg";
let answered = 0;
let interval = 2; // seconds from one reading of a figure to the next
let readings = 0; // that a sparkline has room for
let now; // by the clock of the process

function element(name, className, text) {
  const e = document.createElement(name);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  return e;
}

// digits writes a number with about three digits that count.
function digits(v) {
  const size = Math.abs(v);
  if (size >= 100 || Number.isInteger(v)) return Math.round(v).toLocaleString("en");
  return v.toFixed(size >= 10 ? 1 : 2);
}

// duration writes seconds in the form of pkg/poll: at most two units, none of them zero.
// Below a minute it keeps digits that count, because the figures are measurements.
function duration(s) {
  if (s < 0.0005) return "0s";
  if (s < 0.9995) return digits(s * 1000) + "ms";
  if (s < 59.5) return digits(s) + "s";
  const two = (size, name, smaller, smallerName) => {
    const n = Math.round(s / smaller), per = size / smaller, rest = n % per;
    return Math.floor(n / per) + name + (rest ? rest + smallerName : "");
  };
  if (s < 3599.5) return two(60, "m", 1, "s");
  if (s < 172770) return two(3600, "h", 60, "m");
  return two(86400, "d", 3600, "h");
}

function bytes(v) {
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (v < 1024 || unit === "GiB") return digits(v) + " " + unit;
    v /= 1024;
  }
}

function written(value, unit) {
  if (value === null) return "–";
  if (unit === "s") return duration(value);
  if (unit === "B") return bytes(value);
  return digits(value) + unit;
}

// aged adds its age to a text that is an instant.
function aged(text) {
  if (!/^\d{4}-\d\d-\d\dT[\d:]+Z$/.test(text)) return text;
  return `${text} (${duration(Math.max(0, Math.round((now - new Date(text)) / 1000)))}\u00a0ago)`;
}

// sparkline draws the course of a figure, from 0 to its limit, or to its peak if it has no
// limit. Values that are not there leave a hole. All sparklines have one time axis.
function sparkline({ series, unit, of }) {
  const box = document.createElementNS(svg, "svg");
  const width = 150, height = 26;
  box.setAttribute("viewBox", `0 0 ${width} ${height}`);
  box.setAttribute("preserveAspectRatio", "none");
  const peak = Math.max(...series.map((v) => v ?? 0), 0);
  const title = document.createElementNS(svg, "title");
  title.textContent = "peak: " + written(peak, unit);
  box.append(title);
  const top = of ?? peak;
  let line = "", area = "", open = false, last = 0;
  series.forEach((v, i) => {
    const x = width - (series.length - 1 - i) * (width / (readings - 1));
    if (v === null) {
      if (open) area += `L${last} ${height}Z`;
      open = false;
      return;
    }
    const y = height - 1 - (top > 0 ? (v / top) * (height - 3) : 0);
    line += open ? `L${x} ${y}` : `M${x} ${y}h0`; // a value between two holes is a dot
    area += open ? `L${x} ${y}` : `M${x} ${height}L${x} ${y}`;
    open = true;
    last = x;
  });
  if (open) area += `L${last} ${height}Z`;
  for (const [name, d] of [["area", area], ["line", line]]) {
    const path = document.createElementNS(svg, "path");
    path.setAttribute("class", name);
    path.setAttribute("d", d);
    box.append(path);
  }
  return box;
}

function stage(s) {
  const item = element("li");
  item.append(element("h2", "", s.name), element("p", "about", s.about));
  for (const f of s.figures) {
    const figure = element("div", f.alarm ? "figure alarm" : "figure");
    const value = written(f.value, f.unit) + (f.of === undefined ? "" : " of " + written(f.of, f.unit));
    figure.append(element("span", "name", f.name), element("span", "value", value), sparkline(f));
    item.append(figure);
  }
  return item;
}

function table(t) {
  const section = element("section", t.columns.length > 3 ? "wide" : "");
  section.append(element("h2", "", t.name));
  if (t.error) {
    section.append(element("p", "error", t.error));
    return section;
  }
  const grid = element("table");
  if (t.columns.some((c) => c !== "")) {
    const head = grid.createTHead().insertRow();
    for (const c of t.columns) head.append(element("th", "", c));
  }
  const body = grid.createTBody();
  for (const r of t.rows) {
    const row = body.insertRow();
    if (r.alarm) row.className = "alarm";
    r.cells.forEach((c, i) => {
      const cell = element("td", "", aged(c));
      cell.dataset.column = t.columns[i]; // the heading on a narrow screen
      row.append(cell);
    });
    if (r.progress !== undefined) {
      const cell = body.insertRow().insertCell();
      cell.colSpan = t.columns.length;
      const bar = element("progress");
      bar.max = 1;
      bar.value = r.progress;
      bar.setAttribute("aria-label", "progress of " + r.cells[0]);
      cell.append(bar);
    }
  }
  section.append(grid);
  return section;
}

function condition(c) {
  const item = element("li", c.state === "degraded" ? "warn" : "bad");
  const title = c.subject ? c.name + " " + c.subject : c.name;
  item.append(element("strong", "", title), " since ", element("time", "", aged(new Date(c.since).toISOString().replace(/\.\d+/, ""))), element("p", "", c.text));
  if (c.remedy) item.append(element("p", "remedy", c.remedy));
  return item;
}

function show(d) {
  now = new Date(d.now);
  // A young process has a minute's room, so that its first readings are seen.
  readings = Math.max(30, d.stages[0].figures[0].series.length);
  byId("span").textContent = duration(readings * interval);
  document.title = `${d.service} ${d.instance}`;
  byId("service").textContent = d.service;
  byId("instance").textContent = d.instance;
  byId("version").textContent = d.version;
  byId("pipeline").textContent = d.pipeline;
  byId("conditions").replaceChildren(...d.conditions.map(condition));
  const state = byId("state");
  state.className = { "ok": "good", "degraded": "warn" }[d.state] ?? "bad";
  state.textContent = d.state + ", up " + duration(Math.round((now - new Date(d.startedAt)) / 1000));
  byId("stages").replaceChildren(...d.stages.map(stage));
  // Tables without rows share one line, so that what is there is seen.
  const quiet = (t) => !t.error && t.rows.length === 0;
  byId("tables").replaceChildren(...d.tables.filter((t) => !quiet(t)).map(table));
  byId("quiet").textContent = d.tables.filter(quiet).map((t) => t.empty).join(" ");
}

async function refresh() {
  try {
    const response = await fetch("data", { signal: AbortSignal.timeout(10000) });
    if (!response.ok) throw new Error("status " + response.status);
    const data = await response.json();
    interval = data.intervalSeconds;
    answered = Date.now();
    show(data);
  } catch (e) {
    const state = byId("state");
    state.className = "bad";
    state.textContent = "no answer" + (answered ? " for " + duration((Date.now() - answered) / 1000) : "") + " (" + e.message + ")";
  }
  setTimeout(refresh, interval * 1000);
}

refresh();
