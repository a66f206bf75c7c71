// The page Explore: what is chosen, what follows from it, and the address that says it.
"use strict";
(() => {
  const { el, plain, words, count, short, load, fill, marks } = nooch;
  const $ = (id) => document.getElementById(id);
  const SUBSETS = [["hard_positive", "Hard positives"], ["hard_negative", "Hard negatives"], ["easy", "Easy"]];
  const KEPT = 8;
  let site, findings = {}, split, task, found, shown = [], settings = {}, gallery, viewer, writing = 0, asked = 0, captioned = false, pending = 0, wrong = new Set();
  const state = { task: "", split: "", criterion: "", show: "hard_positive", sort: "support", method: "", other: "", find: "", drawn: false, image: "", finding: "" };
  const splits = new Map(), tasks = new Map(), applied = new Map();

  const spec = (name = state.criterion) => site.criteria.find((one) => one.name === name);
  const two = (value) => (Number.isNaN(value) ? "–" : value.toFixed(2));
  const number = (text) => (text !== null && text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : null);

  function own() {
    return Object.fromEntries(site.criteria.map((one) => [one.name, { alpha: one.alpha ?? 0, beta: one.beta ?? 0, tau: one.tau ?? 0.5, mode: one.tau !== null && one.tau !== undefined ? "tau" : one.match ? "matched" : "marks" }]));
  }

  // --- the address
  function read() {
    const given = new URLSearchParams(location.hash.slice(1));
    const pick = (name, options, rest) => (options.includes(given.get(name)) ? given.get(name) : rest);
    Object.assign(state, nooch.opening(site, {
      task: pick("task", site.tasks, ""),
      split: pick("split", site.splits, ""),
      criterion: pick("criterion", site.criteria.map((one) => one.name), ""),
    }));
    state.show = pick("show", SUBSETS.map((one) => one[0]), "hard_positive");
    state.sort = pick("sort", ["support", "loss", "gap", "id"], site.methods.length ? "loss" : "support");
    state.method = pick("method", site.methods, site.methods.includes("erm") ? "erm" : site.methods[0] || "");
    state.other = pick("other", site.methods, site.methods.find((m) => m !== state.method) || "");
    state.find = given.get("find") || "";
    state.drawn = given.get("drawn") === "1";
    state.image = given.get("image") || "";
    state.finding = Object.hasOwn(findings, given.get("finding")) ? given.get("finding") : "";
    if (state.finding && site.methods.includes(findings[state.finding].run)) state.method = findings[state.finding].run;
    settings = own();
    for (const one of site.criteria) {
      for (const name of ["alpha", "beta", "tau"]) {
        const value = number(given.get(`${one.name}.${name}`));
        if (value !== null) settings[one.name][name] = value;
      }
      const mode = given.get(`${one.name}.mode`);
      if (one.kind === "gist" && (mode === "tau" || (mode === "matched" && one.match))) settings[one.name].mode = mode;
    }
  }

  function address() {
    const said = new URLSearchParams(), usual = own();
    for (const name of ["task", "split", "criterion", "show", "sort"]) said.set(name, state[name]);
    if (state.method) said.set("method", state.method);
    if (state.sort === "gap") said.set("other", state.other);
    if (state.find) said.set("find", state.find);
    if (state.drawn) said.set("drawn", "1");
    if (state.finding) said.set("finding", state.finding);
    for (const one of site.criteria)
      for (const name of ["alpha", "beta", "tau", "mode"])
        if (settings[one.name][name] !== usual[one.name][name]) said.set(`${one.name}.${name}`, settings[one.name][name]);
    if (viewer.row !== null) said.set("image", split.ids[viewer.row]);
    return `#${said}`;
  }

  function write() {
    clearTimeout(writing);
    writing = setTimeout(() => { if (location.hash !== address()) history.replaceState(null, "", address()); }, 200);
  }

  async function copy() {
    const text = location.href.split("#")[0] + address();
    history.replaceState(null, "", address());
    try {
      await navigator.clipboard.writeText(text);
      say("The link is copied.");
    } catch {
      say("The link is in the address bar.");
    }
  }

  const say = (text) => { $("gallery-note").textContent = text; };

  // --- data
  async function open() {
    const mine = ++asked;
    const name = `task-${site.tasks.indexOf(state.task)}-${state.split}`;
    const [about, content] = await Promise.all([load(`split-${state.split}`), tasks.has(name) ? null : load(name)]);
    if (mine !== asked) return;
    if (!splits.has(state.split)) splits.set(state.split, { ...about, name: state.split, pictures: nooch.unpack(about.pictures), blocks: [] });
    split = splits.get(state.split);
    if (content) {
      tasks.set(name, marks.open(content));
      nooch.drop(name);
    }
    task = tasks.get(name);
    // the last few tasks stay, the others are read again when they are asked for
    tasks.delete(name);
    tasks.set(name, task);
    if (tasks.size > KEPT) tasks.delete(tasks.keys().next().value);
    controls();
    update();
  }

  async function block(row, of = split) {
    const number = Math.floor(row / of.block);
    if (of.blocks[number]) return;
    const about = await load(`images-${of.name}-${number}`);
    // where Find looks
    about.texts = about.names.map((name, k) => [name || "", ...about.captions[k]].join("\n").toLowerCase());
    of.blocks[number] = about;
  }

  const known = (row) => split.blocks[Math.floor(row / split.block)];

  // --- controls
  function slider(title, name, criterion, low, high, step, note) {
    const value = settings[criterion][name];
    const id = `slide-${name}`;
    const set = (from, other) => {
      const next = number(from.value);
      if (next === null || next < Number(entry.min) || next > Number(entry.max)) {
        from.setAttribute("aria-invalid", "true");
        return;
      }
      from.removeAttribute("aria-invalid");
      settings[criterion][name] = next;
      other.value = from.value;
      later();
    };
    const range = el("input", { type: "range", id, min: low, max: high, step, value, oninput: () => set(range, entry) });
    const entry = el("input", { type: "number", class: "exact", id: `exact-${name}`, min: name === "tau" ? -1 : low, max: name === "tau" ? 1 : 10, step: "any", value, "aria-label": `${title}, exact value`, oninput: () => set(entry, range) });
    return el("div", { class: "slider" }, el("label", { for: id }, el("b", {}, title), note ? ` ${note}` : ""), range, entry);
  }

  function controls() {
    const one = spec(), box = $("sliders"), made = [];
    const ce = one.kind === "ce" ? one : ["gist", "context"].includes(one.kind) && settings[one.name].mode === "matched" ? spec(one.match) : null;
    if (one.kind === "gist" && task.criteria[one.name].support) {
      const choose = (mode, text) => el("label", { class: "check" }, el("input", { type: "radio", name: "mode", value: mode, checked: settings[one.name].mode === mode, onchange: () => { settings[one.name].mode = mode; controls(); later(); } }), ` ${text}`);
      made.push(el("div", { class: "modes" }, one.match ? choose("matched", `the same size as ${plain(one.match)}`) : null, choose("tau", "one threshold τ")));
      if (settings[one.name].mode === "tau") made.push(slider("τ", "tau", one.name, ...reach(task.criteria[one.name].support), 0.005, "on the cosine"));
    }
    const part = ce && ce.kind === "ce" ? task.criteria[ce.name] : null;
    let said = "";
    if (part && part.cues) {
      if (part.fixed === null) {
        made.push(slider("α", "alpha", ce.name, part.bound, Math.max(0.3, ...part.cues.map((c) => c.A)).toFixed(2), 0.001, "a cue is a class with A above it"));
        if (settings[ce.name].alpha < part.bound) settings[ce.name].alpha = part.bound;
        said = part.bound > 0 ? `Areas of the ${part.cues.length} strongest classes travel with this report: α can go down to ${short(part.bound)}.` : "";
      } else said = `α cannot be moved: ${part.fixed}.`;
    } else if (part && part.support) said = site.has_data ? "α cannot be moved: the suite's supports are not those of this dataset's areas." : "α cannot be moved: without the dataset the report has no areas of cues.";
    if (part && (part.cues || part.support)) made.push(slider("β", "beta", ce.name, 0, 1, 0.005, "cue area that counts"));
    if (!made.length && !said) said = one.expression ? `${one.name} combines other criteria (${one.expression}) as the suite has them: it has no threshold to move.` : "This criterion has no threshold to move.";
    if (made.length) made.push(el("button", { type: "button", class: "button quiet", id: "reset", onclick: () => { settings = own(); controls(); later(); } }, "The suite's own values"));
    box.replaceChildren(el("legend", {}, "Thresholds"), ...made);
    $("bounds").textContent = plain(said);
    $("task").value = state.task;
    $("split").value = state.split;
    $("criterion").value = state.criterion;
    $("sort").value = state.sort;
    choices();
  }

  function choices() {
    $("method-label").hidden = Boolean(state.finding) || !["loss", "gap"].includes(state.sort);
    $("other-label").hidden = Boolean(state.finding) || state.sort !== "gap";
  }

  function reach(support) {
    let low = Infinity, high = -Infinity;
    for (const s of support) { if (s < low) low = s; if (s > high) high = s; }
    return high >= low ? [Math.floor(low * 100) / 100, Math.ceil(high * 100) / 100] : [0, 1];
  }

  const later = () => { pending = pending || requestAnimationFrame(() => { pending = 0; update(); }); };

  // a criterion at the present thresholds, applied once
  const apply = (name) => applied.get(name) || applied.set(name, marks.apply(task, site.criteria, name, settings)).get(name);

  // --- what follows
  function update() {
    // another task or split is on its way: it will be drawn when it is there
    if (task.task !== state.task || task.split !== state.split) return;
    applied.clear();
    found = apply(state.criterion);
    counts();
    histogram();
    cuePanel();
    lossPanel();
    select();
    write();
    document.body.dataset.ready = `${state.task} ${state.split} ${state.criterion}`;
  }

  function counts() {
    if (found.reason) {
      $("counts").replaceChildren(el("p", { class: "none" }, el("b", {}, "No set: "), plain(found.reason)));
      return;
    }
    const c = found.counts, usual = found.thresholds || [null, null];
    const tile = (kind, name, n, of, rest) => el("div", { class: `tile ${kind}` }, el("b", { "data-count": name }, count(n)), el("span", {}, of), el("small", {}, rest));
    const share = (a, b) => (b ? `${short((100 * a) / b)}% of ${count(b)}` : "of none");
    const limit = (t, sign) => (t === null || t === undefined ? "" : `, support ${sign} ${short(t)}`);
    $("counts").replaceChildren(
      tile("positive", "hard_positives", c.hard_positives, "hard positives", share(c.hard_positives, c.positives) + limit(usual[0], "<")),
      tile("negative", "hard_negatives", c.hard_negatives, "hard negatives", share(c.hard_negatives, c.negatives) + limit(usual[1], ">")),
      tile("easy", "easy", c.positives + c.negatives - c.hard_positives - c.hard_negatives, "easy", c.excluded_positives + c.excluded_negatives ? `${count(c.excluded_positives + c.excluded_negatives)} without a verdict` : `of ${count(c.positives + c.negatives)}`)
    );
  }

  function histogram() {
    const box = $("histogram");
    if (found.reason || !found.support) {
      box.replaceChildren(el("p", { class: "hint" }, found.reason ? "" : "This criterion marks images directly: there is no support to draw."));
      return;
    }
    const [low, high] = spec().kind === "ce" ? [0, Math.max(1, reach(found.support)[1])] : reach(found.support);
    box.replaceChildren(nooch.charts.histogram(found.support, task.labels, found.marks, found.thresholds, low, high, nooch.charts.room(box, 840)));
  }

  function cuePanel() {
    const box = $("cue-panel"), part = task.criteria[state.criterion];
    box.hidden = !part.cues;
    if (!part.cues) return;
    const beta = settings[state.criterion].beta, active = found.active || [];
    const losses = marks.losses(task, state.criterion, state.method), rows = marks.byCue(task, active, beta, losses);
    const both = (n, mean) => el("td", { class: "number" }, count(n), mean === null || Number.isNaN(mean) ? null : el("small", {}, `NLL ${mean.toFixed(2)}`));
    const rest = part.cues.slice(active.length, active.length + 5);
    box.replaceChildren(...[
      el("h2", {}, active.length === 1 ? "1 context cue" : `${active.length} context cues`),
      nooch.tableBox("Context cues", el("table", { id: "cues" },
        el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "cue"), el("th", { scope: "col", class: "number" }, "A"), el("th", { scope: "col", class: "number" }, "positives below β"), el("th", { scope: "col", class: "number" }, "negatives above β"))),
        el("tbody", {}, rows.map((one) => el("tr", {}, el("th", { scope: "row" }, words(one.name)), el("td", { class: "number" }, one.A === null ? "–" : short(one.A)), both(one.positives, one.means[0]), both(one.negatives, one.means[1])))))),
      losses ? el("p", { class: "hint" }, `NLL of ${plain(state.method)} on the images that each cue alone makes hard.`) : null,
      rest.length ? el("p", { class: "hint" }, `Below α: ${rest.map((one) => `${words(one.name)} ${short(one.A)}`).join(", ")}`) : null,
    ].filter(Boolean));
  }

  function lossPanel() {
    const box = $("loss-panel"), methods = site.methods.filter((m) => marks.losses(task, state.criterion, m));
    box.hidden = !methods.length || Boolean(found.reason);
    if (box.hidden) return;
    const rows = methods.map((m) => [m, marks.means(found.marks, task.labels, marks.losses(task, state.criterion, m))]);
    const best = [0, 1, 2, 3].map((k) => Math.min(...rows.map(([, v]) => v[k] ?? Infinity)));
    const cell = (v, k) => el("td", { class: v === best[k] ? "number best" : "number" }, v === null ? "–" : v.toFixed(3));
    box.replaceChildren(
      el("h2", {}, "Mean NLL at these thresholds"),
      nooch.tableBox("Mean NLL at these thresholds", el("table", { id: "losses" },
        el("thead", {}, el("tr", {}, el("th", { scope: "col", rowspan: 2 }, "method"), ...["positives", "negatives"].map((t) => el("th", { scope: "colgroup", colspan: 2, class: "group" }, t))), el("tr", {}, ["hard", "easy", "hard", "easy"].map((t) => el("th", { scope: "col", class: "number" }, t)))),
        el("tbody", {}, rows.map(([m, v]) => el("tr", {}, el("th", { scope: "row" }, plain(m)), v.map(cell)))))),
      el("p", { class: "hint" }, "Settings as chosen on the suite's own sets; seeds averaged; the lowest of each column in bold.")
    );
  }

  // --- images
  function order() {
    const losses = marks.losses(task, state.criterion, state.method), others = marks.losses(task, state.criterion, state.other);
    const usual = state.show === "hard_positive" ? 1 : -1;
    const orders = {
      support: () => found.support && ((r) => usual * found.support[r]),
      loss: () => losses && ((r) => (state.show === "easy" ? 1 : -1) * losses[r]),
      gap: () => losses && others && ((r) => others[r] - losses[r]),
      id: () => null,
    };
    return orders[state.sort]();
  }

  function select() {
    const code = SUBSETS.findIndex((one) => one[0] === state.show), rows = [], only = findings[state.finding];
    const wanted = state.find.trim().toLowerCase();
    const fits = (i) => (!state.drawn || split.pictures[i]) && (!wanted || matches(i, wanted));
    $("finding").hidden = !only;
    for (const one of [$("subsets"), $("sort").parentElement]) one.hidden = Boolean(only);
    wrong = new Set(only ? nooch.unpack(only.rows).subarray(0, only.wrong) : []);
    if (only) $("finding").querySelector("p").textContent = plain(`${state.finding}. ${only.sentence}: ${count(only.wrong)} errors in ${count(nooch.unpack(only.rows).length)} images`);
    if (only) rows.push(...Array.from(nooch.unpack(only.rows)).filter(fits));
    else if (!found.reason) for (let i = 0; i < task.n; i++) if (found.marks[i] === code && fits(i)) rows.push(i);
    const of = found.reason || only ? null : order();
    shown = of ? marks.ranked(rows, of) : rows;
    for (const tab of $("subsets").children) {
      const on = tab.dataset.show === state.show;
      tab.setAttribute("aria-checked", on);
      tab.tabIndex = on ? 0 : -1;
    }
    const directions = { support: { hard_positive: "least support first", hard_negative: "most support first", easy: "most support first" }[state.show], loss: state.show === "easy" ? "lowest loss first" : "highest loss first", gap: `${state.method} worse than ${state.other} first`, id: "by id" };
    const whose = marks.losses(task, state.criterion, state.method) ? `; NLL of ${plain(state.method)}${state.sort === "gap" && of ? ` and of ${plain(state.other)}` : ""}` : "";
    if (only) say(shown.length ? `${count(shown.length)} images, errors first` : "No image is found by that.");
    else say(shown.length ? `${count(shown.length)} images, ${of || state.sort === "id" ? plain(directions[state.sort]) : `by id: there is no ${state.sort} to sort by here`}${whose}` : found.reason ? "There is no set at these thresholds." : wanted ? "No image is found by that." : "There is no such image at these thresholds.");
    gallery.set(shown);
  }

  function matches(row, text) {
    const about = known(row);
    return String(split.ids[row]).toLowerCase().includes(text) || (about && about.texts[row % split.block].includes(text));
  }

  async function captionsToo() {
    if (captioned === split.name) return;
    captioned = split.name;
    const of = split;
    for (let row = 0; row < of.ids.length; row += of.block) await block(row, of);
    update();
  }

  // of the run of a finding, else of the first one that is not the baseline
  function boxes(row) {
    const of = task.boxes.find((one) => state.finding && one.run === findings[state.finding].run) || task.boxes[0];
    return of && split.pictures[row] && of.rows[row] ? { ...of.rows[row], run: of.run } : null;
  }

  function card(row) {
    const lines = [];
    if (found.support) lines.push(`support ${short(found.support[row])}`);
    const losses = marks.losses(task, state.criterion, state.method), others = marks.losses(task, state.criterion, state.other);
    // the note above the gallery says whose: names of methods may be longer than a card
    if (losses) lines.push(`NLL ${two(losses[row])}${state.sort === "gap" && others ? `, ${two(others[row])}` : ""}`);
    const id = plain(split.ids[row]);
    const made = el("div", { class: wrong.has(row) ? "card wrong" : "card", "data-id": id }, split.pictures[row] ? el("img", { src: viewer.picture(split.name, row, false), loading: "lazy", decoding: "async", alt: `image ${id}` }) : el("span", { class: "no-picture" }, "no picture"), el("b", {}, id), el("small", {}, plain(lines[0] || "")), el("small", {}, plain(lines[1] || "")), ...nooch.boxes(boxes(row)));
    return made;
  }

  function describe(row, again) {
    const about = known(row), k = row % split.block;
    if (!about) block(row).then(() => viewer.row === row && again());
    const captions = about ? about.captions[k] : [];
    const verdicts = site.criteria.map((one) => {
      const of = apply(one.name);
      return { criterion: one.name, subset: of.reason ? 255 : of.marks[row], text: nooch.inWords.verdict(task, one, of, row, settings, captions, split) };
    });
    const active = site.criteria.flatMap((one) => apply(one.name).active || []);
    const names = [...new Set(active.map((one) => one.name))];
    const shaded = about && about.shades[row] ? about.shades[row] : [];
    write();
    return {
      row, split: split.name, id: split.ids[row], task: task.task, label: task.labels[row], pictures: split.pictures[row], captions, verdicts, copy,
      name: about ? about.names[k] : "", size: about && about.widths && about.widths[k] ? `${about.widths[k]} × ${about.heights[k]} px` : "",
      shades: shaded.map((name, j) => ({ name, color: j + 1, src: `pictures/${split.name}/${Math.floor(row / 1000)}/${row}-cue${j}.png` })).filter((one) => one.name === task.task || names.includes(one.name)),
      cues: names.map((name) => ({ name, area: marks.area(task, name)[row], color: shaded.indexOf(name) + 1 })),
      contributions: ([spec(), ...site.criteria].map((one) => nooch.inWords.contributions(task, one.name, row, split)).find((parts) => parts.length) || []).filter((one) => Math.abs(one.value) > 0.05).slice(0, 8),
      boxes: boxes(row),
      losses: site.methods.map((method) => ({ method, values: marks.losses(task, state.criterion, method) })).filter((one) => one.values && !Number.isNaN(one.values[row])).map((one) => ({ method: one.method, value: one.values[row] })),
    };
  }

  function openImage() {
    if (!state.image) return;
    const row = split.ids.findIndex((id) => String(id) === state.image);
    state.image = "";
    if (row < 0) return say("The image of this link is not in this split.");
    const subset = found.reason ? 255 : found.marks[row];
    if (subset < 3 && SUBSETS[subset][0] !== state.show) {
      state.show = SUBSETS[subset][0];
      select();
    }
    const k = shown.indexOf(row);
    if (k >= 0) gallery.move(k);
    viewer.open(k >= 0 ? shown : [row], Math.max(0, k));
  }

  // --- begin
  function change(id, name, then, event = "change") {
    $(id).addEventListener(event, () => {
      state[name] = $(id).type === "checkbox" ? $(id).checked : $(id).value;
      then();
    });
  }

  function show() {
    fill($("task"), site.tasks.map((one) => [one, words(one)]), state.task);
    fill($("split"), site.splits.map((one) => [one, one]), state.split);
    fill($("criterion"), site.criteria.map((one) => [one.name, plain(one.name)]), state.criterion);
    const sorts = [["support", "support"], ...(site.methods.length ? [["loss", "loss"]] : []), ...(site.methods.length > 1 ? [["gap", "gap between two methods"]] : []), ["id", "id"]];
    fill($("sort"), sorts, state.sort);
    fill($("method"), site.methods.map((m) => [m, plain(m)]), state.method);
    fill($("other"), site.methods.map((m) => [m, plain(m)]), state.other);
    $("filter").value = state.find;
    $("drawn").checked = state.drawn;
  }

  function tabs() {
    $("subsets").replaceChildren(...SUBSETS.map(([value, text]) => el("button", { type: "button", role: "radio", "data-show": value, onclick: () => { state.show = value; select(); write(); } }, text)));
    $("subsets").addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!by) return;
      event.preventDefault();
      const next = (SUBSETS.findIndex((one) => one[0] === state.show) + by + SUBSETS.length) % SUBSETS.length;
      $("subsets").children[next].click();
      $("subsets").children[next].focus();
    });
  }

  async function begin() {
    site = await load("site");
    if (site.findings) findings = await load("findings");
    gallery = nooch.gallery($("gallery"), { card, open: (k) => viewer.open(shown, k) });
    viewer = nooch.viewer($("viewer"), { describe, closed: (k) => { write(); gallery.move(k); $("gallery").focus(); } });
    tabs();
    $("pictures-note").textContent = site.pictures.join(" ");
    if (site.notes.length) {
      $("missing").hidden = false;
      $("missing").querySelector("ul").replaceChildren(...site.notes.map((text) => el("li", {}, plain(text))));
    }
    read();
    show();
    for (const name of ["task", "split"]) change(name, name, () => { state.finding = ""; return open(); });
    change("criterion", "criterion", () => { controls(); update(); });
    for (const name of ["sort", "method", "other"]) change(name, name, () => { choices(); cuePanel(); select(); write(); });
    change("drawn", "drawn", () => { select(); write(); });
    change("filter", "find", () => { if (state.find) captionsToo(); select(); write(); }, "input");
    $("controls").addEventListener("submit", (event) => event.preventDefault());
    $("copy").addEventListener("click", copy);
    $("finding").querySelector("button").addEventListener("click", () => { state.finding = ""; choices(); select(); write(); });
    window.addEventListener("hashchange", async () => { if (location.hash === address()) return; read(); show(); if ($("viewer").open) $("viewer").close(); await open(); openImage(); });
    await open();
    openImage();
    let wide = $("histogram").clientWidth;
    new ResizeObserver(() => { if ($("histogram").clientWidth !== wide) { wide = $("histogram").clientWidth; histogram(); } }).observe($("histogram"));
  }

  begin().catch((error) => { $("counts").replaceChildren(el("p", { class: "none" }, String(error.message || error))); throw error; });
})();
