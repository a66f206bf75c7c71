// Charts as SVG; colors come from the style sheet, so that they follow light and dark.
"use strict";
nooch.charts = (() => {
  const { el, short } = nooch;

  function steps(low, high, n) {
    if (!(high > low)) return [low];
    const raw = (high - low) / n, unit = 10 ** Math.floor(Math.log10(raw));
    const step = unit * [1, 2, 2.5, 5, 10].find((m) => m * unit >= raw);
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(k * step);
    return found;
  }

  const tick = (v) => (Math.abs(v) >= 1000 ? nooch.count(v) : short(v));
  const scale = (low, high, from, to) => (v) => from + ((v - low) / (high - low || 1)) * (to - from);

  function frame(width, height, label) {
    return el("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, class: "chart" });
  }

  function axisX(svg, at, low, high, y, top, name, width, n = 5) {
    for (const v of steps(low, high, n)) {
      svg.append(el("line", { class: "grid", x1: at(v), x2: at(v), y1: top, y2: y }));
      svg.append(el("text", { class: "tick", x: at(v), y: y + 14, "text-anchor": "middle" }, tick(v)));
    }
    if (name) svg.append(el("text", { class: "axis", x: width, y: y + 30, "text-anchor": "end" }, name));
  }

  function axisY(svg, at, low, high, x, right, name, n = 4) {
    for (const v of steps(low, high, n)) {
      svg.append(el("line", { class: "grid", x1: x, x2: right, y1: at(v), y2: at(v) }));
      svg.append(el("text", { class: "tick", x: x - 6, y: at(v) + 4, "text-anchor": "end" }, tick(v)));
    }
    if (name) svg.append(el("text", { class: "axis", x: 2, y: 12 }, name));
  }

  // positives above, negatives below, each on its own scale of square roots, the hard part in color
  function histogram(support, labels, marks, thresholds, low, high, width) {
    const bins = 48, height = 250, middle = 118, left = 8, right = width - 12;
    const all = [new Float64Array(bins), new Float64Array(bins)], hard = [new Float64Array(bins), new Float64Array(bins)];
    const by = bins / (high - low || 1);
    for (let i = 0; i < support.length; i++) {
      const s = support[i];
      if (Number.isNaN(s) || labels[i] > 1) continue;
      const bin = Math.max(0, Math.min(bins - 1, Math.floor((s - low) * by)));
      const side = labels[i] === 1 ? 0 : 1;
      all[side][bin]++;
      if (marks[i] < 2) hard[side][bin]++;
    }
    const svg = frame(width, height, "Histogram of context support: positives above the axis, negatives below it; hard images in color");
    const at = scale(low, high, left, right);
    for (const v of steps(low, high, width > 500 ? 8 : 5)) svg.append(el("text", { class: "tick", x: at(v), y: height - 22, "text-anchor": "middle" }, short(v)));
    const w = (right - left) / bins;
    [0, 1].forEach((side) => {
      const top = Math.sqrt(Math.max(1, ...all[side])), reach = 98;
      for (let b = 0; b < bins; b++) {
        if (!all[side][b]) continue;
        const h = Math.max(1.5, (Math.sqrt(all[side][b]) / top) * reach), part = (h * hard[side][b]) / all[side][b];
        const x = left + b * w + 0.5;
        const parts = [["easy", h - part, side ? middle + 1 + part : middle - h], [side ? "negative" : "positive", part, side ? middle + 1 : middle - part]];
        for (const [name, tall, y] of parts) if (tall > 0) svg.append(el("rect", { class: `bar ${name}`, x, y, width: w - 1, height: tall }));
      }
    });
    svg.append(el("line", { class: "axis-line", x1: left, x2: right, y1: middle + 0.5, y2: middle + 0.5 }));
    const limits = thresholds || [];
    limits.forEach((t, side) => {
      if (t === null || t === undefined || t < low || t > high) return;
      svg.append(el("line", { class: "threshold", x1: at(t), x2: at(t), y1: side ? middle : 14, y2: side ? height - 36 : middle }));
    });
    svg.append(el("text", { class: "side", x: right, y: 16, "text-anchor": "end" }, "positives"));
    svg.append(el("text", { class: "side", x: right, y: height - 42, "text-anchor": "end" }, "negatives"));
    svg.append(el("text", { class: "axis", x: left, y: height - 5 }, width > 500 ? "context support (bar heights: square root of counts, each side on its own scale)" : "context support (heights: square root of counts)"));
    return svg;
  }

  // width of a text as the style sheet draws it, and the text on as many lines as it needs
  const pen = document.createElement("canvas").getContext("2d");
  function measure(text, size) {
    pen.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
    return pen.measureText(text).width;
  }

  function wrapped(text, size, most) {
    const found = [""];
    const add = (piece) => {
      if (measure(found[found.length - 1] + piece.trimEnd(), size) > most && found[found.length - 1]) found.push("");
      found[found.length - 1] += piece;
    };
    for (const piece of text.match(/[^-_/ ]*[-_/ ]?/g)) for (const part of measure(piece, size) > most ? piece : [piece]) add(part);
    return found.filter(Boolean);
  }

  // a row for each method, a point with its interval for each subset
  function dots(title, rows, series, note, width) {
    const names = rows.map((row) => wrapped(row.name, 13, 0.36 * width));
    const left = 16 + Math.max(...names.flat().map((line) => measure(line, 13))), right = width - 16, line = 15;
    const tall = names.map((name) => line * Math.max(series.length, name.length) + 12);
    const places = [];
    let x = 2, top = 16;
    for (const one of series) {
      const room = 34 + measure(one.name, 12);
      if (x > 2 && x + room - 20 > width) { x = 2; top += 18; }
      places.push([x, top]);
      x += room;
    }
    top += 18;
    const height = top + tall.reduce((a, b) => a + b, 0) + 40;
    const values = rows.flatMap((row) => row.points.flatMap((p) => (p && p.mean !== null ? [p.mean, p.low ?? p.mean, p.high ?? p.mean] : [])));
    const low = Math.min(0, ...values), high = Math.max(low + 1e-9, ...values);
    const at = scale(low, high, left, right - 8);
    const said = rows.map((row) => `${row.name}: ${row.points.map((p, k) => (p && p.mean !== null ? `${series[k].name} ${p.mean.toFixed(3)}` : "")).filter(Boolean).join(", ")}`);
    const svg = frame(width, height, `${title}. ${said.join("; ")}`);
    axisX(svg, at, low, high, height - 38, top - 8, note, right, width > 480 ? 5 : 3);
    series.forEach((one, k) => {
      const [from, y] = places[k];
      svg.append(el("circle", { class: `dot ${one.kind}`, cx: from + 5, cy: y - 4, r: 5 }), el("text", { class: "legend", x: from + 14, y }, one.name));
    });
    let y = top;
    rows.forEach((row, i) => {
      const middle = y + tall[i] / 2 - 2 - (names[i].length - 1) * (line / 2);
      names[i].forEach((text, k) => svg.append(el("text", { class: "row-name", x: left - 12, y: middle + k * line, "text-anchor": "end" }, text)));
      row.points.forEach((p, k) => {
        const cy = y + 8 + k * line;
        if (!p || p.mean === null) {
          svg.append(el("text", { class: "tick", x: left, y: cy + 4 }, "–"));
          return;
        }
        if (p.low !== null && p.low !== undefined) svg.append(el("line", { class: `reach ${series[k].kind}`, x1: at(p.low), x2: at(p.high), y1: cy, y2: cy }));
        const span = p.low !== null && p.low !== undefined ? ` [${p.low.toFixed(3)}, ${p.high.toFixed(3)}]` : "";
        const dot = el("circle", { class: `dot ${series[k].kind}`, cx: at(p.mean), cy, r: 5 });
        dot.append(el("title", {}, `${row.name}, ${series[k].name}: ${p.mean.toFixed(3)}${span}`));
        svg.append(dot);
      });
      y += tall[i];
    });
    return svg;
  }

  // points with the line on which hard images are no harder than all
  function scatter(title, points, kind, nameX, nameY) {
    const size = 300, left = 40, bottom = size - 42, top = 22;
    const wide = 1.12 * Math.max(1e-9, ...points.map((p) => p.x)), high = 1.08 * Math.max(1e-9, ...points.map((p) => p.y)), least = Math.min(wide, high);
    const x = scale(0, wide, left, size - 12), y = scale(0, high, bottom, top);
    const svg = frame(size, size, `${title}: ${points.filter((p) => p.y > p.x).length} of ${points.length} tasks above the line`);
    axisX(svg, x, 0, wide, bottom, top, nameX, size - 12, 4);
    axisY(svg, y, 0, high, left, size - 12, nameY, 4);
    svg.append(el("line", { class: "equal", x1: x(0), y1: y(0), x2: x(least), y2: y(least) }));
    for (const p of points) {
      const dot = el("circle", { class: `dot ${kind}`, cx: x(p.x), cy: y(p.y), r: 5 });
      dot.append(el("title", {}, `${p.name}: all ${p.x.toFixed(3)}, hard ${p.y.toFixed(3)}`));
      svg.append(dot);
    }
    return svg;
  }

  // lines of (x, y); null breaks a line; mark is the suite's own value
  function lines(title, series, nameX, nameY, mark) {
    const width = 400, height = 270, left = 54, bottom = height - 42, top = 26, right = width - 12;
    const xs = series.flatMap((s) => s.points.map((p) => p[0])), ys = series.flatMap((s) => s.points.map((p) => p[1])).filter((v) => v !== null);
    const low = Math.min(...xs), high = Math.max(...xs), top_ = Math.max(1e-9, ...ys) * 1.05;
    const x = scale(low, high, left, right), y = scale(0, top_, bottom, top);
    const svg = frame(width, height, title);
    axisX(svg, x, low, high, bottom, top, nameX, right);
    axisY(svg, y, 0, top_, left, right, nameY);
    if (mark !== null && mark !== undefined && mark >= low && mark <= high) svg.append(el("line", { class: "threshold", x1: x(mark), x2: x(mark), y1: top, y2: bottom }));
    for (const one of series) {
      let path = "", pen = false;
      for (const [a, b] of one.points) {
        if (b === null) pen = false;
        else {
          path += `${pen ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`;
          pen = true;
        }
      }
      const drawn = el("path", { class: `line ${one.kind}`, d: path });
      drawn.append(el("title", {}, one.name));
      svg.append(drawn);
    }
    return svg;
  }

  // a matrix as shaded cells; rows are ys, columns xs
  function heat(title, xs, ys, values, nameX, nameY, marks, kind) {
    const width = 400, height = 310, left = 54, bottom = height - 42, top = 40, right = width - 12;
    const known = values.flat().filter((v) => v !== null), high = Math.max(1e-9, ...known);
    const svg = frame(width, height, `${title}: from 0 to ${short(high)}`);
    const w = (right - left) / xs.length, h = (bottom - top) / ys.length;
    values.forEach((row, j) =>
      row.forEach((v, i) => {
        const cell = el("rect", { class: v === null ? "cell none" : `cell ${kind}`, x: left + i * w, y: bottom - (j + 1) * h, width: w + 0.4, height: h + 0.4 });
        if (v !== null) cell.setAttribute("fill-opacity", (0.06 + 0.94 * (v / high)).toFixed(3));
        cell.append(el("title", {}, `${nameX} ${short(xs[i])}, ${nameY} ${short(ys[j])}: ${v === null ? "no hard image" : short(v)}`));
        svg.append(cell);
      })
    );
    xs.forEach((v, i) => i % 4 === 0 && svg.append(el("text", { class: "tick", x: left + (i + 0.5) * w, y: bottom + 14, "text-anchor": "middle" }, short(v))));
    ys.forEach((v, j) => (j + 1) % 5 === 0 && svg.append(el("text", { class: "tick", x: left - 6, y: bottom - (j + 0.5) * h + 4, "text-anchor": "end" }, short(v))));
    svg.append(el("text", { class: "axis", x: right, y: height - 8, "text-anchor": "end" }, nameX), el("text", { class: "axis", x: 2, y: 32 }, nameY));
    const i = xs.indexOf(marks[0]), j = ys.indexOf(marks[1]);
    if (i >= 0 && j >= 0) svg.append(el("rect", { class: "own", x: left + i * w, y: bottom - (j + 1) * h, width: w, height: h }));
    const bar = right - 150;
    for (let k = 0; k < 24; k++) svg.append(el("rect", { class: `cell ${kind}`, x: bar + k * 4, y: 8, width: 4.2, height: 9, "fill-opacity": (0.06 + (0.94 * k) / 23).toFixed(3) }));
    svg.append(el("text", { class: "tick", x: bar - 6, y: 16, "text-anchor": "end" }, "0"), el("text", { class: "tick", x: bar + 102, y: 16 }, short(high)));
    return svg;
  }

  function figure(title, svg, note) {
    return el("figure", {}, el("figcaption", {}, title), svg, note ? el("p", { class: "hint" }, note) : null);
  }

  // drawn at the width there is, so that text keeps its size
  const room = (box, most) => Math.max(300, Math.min(most, box.clientWidth || most));

  // the width of a chart in a grid of figures of at least 460 px, without the frame
  function column(box) {
    const n = Math.max(1, Math.floor((box.clientWidth + 16) / (460 + 16)));
    return Math.max(240, (box.clientWidth - 16 * (n - 1)) / n - 34);
  }

  return { room, column, histogram, dots, scatter, lines, heat, figure };
})();
