/* SPDX-License-Identifier: Apache-2.0 */
/* Where a call's cost is: a flame graph, the functions, and the source. Only in pages that have it. */
(() => {
  const { at, make, draw, isolated, fixed, table, view } = window.boardprof;
  const WIDTH = 1000; // of the drawing, in its own units
  const HEIGHT = 22; // of a frame
  const LEAST = 1.2; // narrower frames are not drawn
  const LETTER = 7.3; // width of one
  const PAPER = 700; // pixels of A4 between its margins (794 less 2 x 47)

  let call; // what is shown
  let metric;
  let tree; // its nodes
  let top; // the node that has the whole width
  let focused;
  let side = 0; // whose costs are the widths: 0 this run, 1 the older one

  const count = (value) => value.toLocaleString("en-US");
  const percent = (value) => {
    const whole = call.totals[side][metric];
    const share = whole ? (100 * value) / whole : 0;
    return share > 0 && share < 0.05 ? "<\u20090.1\u2009%" : `${fixed(share, 1)}\u2009%`;
  };
  const hasBefore = () => call.totals.length > 1;

  // -- the tree ---------------------------------------------------------------------------------

  /** Nodes with their costs of the chosen metric: total[side] has what is below, too. */
  function grow() {
    tree = call.nodes.map(([parent, name, place, ...own], index) => ({
      index, parent, name, place, children: [], depth: 0,
      self: own.map((costs) => costs[metric]), total: own.map((costs) => costs[metric]),
    }));
    for (const node of tree.slice().reverse()) { // children come after their parents
      if (node.parent < 0) continue;
      const parent = tree[node.parent];
      parent.children.unshift(node);
      node.total.forEach((cost, i) => { parent.total[i] += cost; });
    }
    for (const node of tree) {
      node.depth = node.parent < 0 ? 0 : tree[node.parent].depth + 1;
      node.children.sort((a, b) => Math.max(...b.total) - Math.max(...a.total));
    }
    top = tree[0];
    focused = top;
  }

  const above = (node) => (node.parent < 0 ? [] : [...above(tree[node.parent]), tree[node.parent]]);
  const change = (node) => node.total[0] - node.total[1];
  const matches = (node) => {
    const part = at("frame-find").value.trim().toLowerCase();
    return part !== "" && node.name.toLowerCase().includes(part);
  };

  /** How much of the call is in frames that match, each counted once. */
  function matched() {
    const found = (node) => (matches(node) ? node.total[side] : node.children.reduce((sum, each) => sum + found(each), 0));
    return found(tree[0]);
  }

  function tint(node) {
    if (matches(node)) return "match";
    if (!hasBefore()) return `heat${Math.min(4, Math.floor((5 * node.self[0]) / Math.max(1, call.totals[0][metric])))}`;
    const share = change(node) / Math.max(1, ...call.totals.map((each) => each[metric]));
    const strength = Math.abs(share) > 0.2 ? 3 : Math.abs(share) > 0.02 ? 2 : 1;
    return share === 0 ? "heat0" : `${share > 0 ? "grew" : "shrank"}${strength}`;
  }

  function told(node) {
    const costs = `${count(node.total[0])} (${percent(node.total[side])}), itself ${count(node.self[0])}`;
    const before = hasBefore() ? `; before ${count(node.total[1])}, ${signedCount(change(node))}` : "";
    return `${node.name}: ${costs}${before}${node.place ? `; ${node.place}` : ""}`;
  }
  const signedCount = (value) => `${value > 0 ? "+" : value < 0 ? "\u2212" : "\u00b1"}${count(Math.abs(value))}`;

  // -- the flame graph --------------------------------------------------------------------------

  function flame(pixels = at("flame").clientWidth || WIDTH) {
    const shown = []; // [node, x, width], parents first
    const line = above(top);
    for (const node of line) shown.push([node, 0, WIDTH]);
    const place = (node, x, width) => {
      if (width < LEAST) return;
      shown.push([node, x, width]);
      const whole = node.total[side];
      for (const child of whole ? node.children : []) {
        const part = (width * child.total[side]) / whole;
        place(child, x, part);
        x += part;
      }
    };
    place(top, 0, WIDTH);
    const rows = Math.max(...shown.map(([node]) => node.depth)) + 1;
    const svg = draw("svg", { class: "flame", viewBox: `0 0 ${WIDTH} ${rows * HEIGHT}`, role: "group", "aria-label": "Flame graph", preserveAspectRatio: "none" });
    svg.style.height = `${rows * HEIGHT}px`;
    const scale = pixels / WIDTH;
    if (!shown.some(([node]) => node === focused)) focused = top;
    for (const [node, x, width] of shown) {
      const frame = draw("g", { class: `frame ${tint(node)}${line.includes(node) ? " above" : ""}`, role: "button", tabindex: node === focused ? 0 : -1, "aria-label": told(node) });
      frame.append(draw("rect", { x, y: node.depth * HEIGHT, width: Math.max(LEAST, width - 0.6), height: HEIGHT - 1 }));
      const room = Math.floor((width * scale - 8) / LETTER);
      if (room >= 3) {
        const text = node.name.length > room ? `${node.name.slice(0, room - 1)}\u2026` : node.name;
        // The drawing is stretched to the page's width, its letters are not.
        const label = draw("text", { x: x * scale + 4, y: node.depth * HEIGHT + 15, transform: `scale(${1 / scale} 1)` }, text);
        frame.append(label);
      }
      frame.append(draw("title", {}, told(node)));
      frame.addEventListener("click", () => zoom(node));
      frame.addEventListener("focus", () => { focused = node; say(node); });
      frame.addEventListener("mouseenter", () => say(node));
      node.drawn = frame;
      svg.append(frame);
    }
    at("flame").replaceChildren(svg);
    at("zoom-out").hidden = top === tree[0];
    const part = at("frame-find").value.trim();
    at("matched").textContent = part ? `${percent(matched())} in frames with \u201c${part}\u201d` : "";
  }

  function say(node) {
    at("frame").replaceChildren(isolated(told(node)));
  }

  function zoom(node) {
    top = node;
    focused = node;
    flame();
    node.drawn.focus();
    say(node);
  }

  function walk(event) {
    const siblings = focused.parent < 0 ? [focused] : tree[focused.parent].children;
    const drawn = (nodes) => nodes.filter((each) => each.drawn?.isConnected);
    const here = drawn(siblings);
    const ways = {
      ArrowDown: () => drawn(focused.children)[0],
      ArrowUp: () => tree[focused.parent],
      ArrowRight: () => here[here.indexOf(focused) + 1],
      ArrowLeft: () => here[here.indexOf(focused) - 1],
      Home: () => tree[0],
    };
    const key = event.key;
    if (ways[key]) {
      event.preventDefault();
      const next = ways[key]();
      if (!next) return;
      focused.drawn.setAttribute("tabindex", -1);
      focused = next;
      next.drawn.setAttribute("tabindex", 0);
      next.drawn.focus();
    } else if (key === "Enter" || key === " ") {
      event.preventDefault();
      zoom(focused);
    } else if (key === "Escape") {
      event.preventDefault();
      zoom(tree[0]);
    }
  }

  // -- functions and source ---------------------------------------------------------------------

  function functions() {
    const rows = call.functions.map((each) => ({
      name: each.name, place: each.place, calls: each.calls[0],
      self: each.self[0][metric], total: each.total[0][metric], interval: each.interval,
      change: hasBefore() ? each.self[0][metric] - each.self[1][metric] : null,
    })).filter((each) => each.self || each.calls || each.change);
    const number = (title, key) => ({ title, numeric: true, value: (row) => row[key], cell: (row) => count(row[key]) });
    const counted = [
      number("Total", "total"),
      { title: "Calls", numeric: true, value: (row) => row.calls, cell: (row) => (row.calls ? count(row.calls) : "") },
    ];
    const sampled = [{ title: "95 % interval", numeric: true, value: (row) => row.self, cell: (row) => row.interval }];
    const columns = [
      { title: "Function", value: (row) => row.name, cell: (row) => finder(row.name) },
      number("Self", "self"),
      { title: "Self %", numeric: true, value: (row) => row.self, cell: (row) => percent(row.self) },
      ...(hasBefore() ? [{ title: "Change", numeric: true, value: (row) => Math.abs(row.change), cell: (row) => changed(row.change) }] : []),
      ...(call.sampled ? sampled : counted),
      { title: "Where", className: "key", value: (row) => row.place, cell: (row) => isolated(row.place) },
    ];
    const by = columns.findIndex((each) => each.title === (hasBefore() ? "Change" : "Self"));
    table(at("functions-table"), { caption: "Functions of the call", columns, rows, sort: { column: by, sign: -1 } });
  }

  function finder(name) {
    const button = make("button", { type: "button", class: "name" }, isolated(name));
    button.addEventListener("click", () => { at("frame-find").value = name; flame(); source(name); });
    return button;
  }

  function changed(value) {
    return make("span", { class: value > 0 ? "worse" : value < 0 ? "better" : "soft" }, value ? signedCount(value) : "");
  }

  /** The sources, that which costs most first; lines of one function are marked. */
  function source(marked = "") {
    const costs = ([, , , , ...by]) => by[metric] ?? [0, 0];
    const files = call.files.map((file) => ({ ...file, cost: file.rows.reduce((sum, row) => sum + Math.max(...costs(row)), 0) }));
    files.sort((a, b) => b.cost - a.cost);
    at("source").replaceChildren(...files.filter((file) => file.cost).map((file) => {
      const most = Math.max(...file.rows.map((row) => Math.max(...costs(row))));
      const body = make("tbody");
      let last = null;
      for (const row of file.rows) {
        const [number, text, name, times] = row;
        const [before, after] = costs(row);
        if (last !== null && number && number !== last + 1) body.append(make("tr", { class: "gap" }, make("td", { colspan: 5 })));
        if (number) last = number;
        const heat = after && most ? Math.ceil((4 * after) / most) : 0;
        const cells = [
          make("td", { class: "num soft" }, number ? String(number) : "\u2212"),
          make("td", { class: `num heat${heat}` }, after ? count(after) : ""),
          ...(hasBefore() ? [make("td", { class: "num" }, changed(after - before))] : []),
          make("td", { class: "num soft" }, times ? `${count(times)}\u00d7` : ""),
          make("td", { class: "code" }, make("code", {}, isolated(text))),
        ];
        body.append(make("tr", { class: `${number ? "" : "gone"}${marked && name === marked ? " chosen" : ""}` }, ...cells));
      }
      const head = ["Line", "Self", ...(hasBefore() ? ["Change"] : []), "Times", "Source"];
      const heads = head.map((title, i) => make("th", { scope: "col", class: i < head.length - 1 ? "num" : "" }, title));
      return make("figure", {}, make("figcaption", {}, isolated(file.name)),
        make("div", { class: "scroll" }, make("table", { class: "source", "aria-label": `Source of ${file.name}` }, make("thead", {}, make("tr", {}, ...heads)), body)));
    }));
  }

  // -- start ------------------------------------------------------------------------------------

  function show() {
    grow();
    at("widths-of").hidden = !hasBefore();
    if (!hasBefore()) side = 0;
    at("call-note").replaceChildren(...call.notes[metric].flatMap((note, i) => [i ? "; " : "", isolated(note)]), ".");
    flame();
    say(top);
    functions();
    source();
  }

  function choose() {
    call = view.profiles[Number(at("call").value)];
    metric = call.first;
    at("call-metric").replaceChildren(...call.metrics.map((name, value) => make("option", { value }, name)));
    at("call-metric").value = String(metric);
    show();
  }

  /** Show the call of a row, if it has a profile. */
  function showCallOf(group) {
    const isOf = ({ row }) => group && Object.keys(row).every((key) => row[key] === group[key]);
    const found = view.profiles.findIndex(isOf);
    if (found < 0 || view.profiles[found] === call) return;
    at("call").value = String(found);
    choose();
  }

  at("hotspots").hidden = false;
  const many = new Set(view.profiles.map((each) => each.device)).size > 1;
  at("call").append(...view.profiles.map((each, value) => make("option", { value }, many ? `${each.name} on ${each.device}` : each.name)));
  at("call").addEventListener("change", choose);
  at("call-metric").addEventListener("change", () => { metric = Number(at("call-metric").value); show(); });
  at("widths").addEventListener("change", () => { side = Number(at("widths").value); flame(); functions(); });
  at("frame-find").addEventListener("input", () => flame());
  at("zoom-out").addEventListener("click", () => zoom(tree[0]));
  at("flame").addEventListener("keydown", walk);
  choose();
  showCallOf(window.boardprof.chosen());
  addEventListener("chosen", (event) => showCallOf(event.detail));
  addEventListener("beforeprint", () => flame(PAPER));
  addEventListener("afterprint", () => flame());
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; flame(); } });
})();
