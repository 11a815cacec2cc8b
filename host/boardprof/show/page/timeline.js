/* SPDX-License-Identifier: Apache-2.0 */
"use strict"; // the page has it without what lines begin with: no text may go over two lines
(() => {
  const at = (id) => document.getElementById(id);
  const view = JSON.parse(at("boardprof-view").textContent);
  const ROW = 20; // height of a row of slices
  const LINE = 44; // height of a counter
  const LABEL = 18; // height of a track's title
  const LEAST = 40; // of the whole's units, what is shown at least
  const STEP = 0.2; // of what is shown, how far a key moves

  const host = at("timeline");
  const canvas = document.createElement("canvas");
  host.append(canvas);
  const pen = canvas.getContext("2d");

  // -- the tracks -------------------------------------------------------------------------------

  /** Numbers that are stored as differences to the one before. */
  function sums(steps) {
    let sum = 0;
    return Float64Array.from(steps, (step) => (sum += step));
  }

  for (const track of view.tracks) {
    track.lanes = track.lanes.map(([steps, lengths, names, depths]) => {
      const begin = sums(steps);
      return { begin, end: begin.map((time, i) => time + lengths[i]), names, depths, rows: 1 + Math.max(-1, ...new Set(depths)) };
    });
    if (track.marks) track.marks = { time: sums(track.marks[0]), names: track.marks[1] };
    if (track.values) track.values = { time: sums(track.values[0]), value: track.values[1] };
  }
  const heightOf = (track) => LABEL + (track.values ? LINE : ROW * (track.lanes.reduce((sum, lane) => sum + lane.rows, 0) || 1)) + 6;

  /** The first index whose value is above a time. */
  function after(times, time) {
    let [low, high] = [0, times.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle] <= time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // -- texts ------------------------------------------------------------------------------------

  const isNs = view.unit === "ns";
  function shown(value) {
    if (!isNs) return `${Math.round(value).toLocaleString("en-US")} ${view.unit}`;
    const [size, unit] = value >= 1e9 ? [1e9, "s"] : value >= 1e6 ? [1e6, "ms"] : value >= 1e3 ? [1e3, "\u00b5s"] : [1, "ns"];
    return `${(value / size).toLocaleString("en-US", { maximumFractionDigits: 3 })}\u00a0${unit}`;
  }

  /** What an event of a track is, in words. */
  function told(track, event) {
    const where = `${track.title}: `;
    if (event.kind === "slice") return `${where}${view.names[event.name]}, ${shown(event.end - event.time)} from ${shown(event.time)}`;
    if (event.kind === "mark") return `${where}${view.names[event.name]} at ${shown(event.time)}`;
    const value = event.value === null ? "not a number" : event.value.toLocaleString("en-US", { maximumFractionDigits: 6 });
    return `${where}${value}${track.unit ? ` ${track.unit}` : ""} at ${shown(event.time)}`;
  }

  function say(text) {
    const isolated = document.createElement("bdi");
    isolated.textContent = text;
    at("event").replaceChildren(isolated);
  }

  // -- events -----------------------------------------------------------------------------------

  /** The events of a track in the order of time. */
  function eventsOf(track) {
    track.events ??= [
      ...track.lanes.flatMap((lane) => Array.from(lane.begin, (time, i) => ({ kind: "slice", time, end: lane.end[i], name: lane.names[i], depth: lane.depths[i] }))),
      ...Array.from(track.marks?.time ?? [], (time, i) => ({ kind: "mark", time, end: time, name: track.marks.names[i] })),
      ...Array.from(track.values?.time ?? [], (time, i) => ({ kind: "value", time, end: time, value: track.values.value[i] })),
    ].sort((a, b) => a.time - b.time || b.end - a.end);
    return track.events;
  }

  /** The event of a track at a time: the innermost slice, else the last mark or value before it. */
  function eventAt(track, time, depth) {
    const near = (to - from) / Math.max(1, canvas.clientWidth) * 4;
    let found = null;
    if (track.values) {
      const i = after(track.values.time, time) - 1;
      return i < 0 ? null : { kind: "value", time: track.values.time[i], value: track.values.value[i] };
    }
    let above = 0;
    for (const lane of track.lanes) {
      if (depth >= above && depth < above + lane.rows) {
        for (let i = after(lane.begin, time) - 1, looked = 0; i >= 0 && looked < 5000 && !found; i -= 1, looked += 1) {
          if (lane.depths[i] === depth - above && lane.end[i] >= time) found = { kind: "slice", time: lane.begin[i], end: lane.end[i], name: lane.names[i] };
          if (lane.depths[i] <= depth - above && lane.end[i] < time) break;
        }
      }
      above += lane.rows;
    }
    if (track.marks && depth === 0) {
      const i = after(track.marks.time, time + near) - 1;
      if (i >= 0 && Math.abs(track.marks.time[i] - time) <= near) found = { kind: "mark", time: track.marks.time[i], end: track.marks.time[i], name: track.marks.names[i] };
    }
    return found;
  }

  // -- drawing ----------------------------------------------------------------------------------

  let from = 0; // what is shown
  let to = view.end || 1;
  let track = 0; // the chosen one
  let chosen = null; // its event
  const colours = ["--heat-3", "--mark-soft", "--shrank-2", "--found", "--grew-2", "--heat-2", "--shrank-3", "--grew-3", "--heat-4"];

  function draw() {
    const width = host.clientWidth;
    const height = view.tracks.reduce((sum, each) => sum + heightOf(each), 4);
    const scale = devicePixelRatio || 1;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.height = `${height}px`;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const palette = colours.map(colour);
    const [ink, soft, line, caution] = ["--ink", "--soft", "--line", "--caution"].map(colour);
    const x = (time) => ((time - from) / (to - from)) * width;
    let y = 2;
    view.tracks.forEach((each, number) => {
      pen.font = "600 12px system-ui, sans-serif";
      pen.fillStyle = number === track ? ink : soft;
      pen.fillText(each.title, 0, y + 13, width);
      pen.fillStyle = line;
      pen.fillRect(0, y + heightOf(each) - 3, width, 1);
      let top = y + LABEL;
      for (const lane of each.lanes) {
        slices(lane, top, { x, width, palette, ink });
        top += lane.rows * ROW;
      }
      if (each.values) values(each.values, y + LABEL, { x, width, ink: colour("--mark"), soft });
      if (each.marks) marks(each.marks, y + LABEL, { x, width, caution });
      y += heightOf(each);
    });
    if (chosen) {
      pen.strokeStyle = ink;
      pen.lineWidth = 1;
      const left = x(chosen.time);
      pen.strokeRect(left - 0.5, topOf(track) + 0.5, Math.max(1, x(chosen.end ?? chosen.time) - left), heightOf(view.tracks[track]) - 4);
    }
    at("span").textContent = `${shown(from)} to ${shown(to)}${view.clock}`;
  }
  const topOf = (number) => view.tracks.slice(0, number).reduce((sum, each) => sum + heightOf(each), 2);

  /** The slices of a lane. Those that are narrower than a pixel are drawn as one with their neighbours. */
  function slices(lane, top, { x, width, palette, ink }) {
    const drawn = new Array(lane.rows).fill(-1); // up to which pixel each row is drawn
    let i = firstVisible(lane);
    pen.font = "11px ui-monospace, monospace";
    for (const end = after(lane.begin, to); i < end; i += 1) {
      if (lane.end[i] < from) continue;
      const depth = lane.depths[i];
      const left = Math.max(0, x(lane.begin[i]));
      const right = Math.min(width, x(lane.end[i]));
      if (right - left < 1 && left < drawn[depth]) {
        // Leap over what falls into the same pixel, if nothing else can be seen of it.
        if (lane.rows === 1) i = Math.max(i, after(lane.begin, from + (Math.ceil(drawn[depth]) / width) * (to - from)) - 2);
        continue;
      }
      pen.fillStyle = palette[lane.names[i] % palette.length];
      pen.fillRect(left, top + depth * ROW, Math.max(1, right - left - (right - left > 3 ? 0.6 : 0)), ROW - 2);
      drawn[depth] = Math.max(left + 1, right);
      const letters = Math.floor((right - left - 6) / 6.7);
      if (letters >= 3) {
        const name = view.names[lane.names[i]];
        pen.fillStyle = ink;
        pen.fillText(name.length > letters ? `${name.slice(0, letters - 1)}\u2026` : name, left + 3, top + depth * ROW + 13);
      }
    }
  }

  /** The first slice that can be seen, or the outermost one around what is shown. */
  function firstVisible(lane) {
    let i = Math.max(0, after(lane.begin, from) - 1);
    while (i > 0 && lane.depths[i] > 0) i -= 1;
    return i;
  }

  function marks({ time }, top, { x, width, caution }) {
    pen.fillStyle = caution;
    let last = -9;
    for (let i = after(time, from - 1e-9), end = after(time, to); i < end; i += 1) {
      const place = x(time[i]);
      if (place - last < 1) continue;
      const isClose = place - last < 7;
      last = place;
      if (isClose) { // they would hide the slices
        pen.fillRect(place - 0.5, top, 1, 5);
        continue;
      }
      pen.beginPath();
      pen.moveTo(place, top + 6);
      pen.lineTo(place - 3, top);
      pen.lineTo(place + 3, top);
      pen.fill();
      pen.fillRect(place - 0.5, top, 1, ROW - 2);
    }
  }

  /** Draw all heights that a line has had in one pixel, and end at the last one. */
  function rise(pixel, top, bottom, last) {
    if (top === bottom) return;
    for (const height of [top, bottom, last]) pen.lineTo(pixel + 0.5, height);
  }

  function values({ time, value }, top, { x, width, ink, soft }) {
    const finite = value.filter((each) => each !== null);
    const least = finite.reduce((a, b) => Math.min(a, b), 0);
    const most = finite.reduce((a, b) => Math.max(a, b), 0);
    const y = (each) => top + LINE - 2 - ((each - least) / (most - least || 1)) * (LINE - 6);
    pen.strokeStyle = ink;
    pen.lineWidth = 1.5;
    pen.beginPath();
    let before = null; // the height so far
    let [pixel, highest, lowest] = [0, 0, 0]; // what a pixel has been: many values are one line
    const first = Math.max(0, after(time, from) - 1);
    for (let i = first, end = after(time, to); i < end; i += 1) {
      if (value[i] === null) continue;
      const place = Math.max(0, x(time[i]));
      const height = y(value[i]);
      if (before === null) pen.moveTo(place, height);
      else if (Math.floor(place) === pixel) [highest, lowest] = [Math.min(highest, height), Math.max(lowest, height)];
      else {
        rise(pixel, highest, lowest, before);
        pen.lineTo(place, before);
        [highest, lowest] = [Math.min(before, height), Math.max(before, height)];
        pen.lineTo(place, height);
      }
      if (before === null) [highest, lowest] = [height, height];
      pixel = Math.floor(place);
      before = height;
    }
    if (before !== null) rise(pixel, highest, lowest, before);
    if (before !== null) pen.lineTo(width, before);
    pen.stroke();
    pen.fillStyle = soft;
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "right";
    const [low, high] = [least, most].map((each) => each.toLocaleString("en-US", { maximumFractionDigits: 3 }));
    pen.fillText(`${low} to ${high}`, width, top - LABEL + 13); // beside the title, above the line
    pen.textAlign = "left";
  }

  // -- moving -----------------------------------------------------------------------------------

  function show(begin, end) {
    const whole = view.end || 1;
    const length = Math.min(whole, Math.max(Math.min(whole, LEAST), end - begin));
    from = Math.max(0, Math.min(whole - length, begin));
    to = from + length;
    draw();
  }

  function zoom(factor, around = (from + to) / 2) {
    show(around - (around - from) * factor, around + (to - around) * factor);
  }

  function choose(number, event) {
    track = number;
    chosen = event;
    say(event ? told(view.tracks[number], event) : view.tracks[number].title);
    if (event && (event.time < from || event.time > to)) show(event.time - (to - from) / 2, event.time + (to - from) / 2);
    else draw();
  }

  /** Go to the next (1) or previous (-1) event of the chosen track. */
  function walk(sign) {
    const events = eventsOf(view.tracks[track]);
    const here = chosen ? events.findIndex((each) => each.kind === chosen.kind && each.time === chosen.time && each.end === (chosen.end ?? each.end) && each.name === chosen.name) : -1;
    const first = events.findIndex((each) => each.time >= from);
    const next = here >= 0 ? here + sign : first >= 0 ? first : 0;
    if (events[next]) choose(track, events[next]);
  }

  const move = (share) => show(from + share * (to - from), to + share * (to - from));
  const keys = {
    ArrowLeft: () => move(-STEP),
    ArrowRight: () => move(STEP),
    ArrowUp: () => choose(Math.max(0, track - 1), null),
    ArrowDown: () => choose(Math.min(view.tracks.length - 1, track + 1), null),
    "+": () => zoom(0.5, centre()),
    "=": () => zoom(0.5, centre()),
    "-": () => zoom(2, centre()),
    Home: () => show(0, view.end),
    n: () => walk(1),
    p: () => walk(-1),
  };
  const centre = () => (chosen && chosen.time >= from && chosen.time <= to ? chosen.time : (from + to) / 2);
  host.addEventListener("keydown", (event) => {
    const key = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!key || event.ctrlKey || event.altKey || event.metaKey || !view.tracks.length) return;
    event.preventDefault();
    key();
  });
  at("in").addEventListener("click", () => zoom(0.5, centre()));
  at("out").addEventListener("click", () => zoom(2, centre()));
  at("all").addEventListener("click", () => show(0, view.end));

  const timeAt = (event) => from + ((event.clientX - canvas.getBoundingClientRect().left) / canvas.clientWidth) * (to - from);
  host.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return; // without it, the wheel moves the page
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt(event));
  }, { passive: false });

  let held = null; // where the pointer went down
  host.addEventListener("pointerdown", (event) => {
    held = { x: event.clientX, from, to, moved: false };
    host.setPointerCapture(event.pointerId);
  });
  host.addEventListener("pointermove", (event) => {
    if (!held) return;
    const pixels = event.clientX - held.x;
    if (Math.abs(pixels) > 3) held.moved = true;
    if (!held.moved) return;
    const shift = (pixels / canvas.clientWidth) * (held.to - held.from);
    show(held.from - shift, held.to - shift);
  });
  host.addEventListener("pointercancel", () => { held = null; });
  host.addEventListener("pointerup", (event) => {
    const moved = held?.moved;
    held = null;
    if (moved) return;
    const y = event.clientY - canvas.getBoundingClientRect().top;
    const number = view.tracks.findIndex((each, i) => y >= topOf(i) && y < topOf(i) + heightOf(each));
    if (number < 0) return;
    choose(number, eventAt(view.tracks[number], timeAt(event), Math.max(0, Math.floor((y - topOf(number) - LABEL) / ROW))));
  });

  new ResizeObserver(draw).observe(host);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
})();
