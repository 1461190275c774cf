"use strict";
// Hides policies in all figures of a page, and draws timelines that can be zoomed. No libraries:
// a report is one file that works without a network.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const WIDTH = 720, HEIGHT = 150, LEFT = 56, RIGHT = 10, TOP = 8, GAP = 18, FOOT = 40;
  const hidden = new Set();
  const redraw = [];

  const element = (name, attributes, text) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };

  // About `most` round numbers between two values.
  const ticks = (low, high, most) => {
    const span = (high - low) / most || 1;
    const power = 10 ** Math.floor(Math.log10(span));
    const step = [1, 2, 5, 10].find((digit) => digit * power >= span) * power;
    const found = [];
    for (let place = Math.ceil(low / step); place * step <= high; place++) found.push(place * step);
    return found;
  };
  const number = (value) => Number(value.toPrecision(6)).toLocaleString("en");

  // The points of a step curve between two times; `t` and `y` as in the data.
  const steps = (series, low, high, x, y) => {
    let path = "", last = null;
    for (let i = 0; i < series.t.length; i++) {
      const until = i + 1 < series.t.length ? series.t[i + 1] : series.t[i];
      if (until < low || series.t[i] > high) continue;
      const from = x(Math.max(series.t[i], low)), to = x(Math.min(until, high));
      const at = y(series.y[i]);
      path += last === null ? `M${from} ${at}` : `V${at}`;
      path += `H${to}`;
      last = at;
    }
    return path;
  };

  // Lines and labels of all series, each once, above the panels.
  const legend = (data) => {
    const box = document.createElement("div");
    box.className = "key";
    const drawn = new Map(data.panels.flatMap((panel) => panel.series).map(
      (series) => [series.label, series]));
    for (const [label, series] of drawn) {
      const entry = document.createElement("span"), sample = element("svg", {
        width: 24, height: 10, viewBox: "0 0 24 10"});
      const line = element("path", {d: "M0 5H24", stroke: series.colour, "stroke-width": 2});
      if (series.hollow) line.setAttribute("stroke-dasharray", "5 2");
      sample.append(line);
      entry.dataset.series = label;
      entry.append(sample, ` ${label}`);
      box.append(entry);
    }
    return box;
  };

  const timeline = (figure) => {
    const data = JSON.parse(figure.querySelector("script").textContent);
    const place = figure.querySelector("div");
    const height = TOP + data.panels.length * (HEIGHT + GAP) + FOOT - GAP;
    const svg = element("svg", {viewBox: `0 0 ${WIDTH} ${height}`});
    const button = document.createElement("button");
    button.textContent = "whole run";
    place.replaceChildren(legend(data), svg, button);
    let [low, high] = data.span, begun = null;
    const scale = (value) => LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT);
    // Round numbers in the unit of the axis, in seconds.
    const times = () => ticks(low / data.length, high / data.length, 8).map(
      (tick) => tick * data.length);
    const time = (event) => {
      const box = svg.getBoundingClientRect();
      const at = (event.clientX - box.left) / box.width * WIDTH;
      const share = Math.min(1, Math.max(0, (at - LEFT) / (WIDTH - LEFT - RIGHT)));
      return low + share * (high - low);
    };

    const draw = () => {
      svg.replaceChildren();
      data.panels.forEach((panel, index) => {
        const top = TOP + index * (HEIGHT + GAP), foot = top + HEIGHT;
        const shown = panel.series.filter((series) => !hidden.has(series.label));
        const most = Math.max(1, ...shown.flatMap((series) => series.y.filter((_, i) =>
          (series.t[i + 1] ?? series.t[i]) >= low && series.t[i] <= high)));
        const y = (value) => foot - value / (1.05 * most) * HEIGHT;
        for (const tick of ticks(0, most, 4)) {
          svg.append(element("line", {x1: LEFT, x2: WIDTH - RIGHT, y1: y(tick), y2: y(tick),
                                      stroke: "#ddd"}),
                     element("text", {x: LEFT - 5, y: y(tick) + 4, "font-size": 11,
                                      "text-anchor": "end"}, number(tick)));
        }
        for (const tick of times()) {
          svg.append(element("line", {x1: scale(tick), x2: scale(tick), y1: top, y2: foot,
                                      stroke: "#ddd"}));
        }
        svg.append(element("line", {x1: LEFT, x2: LEFT, y1: top, y2: foot, stroke: "#222"}),
                   element("text", {x: 12, y: (top + foot) / 2, "font-size": 11,
                                    "text-anchor": "middle",
                                    transform: `rotate(-90 12 ${(top + foot) / 2})`}, panel.name));
        for (const series of shown) {
          const line = element("path", {d: steps(series, low, high, scale, y), fill: "none",
                                        stroke: series.colour, "stroke-width": 1.5,
                                        "data-series": series.label});
          if (series.hollow) line.setAttribute("stroke-dasharray", "5 2");
          svg.append(line);
        }
      });
      const foot = height - FOOT;
      for (const tick of times()) {
        svg.append(element("text", {x: scale(tick), y: foot + 14, "font-size": 11, class: "tick",
                                    "text-anchor": "middle"}, number(tick / data.length)));
      }
      svg.append(element("text", {x: (LEFT + WIDTH) / 2, y: foot + 31, "font-size": 11,
                                  "text-anchor": "middle"}, `time (${data.unit})`));
      svg.dataset.from = low;
      svg.dataset.to = high;
    };
    const zoom = (from, to) => {
      const least = (data.span[1] - data.span[0]) * 1e-7;
      if (to - from > least) {
        low = Math.max(data.span[0], from);
        high = Math.min(data.span[1], to);
        draw();
      }
    };

    svg.addEventListener("pointerdown", (event) => { begun = time(event); });
    svg.addEventListener("pointermove", (event) => {
      if (begun === null) return;
      svg.querySelector(".chosen")?.remove();
      const [from, to] = [scale(begun), scale(time(event))].sort((a, b) => a - b);
      svg.append(element("rect", {class: "chosen", x: from, width: to - from, y: TOP,
                                  height: height - FOOT - TOP, fill: "#0072B2", opacity: 0.15}));
    });
    window.addEventListener("pointerup", (event) => {
      if (begun === null) return;
      const [from, to] = [begun, time(event)].sort((a, b) => a - b);
      begun = null;
      svg.querySelector(".chosen")?.remove();
      if (scale(to) - scale(from) > 4) zoom(from, to);
    });
    svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      const at = time(event), factor = event.deltaY > 0 ? 1.25 : 0.8;
      zoom(at - (at - low) * factor, at + (high - at) * factor);
    }, {passive: false});
    button.addEventListener("click", () => zoom(...data.span));
    draw();
    redraw.push(draw);
  };

  const hide = (label, off) => {
    if (off) hidden.add(label); else hidden.delete(label);
    for (const each of document.querySelectorAll("[data-series]")) {
      if (each.dataset.series === label) each.classList.toggle("off", off);
    }
    redraw.forEach((draw) => draw());
  };

  document.querySelectorAll("figure.zoom").forEach(timeline);
  const labels = new Set([...document.querySelectorAll("[data-series]")].map(
    (each) => each.dataset.series));
  const bar = document.querySelector(".policies");
  if (bar && labels.size > 1) {
    for (const label of labels) {
      const entry = document.createElement("label"), box = document.createElement("input");
      box.type = "checkbox";
      box.checked = true;
      box.value = label;
      box.addEventListener("change", () => hide(label, !box.checked));
      entry.append(box, ` ${label}`);
      bar.append(entry);
    }
  }
})();
