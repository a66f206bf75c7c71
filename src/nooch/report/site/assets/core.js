// What all pages share: data that arrive as scripts, elements made of text, numbers as people and Python write them.
"use strict";
const nooch = (() => {
  const arrived = new Map();
  const waiting = new Map();
  const kinds = { u1: Uint8Array, u4: Uint32Array, f4: Float32Array, f8: Float64Array };

  function bytes(text) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
    const raw = atob(text);
    const found = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) found[i] = raw.charCodeAt(i);
    return found;
  }

  // arrays travel as {kind: base64}, little-endian, as every CPU that runs a browser has them
  function unpack(packed) {
    const kind = Object.keys(packed)[0];
    return new kinds[kind](bytes(packed[kind]).buffer);
  }

  function put(name, content) {
    arrived.set(name, content);
    const asked = waiting.get(name);
    if (asked) {
      waiting.delete(name);
      asked.resolve(content);
    }
  }

  // a page from disk may not read files, but it may load scripts next to it
  function load(name) {
    if (arrived.has(name)) return Promise.resolve(arrived.get(name));
    if (!waiting.has(name)) {
      const asked = {};
      asked.promise = new Promise((resolve, reject) => Object.assign(asked, { resolve, reject }));
      waiting.set(name, asked);
      const script = document.createElement("script");
      script.src = `data/${name}.js`;
      script.onload = () => script.remove();
      script.onerror = () => {
        waiting.delete(name);
        script.remove();
        asked.reject(new Error(`data/${name}.js is missing: copy the whole folder of the report`));
      };
      document.head.append(script);
    }
    return waiting.get(name).promise;
  }

  function drop(name) {
    arrived.delete(name);
  }

  const svgNames = new Set(["svg", "g", "rect", "line", "path", "text", "circle", "title", "desc", "polyline"]);

  // text is always set as text: nothing from data is ever read as HTML
  function el(name, attributes = {}, ...children) {
    const svg = svgNames.has(name) && attributes.html !== true;
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false || key === "html") continue;
      if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
      else made.setAttribute(key, value === true ? (key.startsWith("aria-") ? "true" : "") : String(value));
    }
    for (const child of children.flat()) if (child !== null && child !== undefined) made.append(child);
    return made;
  }

  // control characters and marks that turn the direction of text are spelled out, as the command line does
  function plain(text) {
    return String(text).replace(/[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, (c) => {
      const code = c.charCodeAt(0);
      return code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
    });
  }

  const words = (name) => plain(name).replaceAll("_", " ");
  const count = (n) => n.toLocaleString("en-US");

  // Python's format .3g (or .2g): significant digits of the exact value, halves to even
  function short(value, n = 3) {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    if (value === 0) return "0";
    const sign = value < 0 ? "-" : "";
    let [digits, exponent] = Math.abs(value).toExponential(100).split("e");
    digits = digits.replace(".", "");
    exponent = Number(exponent);
    let kept = Number(digits.slice(0, n));
    const rest = digits.slice(n).replace(/0+$/, "");
    if (rest > "5" || (rest === "5" && kept % 2)) kept += 1;
    if (kept === 10 ** n) {
      kept = 10 ** (n - 1);
      exponent += 1;
    }
    const text = String(kept);
    if (exponent < -4 || exponent >= n) {
      const mantissa = `${text[0]}.${text.slice(1)}`.replace(/\.?0+$/, "");
      return `${sign}${mantissa}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
    }
    const placed = exponent >= 0 ? `${text.slice(0, exponent + 1)}.${text.slice(exponent + 1)}` : `0.${"0".repeat(-exponent - 1)}${text}`;
    return sign + (placed.includes(".") ? placed.replace(/\.?0*$/, "") : placed);
  }

  const percent = (fraction) => `${short(100 * fraction)}%`;

  function fill(select, options, chosen) {
    select.replaceChildren(...options.map(([value, text]) => el("option", { value, selected: value === chosen }, text)));
    if (options.some(([value]) => value === chosen)) select.value = chosen;
  }

  function bar(share) {
    const part = (name, width) => el("rect", { class: name, width, height: 8 });
    return el("svg", { class: "share", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": true }, part("track", 100), part("part", (100 * Math.min(1, share)).toFixed(2)));
  }

  // a table that is wider than its place scrolls, with the keyboard too
  const tableBox = (label, table) => el("div", { class: "table-box", tabindex: 0, role: "region", "aria-label": label }, table);

  // what the address leaves open is chosen so that there is a set: the last split, the first criterion, the first task
  function opening(site, given) {
    const splits = [...site.splits].reverse(), criteria = site.criteria.map((one) => one.name);
    const usual = { task: given.task || site.tasks[0], split: given.split || splits[0], criterion: given.criterion || criteria[0] };
    const there = new Set(site.sets.map((one) => one.join("\n")));
    for (const split of given.split ? [given.split] : splits)
      for (const criterion of given.criterion ? [given.criterion] : criteria)
        for (const task of given.task ? [given.task] : site.tasks)
          if (there.has([criterion, task, split].join("\n"))) return { task, split, criterion };
    return usual;
  }

  return { put, load, tableBox, opening, drop, unpack, el, plain, words, count, short, percent, fill, bar };
})();
