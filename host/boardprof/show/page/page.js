/* SPDX-License-Identifier: Apache-2.0 */
"use strict"; // the page has it without what lines begin with: no text may go over two lines
(() => {
  const at = (id) => document.getElementById(id);
  const view = JSON.parse(at("boardprof-view").textContent);
  const ROWS = 200; // drawn at first; the rest on demand
  const DOTS = 1200; // beyond, the run order is drawn as ranges

  // -- building blocks --------------------------------------------------------------------------

  function make(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  function draw(tag, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  /** Text of the Report: isolated, so that its direction stays its own. */
  const isolated = (text) => make("bdi", {}, text);

  const fixed = (value, digits) =>
    value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });

  function shown(kind, value) {
    if (value === null || value === undefined) return "";
    if (typeof value === "string") return value;
    if (kind === "count" && Number.isInteger(value)) return value.toLocaleString("en-US");
    if (value !== 0 && Math.abs(value) < (kind === "us" ? 0.1 : 0.01)) return String(Number(value.toPrecision(3)));
    const text = fixed(value, 2);
    return kind === "count" && !text.endsWith("00") ? text.replace(/0$/, "") : text;
  }

  function share(value) {
    if (value === null || value === undefined) return "";
    return value !== 0 && Math.abs(value) < 0.00005 ? "<\u20090.01\u2009%" : `${fixed(100 * value, 2)}\u2009%`;
  }
  const short = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 6 });
  const largest = (values) => values.reduce((most, value) => Math.max(most, value), 0);
  const plural = (n, what) => `${n.toLocaleString("en-US")} ${what}${n === 1 ? "" : "s"}`;

  // -- tables -----------------------------------------------------------------------------------

  function byValue(column, sign) {
    return (a, b) => {
      const [x, y] = [column.value(a), column.value(b)];
      const [noX, noY] = [x === null || x === undefined || x === "", y === null || y === undefined || y === ""];
      if (noX || noY) return noX - noY; // what is missing comes last in either direction
      if (column.numeric) return sign * (x - y);
      return sign * String(x).localeCompare(String(y), "en");
    };
  }

  /**
   * A table whose columns sort by a button in their header.
   * columns: {title, value(row), cell(row) -> text or node, numeric, className, fixed}
   */
  function table(host, { caption, columns, rows, foot = [], sort, selected, none, all }) {
    const state = sort ?? { column: null, sign: 1 };
    const body = make("tbody");
    const heads = columns.map((column, index) => {
      const head = make("th", { scope: "col", class: `${column.numeric ? "num " : ""}${column.className ?? ""}` });
      if (column.value === undefined) {
        head.append(column.title);
        return head;
      }
      const button = make("button", { type: "button" }, isolated(column.title));
      button.addEventListener("click", () => {
        const same = state.column === index;
        state.sign = same ? -state.sign : column.numeric ? -1 : 1;
        state.column = index;
        fill();
      });
      head.append(button);
      return head;
    });
    const made = make("table", { "aria-label": caption }, make("thead", {}, make("tr", {}, ...heads)), body);
    if (foot.length) made.append(make("tfoot", {}, ...foot));
    const more = make("button", { type: "button", class: "more" });
    more.addEventListener("click", () => { all = true; fill(); });

    function fill() {
      heads.forEach((head, index) => {
        if (columns[index].value === undefined) return;
        const direction = state.sign > 0 ? "ascending" : "descending";
        head.setAttribute("aria-sort", index === state.column ? direction : "none");
      });
      const ordered = rows.slice();
      if (state.column !== null) ordered.sort(byValue(columns[state.column], state.sign));
      const drawn = all ? ordered : ordered.slice(0, ROWS);
      body.replaceChildren(...drawn.map(line));
      if (!rows.length) {
        const cell = make("td", { colspan: columns.length, class: "empty" }, none ?? "Nothing to show.");
        body.append(make("tr", {}, cell));
      }
      more.hidden = drawn.length === ordered.length;
      more.textContent = `Show all ${plural(ordered.length, "row")}`;
    }

    function line(row) {
      const cells = columns.map((column, index) => {
        const tag = index === 0 ? "th" : "td";
        const kind = [column.numeric ? "num" : "text", column.className ?? ""].join(" ").trim();
        const cell = make(tag, { class: kind });
        if (index === 0) cell.setAttribute("scope", "row");
        cell.append(column.cell(row));
        return cell;
      });
      const made = make("tr", {}, ...cells);
      if (selected?.(row)) made.className = "chosen";
      return made;
    }

    fill();
    host.replaceChildren(made, more);
    return { fill };
  }

  const sorting = {}; // by which column each table is sorted, kept while it is drawn anew

  /** Columns that tell rows apart; where there is little room, all but the name stand below it. */
  function keyColumns(named, more = [], without = "") {
    const known = [["device", "Device"], ["flags", "Flags"], ["shapes", "Arguments"]];
    const keys = [...known.filter(([key]) => view.shows[key] && key !== without), ...more];
    const below = (row) => make("span", { class: "below" },
      ...keys.filter(([key]) => row[key]).flatMap(([key], i) => [i ? " \u00b7 " : "", isolated(row[key])]));
    const cell = (row) => {
      const both = new DocumentFragment();
      both.append(named(row), below(row));
      return both;
    };
    return [{ title: "Function", value: (row) => row.name, cell }, ...keys.map(([key, title]) => (
      { title, className: "key", value: (row) => row[key], cell: (row) => isolated(row[key]) }))];
  }
  const nameOf = (group) => make("span", { class: "name" }, isolated(group.name || "(no name)"));
  const withLink = (named) => (row) => make("span", { class: "linked" }, named(row), ...link(row));

  // -- links ------------------------------------------------------------------------------------

  /** What names a row in the page's address: the function, and what else tells rows apart. */
  const anchorOf = (group, keys = ["device", "flags", "shapes"]) =>
    [group.name, ...keys.filter((key) => view.shows[key]).map((key) => group[key])].filter(Boolean).join(",");

  function link(row) {
    const anchor = anchorOf(row, row.settings ? ["device", "shapes"] : undefined);
    const attributes = { class: "link", href: `#${encodeURIComponent(anchor)}`, "aria-label": `Link to ${anchor}` };
    return linked(anchor) ? [make("a", attributes)] : [];
  }

  /** The row of a name; a function's name alone means its first row. */
  function linked(name) {
    const ways = [undefined, ["device", "shapes"], []];
    return ways.map((keys) => view.groups.find((g) => anchorOf(g, keys) === name)).find(Boolean);
  }

  function addressed() {
    const name = location.hash.slice(1);
    try { return linked(decodeURIComponent(name)); } catch { return linked(name); }
  }

  function follow(block) {
    const group = addressed();
    if (!group && location.hash) return;
    chosen = group || null;
    if (group) {
      if (!of(group)) metric = group.leads;
      at("metric").value = String(metric);
      at("find").value = "";
    }
    showSamples(Boolean(group));
    if (group) at("samples-table").querySelector("tr.chosen").scrollIntoView({ block });
  }

  // -- samples of one metric --------------------------------------------------------------------

  const OWN = -1; // each row by its leading metric
  const isSweep = view.groups.some((g) => g.function !== undefined);
  let metric = view.first;
  let chosen = null;
  let samplesTable = null;
  const metricOf = (group) => view.metrics[metric === OWN ? group.leads : metric];
  const kindOf = (group) => metricOf(group).kind;
  const of = (group) => group.metrics[metric === OWN ? group.leads : metric];
  const allOf = (one) => (one.values ? one.values : Array(one.n).fill(one.median));
  const varies = (one) => one.minimum !== one.maximum;

  function chooser(group, text) {
    const button = make("button", { type: "button", class: text ? "" : "name", "aria-pressed": String(group === chosen) }, isolated(text ?? (group.name || "(no name)")));
    button.addEventListener("click", () => { chosen = group; samplesTable.fill(); detail(); focusOn(group); });
    return button;
  }

  function focusOn(group) {
    const button = at("samples-table").querySelector("tr.chosen [aria-pressed=true]");
    if (button && chosen === group) button.focus();
  }

  function spreadBar(one, most, kind) {
    const percent = (value) => `${Math.max(0, Math.min(100, (100 * value) / most))}%`;
    const width = (low, high) => `${Math.max(0, (100 * (Math.max(0, high) - Math.max(0, low))) / most)}%`;
    const svg = draw("svg", { role: "img" });
    svg.append(draw("title", {}, one.minimum === one.maximum
      ? `all ${plural(one.n, "sample")}: ${shown(kind, one.median)}`
      : `median ${shown(kind, one.median)}, from ${shown(kind, one.minimum)} to ${shown(kind, one.maximum)}`));
    svg.append(draw("rect", { class: "bar", x: 0, y: 4, width: width(0, one.median), height: 10 }));
    if (one.minimum !== one.maximum) {
      svg.append(draw("rect", { class: "box", x: percent(one.p25), y: 4, width: width(one.p25, one.p75), height: 10 }));
      for (const [x1, x2, y1, y2] of [[one.p5, one.p95, 9, 9], [one.p5, one.p5, 6, 12], [one.p95, one.p95, 6, 12]]) {
        svg.append(draw("line", { class: "whisker", x1: percent(x1), x2: percent(x2), y1, y2 }));
      }
      for (const index of one.outliers.filter((i) => one.values[i] <= most).slice(0, 50)) {
        svg.append(draw("circle", { class: "out", cx: percent(one.values[index]), cy: 9, r: 2 }));
      }
      if (one.maximum > most) svg.append(draw("text", { class: "beyond", x: "100%", y: 14, "text-anchor": "end" }, "\u203a"));
    }
    svg.append(draw("line", { class: "mid", x1: percent(one.median), x2: percent(one.median), y1: 2, y2: 16 }));
    return svg;
  }

  /** How much the bars of a row's device span: counts of different boards have no common measure. */
  function scales(rows) {
    const key = (g) => `${metricOf(g).name} ${kindOf(g) === "count" ? g.device : ""}`;
    const spans = new Map();
    for (const scale of new Set(rows.map(key))) {
      const own = rows.filter((g) => key(g) === scale).map(of);
      // One noisy function would squeeze all others: what lies far beyond the medians is cut off.
      const most = Math.min(largest(own.map((one) => one.maximum)) * 1.02, largest(own.map((one) => one.median)) * 1.6);
      spans.set(scale, Math.max(1e-300, most));
    }
    at("scales").hidden = spans.size < 2;
    return (g) => spans.get(key(g));
  }

  /** The medians of earlier runs as a small line; what is within 2 % is nearly level. */
  function spark(kind, { runs: [from], medians }) {
    const [low, high] = [Math.min(...medians), Math.max(...medians)];
    const span = Math.max(high - low, 0.02 * Math.abs(high), 1e-300);
    const label = `${plural(medians.length, "run")} since ${from}: first ${shown(kind, medians[0])}, last ${shown(kind, medians.at(-1))}`;
    const svg = draw("svg", { class: "spark", role: "img", "aria-label": label, width: 84, height: 18 });
    const points = medians.map((v, i) => [2 + (80 * i) / (medians.length - 1), 9 + (12 * ((low + high) / 2 - v)) / span]);
    const [x, y] = points.at(-1);
    svg.append(draw("title", {}, label), draw("polyline", { points: points.join(" ") }), draw("circle", { cx: x, cy: y, r: 2 }));
    return svg;
  }

  function sampleColumns(rows) {
    const most = scales(rows);
    const number = (title, key) => ({
      title, numeric: true, value: (g) => of(g)[key], cell: (g) => shown(kindOf(g), of(g)[key]),
    });
    const spread = rows.some((g) => varies(of(g)));
    return [
      number("Median", "median"),
      spread || rows.length > 1 ? { title: spread ? "Spread of the samples" : "Size", className: spread ? "spread" : "spread level", cell: (g) => spreadBar(of(g), most(g), kindOf(g)) } : null,
      { title: "CV", numeric: true, value: (g) => of(g).cv ?? null, cell: (g) => (of(g).modelled ? "modelled" : of(g).exact ? "exact" : share(of(g).cv)) },
      ...(spread ? [number("Min", "minimum"), number("Max", "maximum")] : []),
      { title: "Samples", numeric: true, value: (g) => of(g).n, cell: (g) => of(g).n.toLocaleString("en-US") },
      rows.some((g) => of(g).history) ? { title: "Earlier runs", cell: (g) => (of(g).history ? spark(kindOf(g), of(g).history) : "") } : null,
    ].filter(Boolean);
  }

  /** A sweep: a row a function, a column a setting of flags. */
  function sweepLines(groups) {
    const lines = new Map();
    for (const of of groups) {
      const line = lines.get(of.function) ?? { ...of, settings: {} };
      line.settings[of.flags] = of;
      lines.set(of.function, line);
    }
    return [...lines.values()];
  }

  function settingColumns(groups) {
    const cell = (group) => {
      const { median, relative, best } = of(group);
      const both = new DocumentFragment();
      both.append(chooser(group, shown(kindOf(group), median)));
      if (relative) both.append(make("span", { class: best ? "ratio better" : "ratio" }, relative));
      return both;
    };
    return [...new Set(groups.map((g) => g.flags))].map((flags) => ({
      title: flags || "(no flags)", numeric: true, className: "setting",
      value: (line) => (line.settings[flags] ? of(line.settings[flags]).median : null),
      cell: (line) => (line.settings[flags] ? cell(line.settings[flags]) : ""),
    }));
  }

  function showSamples(all) {
    const part = at("find").value.trim().toLowerCase();
    const groups = view.groups.filter((g) => of(g) && g.name.toLowerCase().includes(part));
    const size = (a, b) => of(b).median - of(a).median;
    if (chosen && !groups.includes(chosen)) chosen = null;
    for (const g of groups) g.metric = metricOf(g).name;
    const devices = [...new Set(view.groups.map((g) => g.device))];
    const place = (g) => devices.indexOf(g.device);
    if (!isSweep) groups.sort((a, b) => (metric === OWN && (place(a) - place(b) || a.leads - b.leads)) || size(a, b));
    chosen ??= groups[0] ?? null;
    const keys = keyColumns(withLink(isSweep ? nameOf : chooser), metric === OWN ? [["metric", "Metric"]] : [], isSweep ? "flags" : "");
    const columns = [...keys, ...(isSweep ? settingColumns(groups) : sampleColumns(groups))];
    sorting[metric === OWN] ??= { column: metric === OWN || isSweep ? null : keys.length, sign: -1 };
    samplesTable = table(at("samples-table"), {
      caption: "Cost of a call", columns, rows: isSweep ? sweepLines(groups) : groups, all, sort: sorting[metric === OWN],
      selected: (row) => (row.settings ? Object.values(row.settings).includes(chosen) : row === chosen),
      none: part ? "No function's name has this in it." : "No function has this metric.",
    });
    const others = new Set(view.groups.filter((g) => !of(g)).map((g) => g.device));
    const lacking = [...others].filter((device) => !view.groups.some((g) => of(g) && g.device === device));
    at("lacking").hidden = !others.size;
    at("lacking").replaceChildren(...lacking.flatMap((device, i) => [i ? ", " : "", isolated(device)]),
      `${["Some functions have", " has"][lacking.length] ?? " have"} no `, isolated(view.metrics[metric]?.name), ".");
    at("legend").hidden = isSweep || !groups.some((g) => varies(of(g)));
    detail();
  }

  // -- one function -----------------------------------------------------------------------------

  function detail() {
    at("detail").hidden = chosen === null;
    if (chosen === null) return;
    dispatchEvent(new CustomEvent("chosen", { detail: chosen }));
    const one = of(chosen);
    const { name, kind } = metricOf(chosen);
    const where = [chosen.device, chosen.flags, chosen.shapes].filter(Boolean);
    at("detail-title").replaceChildren(nameOf(chosen), " \u2014 ", isolated(name), " per call");
    for (const text of where) at("detail-title").append(make("span", { class: "soft" }, ", ", isolated(text)));
    const figures = [["Median", shown(kind, one.median)]];
    if (varies(one)) {
      figures.push(
        ["Mean", shown(kind, one.mean)], ["Std. dev.", shown(kind, one.stddev)], ["CV", share(one.cv) || "\u2014"],
        ["Minimum", shown(kind, one.minimum)], ["Maximum", shown(kind, one.maximum)],
        one.modes ? ["Two parts", one.modes] : ["Outliers", one.outliers.length.toLocaleString("en-US")]);
    }
    figures.push(["Samples", one.n.toLocaleString("en-US")]);
    const base = view.groups.find((g) => g.function === chosen.function);
    if (one.relative && base !== chosen) figures.push([`Relative to ${base.flags || "no flags"}`, one.relative]);
    if (one.first !== null) figures.push(["First, cold", shown(kind, one.first)]);
    if (one.history) {
      const { runs: [from], medians } = one.history;
      figures.push([`${plural(medians.length, "run")} since ${from}`, spark(kind, one.history), ` ${shown(kind, medians[0])} \u2192 ${shown(kind, medians.at(-1))}`]);
    }
    at("figures").replaceChildren(...figures.map(([term, ...texts]) => make("div", {}, make("dt", {}, term), make("dd", {}, ...texts))));
    trend(at("trend"), at("trend-figure"), one.history, kind);
    at("alike").hidden = varies(one);
    at("charts").hidden = !varies(one);
    if (!varies(one)) {
      const all = one.n === 1 ? "there is one sample" : `all ${plural(one.n, "sample")} are alike`;
      at("alike").textContent = one.modelled ? `Modelled, see the configuration: ${all}.` : one.exact ? `Exact: ${all}.` : `${all[0].toUpperCase()}${all.slice(1)}.`;
      return;
    }
    const values = allOf(one);
    histogram(at("histogram"), at("histogram-title"), one, values, kind);
    runOrder(at("order"), at("order-title"), one, values, kind);
  }

  function ticks(low, high, count) {
    const rough = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough) ?? rough;
    const found = [];
    for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) found.push(Number(value.toPrecision(12)));
    return found;
  }

  function chart(host, height, label) {
    const width = Math.max(240, host.clientWidth);
    const svg = draw("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label });
    host.replaceChildren(svg);
    return { svg, width };
  }

  /** From where to where a picture reaches: a few far outliers would squeeze all others. */
  function reach(one, values) {
    const box = one.p75 - one.p25;
    if (box === 0) return [one.minimum, one.maximum];
    const [low, high] = [Math.min(one.p5, one.p25 - 6 * box), Math.max(one.p95, one.p75 + 6 * box)];
    return [
      values.reduce((least, v) => (v >= low && v < least ? v : least), one.median),
      values.reduce((most, v) => (v <= high && v > most ? v : most), one.median),
    ];
  }

  function beyondText(below, above) {
    const told = [[below, "below"], [above, "above"]].filter(([n]) => n).map(([n, where]) => `${n.toLocaleString("en-US")} ${where}`);
    return told.length ? `; beyond the picture: ${told.join(", ")}` : "";
  }

  function bins(one, values, kind) {
    const box = one.p75 - one.p25;
    let [low, high] = reach(one, values);
    const whole = kind === "count" && values.every(Number.isInteger);
    let count = box > 0 ? Math.ceil((high - low) / ((2 * box) / Math.cbrt(values.length))) : Math.ceil(Math.sqrt(values.length));
    count = Math.max(5, Math.min(50, count));
    let size = (high - low) / count;
    if (whole) { // a bin holds whole numbers
      [low, high] = [Math.floor(low), Math.ceil(high)];
      size = Math.max(1, Math.ceil((high - low + 1) / count));
      count = Math.ceil((high - low + 1) / size);
      low -= 0.5;
    }
    const counts = Array(count).fill(0);
    let [below, above] = [0, 0];
    for (const value of values) {
      const index = Math.floor((value - low) / size);
      if (value < low) below += 1;
      else if (index >= count && value > low + count * size * (1 + 1e-12)) above += 1;
      else counts[Math.min(count - 1, index)] += 1;
    }
    return { low, size, counts, below, above };
  }

  function histogram(host, title, one, values, kind) {
    const { low, size, counts, below, above } = bins(one, values, kind);
    title.textContent = `Histogram${beyondText(below, above)}`;
    const { svg, width } = chart(host, 190, `Histogram of ${plural(one.n, "sample")}`);
    const [left, right, top, bottom] = [40, width - 12, 10, 160];
    const most = Math.max(...counts);
    const end = low + size * counts.length;
    const x = (value) => left + ((value - low) / (end - low)) * (right - left);
    const y = (value) => bottom - (value / most) * (bottom - top);
    for (const tick of ticks(0, most, 3).filter(Number.isInteger)) {
      svg.append(draw("line", { class: "grid", x1: left, x2: right, y1: y(tick), y2: y(tick) }));
      svg.append(draw("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, tick.toLocaleString("en-US")));
    }
    counts.forEach((n, index) => {
      if (!n) return;
      const begin = x(low + index * size);
      const bar = draw("rect", { class: "column", x: begin + 0.5, y: y(n), width: Math.max(1, x(low + (index + 1) * size) - begin - 1), height: bottom - y(n) });
      bar.append(draw("title", {}, plural(n, "sample")));
      svg.append(bar);
    });
    svg.append(draw("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }));
    scaleBelow(svg, low, end, x, bottom, width);
    svg.append(draw("line", { class: "median", x1: x(one.median), x2: x(one.median), y1: top, y2: bottom }));
  }

  function scaleBelow(svg, low, high, x, bottom, width) {
    for (const tick of ticks(low, high, Math.max(2, Math.floor(width / 110)))) {
      svg.append(draw("line", { class: "axis", x1: x(tick), x2: x(tick), y1: bottom, y2: bottom + 4 }));
      svg.append(draw("text", { x: Math.min(x(tick), width - 16), y: bottom + 18, "text-anchor": "middle" }, short.format(tick)));
    }
  }

  function runOrder(host, title, one, values, kind) {
    const { svg, width } = chart(host, 190, `${plural(one.n, "sample")} in run order`);
    const [least, most] = reach(one, values);
    const pad = (most - least) * 0.06 || Math.max(1, Math.abs(one.median) * 0.05);
    const [low, high] = [least - pad, most + pad];
    const beyond = beyondText(values.filter((v) => v < least).length, values.filter((v) => v > most).length);
    const labels = ticks(low, high, 4);
    const longest = Math.max(...labels.map((tick) => short.format(tick).length));
    const [left, right, top, bottom] = [14 + 7 * longest, width - 12, 10, 160];
    const last = Math.max(1, values.length - 1);
    const x = (index) => left + 6 + (index / last) * (right - left - 12);
    const inside = (value) => (value > most ? high : value < least ? low : value);
    const y = (value) => bottom - ((inside(value) - low) / (high - low)) * (bottom - top);
    for (const tick of labels) {
      const height = bottom - ((tick - low) / (high - low)) * (bottom - top);
      svg.append(draw("line", { class: "grid", x1: left, x2: right, y1: height, y2: height }));
      svg.append(draw("text", { x: left - 6, y: height + 4, "text-anchor": "end" }, short.format(tick)));
    }
    svg.append(draw("line", { class: "median", x1: left, x2: right, y1: y(one.median), y2: y(one.median) }));
    const outliers = new Set(one.outliers);
    const dot = (value, index) => {
      const made = draw("circle", { class: outliers.has(index) ? "out" : "dot", cx: x(index), cy: y(value), r: values.length > 300 ? 1.5 : 3 });
      made.append(draw("title", {}, `sample #${index}: ${shown(kind, value)}`));
      svg.append(made);
    };
    if (values.length <= DOTS) {
      title.textContent = `In run order${beyond}`;
      values.forEach(dot);
    } else {
      const each = Math.ceil(values.length / Math.floor((right - left) / 2));
      title.textContent = `In run order; each line spans ${plural(each, "sample")}, smallest to largest${beyond}`;
      const parts = [];
      for (let begin = 0; begin < values.length; begin += each) {
        let [smallest, greatest] = [Infinity, -Infinity];
        for (let i = begin; i < Math.min(values.length, begin + each); i++) {
          smallest = Math.min(smallest, values[i]);
          greatest = Math.max(greatest, values[i]);
        }
        const place = x(begin + each / 2);
        parts.push(`M${place.toFixed(1)} ${(y(smallest) + 0.75).toFixed(1)}V${(y(greatest) - 0.75).toFixed(1)}`);
        if (smallest < least || greatest > most) svg.append(draw("circle", { class: "out", cx: place, cy: greatest > most ? top : bottom, r: 2 }));
      }
      svg.append(draw("path", { class: "range", d: parts.join("") }));
    }
    svg.append(draw("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }));
    for (const index of new Set([0, Math.floor(last / 2), values.length - 1])) {
      const isLast = index > 0 && index === values.length - 1; // its text ends with the picture
      svg.append(draw("text", { x: isLast ? width : x(index), y: bottom + 18, "text-anchor": isLast ? "end" : "middle" }, `#${index}`));
    }
  }

  /** The medians of runs in their order, with the places where they changed. */
  function trend(host, figure, history, kind) {
    figure.hidden = !history;
    if (!history) return;
    const { runs, medians, usual, since, changes = [] } = history;
    at("trend-title").textContent = `Medians of the runs up to this one${usual ? "; the band is one spread around the usual median" : ""}`;
    const { svg, width } = chart(host, 190, `Median of ${plural(medians.length, "run")}, ${plural(changes.length, "change")}`);
    const [least, most] = [Math.min(...medians), Math.max(...medians)];
    const pad = Math.max((most - least) * 0.12, Math.abs(most) * 0.01, 1e-300);
    const [low, high] = [least - pad, most + pad];
    const labels = ticks(low, high, 4);
    const longest = Math.max(...labels.map((tick) => short.format(tick).length));
    const [left, right, top, bottom] = [14 + 7 * longest, width - 12, 10, 160];
    const x = (index) => left + 6 + (index / (medians.length - 1)) * (right - left - 12);
    const y = (value) => bottom - ((Math.min(high, Math.max(low, value)) - low) / (high - low)) * (bottom - top);
    for (const tick of labels) {
      svg.append(draw("line", { class: "grid", x1: left, x2: right, y1: y(tick), y2: y(tick) }));
      svg.append(draw("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, short.format(tick)));
    }
    if (usual) svg.append(draw("rect", { class: "usual", x: x(since), y: y(usual[1]), width: x(medians.length - 1) - x(since), height: y(usual[0]) - y(usual[1]) }));
    svg.append(draw("polyline", { class: "trend", points: medians.map((value, index) => `${x(index)},${y(value)}`).join(" ") }));
    for (const { at: index } of changes) svg.append(draw("line", { class: "median", x1: x(index - 0.5), x2: x(index - 0.5), y1: top, y2: bottom }));
    medians.forEach((value, index) => {
      const dot = draw("circle", { class: changes.some((one) => one.at === index) ? "out" : "dot", cx: x(index), cy: y(value), r: 3 });
      dot.append(draw("title", {}, `${runs[index]}: ${shown(kind, value)}`));
      svg.append(dot);
    });
    svg.append(draw("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }));
    svg.append(draw("text", { x: left, y: bottom + 18 }, runs[0]), draw("text", { x: width, y: bottom + 18, "text-anchor": "end" }, runs.at(-1)));
    host.append(...changes.map(({ at: index, before, after }) =>
      make("p", { class: "soft" }, `Changed from ${shown(kind, before)} to ${shown(kind, after)} at `, isolated(runs[index]), ".")));
  }

  // -- all metrics ------------------------------------------------------------------------------

  function showMetrics() {
    const part = at("find").value.trim().toLowerCase();
    const rows = view.groups.filter((g) => g.name.toLowerCase().includes(part));
    const keys = keyColumns(nameOf);
    const used = view.metrics.map((_, index) => index).filter((index) =>
      view.groups.some((g) => g.metrics[index]) || view.totals.some((t) => t.metrics[index] !== undefined));
    const columns = used.map((index) => ({
      title: view.metrics[index].name, numeric: true,
      value: (g) => g.metrics[index]?.median ?? null,
      cell: (g) => shown(view.metrics[index].kind, g.metrics[index]?.median),
    }));
    const foot = view.totals.map((total) => make("tr", {},
      make("th", { scope: "row", colspan: keys.length }, "Total of ", isolated(total.device)),
      ...used.map((index) => make("td", { class: "num" }, shown(view.metrics[index].kind, total.metrics[index])))));
    const first = used.indexOf(view.first);
    table(at("metrics-table"), {
      caption: "All metrics", columns: [...keys, ...columns], rows, foot,
      sort: sorting.metrics ??= first < 0 || isSweep ? { column: null, sign: 1 } : { column: keys.length + first, sign: -1 },
    });
  }

  // -- what changed -----------------------------------------------------------------------------

  const VERDICTS = { worse: "\u25b2 worse", better: "\u25bc better", changed: "changed", same: "same", noise: "within noise", "within overhead": "within overhead", "too few samples": "too few samples", "other calls": "other calls", "other inputs": "other inputs", doubtful: "doubtful", added: "+ added", removed: "\u2212 removed" };
  const WEIGHT = { worse: 7, better: 6, changed: 5, removed: 4, added: 3, doubtful: 2, "too few samples": 2, "other calls": 2, "other inputs": 2, "within overhead": 1, noise: 1, same: 0 };

  function deltaBar(change, verdict, most) {
    const svg = draw("svg", { "aria-hidden": "true" });
    if (change !== null && typeof change === "number") {
      const size = Math.min(50, (50 * Math.abs(change)) / most);
      const kind = { worse: "grow", better: "shrink" }[verdict] ?? "even";
      svg.append(draw("rect", { class: kind, x: `${change < 0 ? 50 - size : 50}%`, y: 4, width: `${size}%`, height: 10 }));
    }
    svg.append(draw("line", { class: "whisker", x1: "50%", x2: "50%", y1: 2, y2: 16 }));
    return svg;
  }

  const signed = (change) => (typeof change !== "number" ? change ?? "" : `${change > 0 ? "+" : change < 0 ? "\u2212" : ""}${share(Math.abs(change))}`);

  function showChanges() {
    const only = at("only-changed").checked;
    const size = (d) => (typeof d.change === "number" ? Math.abs(d.change) : Infinity);
    const rows = view.changes.rows.filter((d) => !only || !["same", "noise"].includes(d.verdict));
    rows.sort((a, b) => (size(b) > size(a)) - (size(b) < size(a))); // the largest of each verdict first
    const finite = view.changes.rows.map((d) => d.change).filter((c) => typeof c === "number").map(Math.abs);
    const most = Math.max(1e-9, largest(finite));
    const verdict = (d) => {
      const made = make("span", { class: d.verdict }, VERDICTS[d.verdict] ?? d.verdict);
      if (d.rule) made.append(", breaks ", isolated(d.rule));
      return made;
    };
    const columns = [
      ...keyColumns(withLink(nameOf), [["metric", "Metric"]]),
      { title: "Change", numeric: true, value: (d) => (typeof d.change === "number" ? d.change : null), cell: (d) => {
        const both = new DocumentFragment();
        both.append(make("span", { class: d.verdict }, signed(d.change)), make("span", { class: "below" }, verdict(d)));
        return both;
      } },
      { title: "\u2212 | +", className: "delta key", cell: (d) => deltaBar(d.change, d.verdict, most) },
      { title: "Before", numeric: true, value: (d) => d.before, cell: (d) => shown(d.kind, d.before) },
      { title: "After", numeric: true, value: (d) => d.after, cell: (d) => shown(d.kind, d.after) },
      { title: "p", numeric: true, value: (d) => d.p, cell: (d) => (d.modelled ? "modelled" : d.exact ? "exact" : d.p === null ? "" : d.p < 0.001 ? "<\u20090.001" : d.p.toFixed(3)) },
      { title: "Verdict", className: "key", value: (d) => String(9 - WEIGHT[d.verdict]), cell: verdict },
    ];
    table(at("changes-table"), {
      caption: "What changed", columns, rows, sort: sorting.changes ??= { column: columns.length - 1, sign: 1 },
      none: "Nothing differs.",
    });
  }

  function showSides() {
    const { before, after, facts, means, notes, rows } = view.changes;
    const counted = Object.keys(VERDICTS).map((verdict) => [verdict, rows.filter((d) => d.verdict === verdict).length]);
    at("verdicts").replaceChildren(...counted.filter(([, n]) => n).map(([verdict, n]) =>
      make("span", { class: verdict }, make("b", {}, n.toLocaleString("en-US")), ` ${VERDICTS[verdict].replace(/^\W /, "")}`)));
    at("means").hidden = !means.length;
    at("means").replaceChildren("Geometric mean: ", ...means.flatMap(({ metric, device, change, of }, i) => [
      i ? "; " : "", isolated(metric), " ", make("b", {}, signed(change)), ` over ${of}`, ...(view.shows.device ? [" on ", isolated(device)] : [])]), ".");
    at("changes-note").replaceChildren(isolated(after), " against ", isolated(before), ".", ...notes.flatMap((note) => [make("br"), isolated(note)]));
    at("runs").hidden = !facts.length;
    const row = (tag, [name, ...sides]) => make("tr", {}, make("th", { scope: "row" }, isolated(name)), ...sides.map((side) => make(tag, {}, isolated(side))));
    at("changes-facts").append(make("table", { class: "facts-table", "aria-label": "The two runs" },
      make("thead", {}, row("th", ["", "Before", "After"])), make("tbody", {}, ...facts.map((each) => row("td", each)))));
  }

  // -- the Report itself ------------------------------------------------------------------------

  async function reportText() {
    const element = at("boardprof-report");
    if (element.type === "application/json") return element.textContent;
    const packed = Uint8Array.from(atob(element.textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  async function save() {
    try {
      const url = URL.createObjectURL(new Blob([await reportText()], { type: "application/json" }));
      make("a", { href: url, download: "report.json" }).click();
      setTimeout(() => URL.revokeObjectURL(url), 10000);
    } catch (error) {
      at("saved").textContent = `It could not be taken out here: ${error}`;
    }
  }

  // -- start ------------------------------------------------------------------------------------

  for (const [index, { name }] of view.metrics.entries()) {
    if (view.groups.some((g) => g.metrics[index])) at("metric").append(make("option", { value: index }, name));
  }
  if (new Set(view.groups.map((g) => g.leads)).size > 1) at("metric").prepend(make("option", { value: OWN }, "each row's own"));
  at("metric").value = String(metric);
  at("metric").addEventListener("change", () => { metric = Number(at("metric").value); showSamples(); });
  at("find").addEventListener("input", () => { showSamples(); showMetrics(); });
  at("save").addEventListener("click", save);
  if (view.groups.some(of)) showSamples();
  else at("samples").hidden = true;
  if (view.groups.length || view.totals.length) showMetrics();
  else at("metrics").hidden = true;
  if (view.changes) {
    at("changes").hidden = false;
    showSides();
    at("only-changed").checked = view.changes.rows.some((d) => !["same", "noise"].includes(d.verdict));
    at("only-changed").addEventListener("change", showChanges);
    showChanges();
  }
  at("samples").parentNode.addEventListener("keydown", (event) => { // arrows go from row to row
    const step = { ArrowDown: "nextSibling", ArrowUp: "previousSibling" }[event.key];
    const cell = event.target.closest("tbody th, tbody td");
    const next = step && cell?.parentNode[step]?.cells[cell.cellIndex].querySelector(event.target.localName);
    if (!next) return;
    event.preventDefault();
    next.focus();
  });
  if (addressed()) follow("center");
  addEventListener("hashchange", () => follow("nearest"));
  addEventListener("beforeprint", () => { // paper has no buttons
    document.querySelectorAll("details").forEach((each) => { each.open = true; });
    document.querySelectorAll("table + .more:not([hidden])").forEach((each) => each.click());
  });
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width && chosen) { width = innerWidth; detail(); }
  });
  window.boardprof = { at, make, draw, isolated, fixed, table, view, chosen: () => chosen }; // for profile.js
})();
