// The page of an audit: one label at a time; verdicts are kept in the browser and exported as CSV.
"use strict";
nooch.load("audit").then((audit) => {
  const { el, plain, words, count } = nooch;
  const reviewer = document.getElementById("reviewer"), done = document.getElementById("done");
  const place = `nooch verdicts ${audit.dataset}`, keys = { y: "yes", n: "no", a: "ambiguous" };
  const columns = ["image_id", "task", "verdict", "reviewer", "time"];
  const name = (pair) => JSON.stringify([pair.image, pair.task]);
  const unsaved = " · nothing can be saved in this browser: export before you close the page";
  let said = {}, problem = "", at = 0;
  try {
    said = JSON.parse(localStorage.getItem(place) || "{}");
  } catch {
    problem = unsaved;
  }

  // natural log odds as "12 to 1 against the label"
  function odds(value) {
    if (value === null) return "–";
    const ratio = Math.exp(Math.abs(value));
    return `${ratio < 1000 ? nooch.short(ratio) : "more than 1,000"} to 1 ${value > 0 ? "against" : "for"} the label`;
  }

  function judge(verdict) {
    const pair = audit.pairs[at];
    said[name(pair)] = { image_id: pair.image, task: pair.task, verdict, reviewer: reviewer.value.trim(), time: new Date().toISOString() };
    try {
      localStorage.setItem(place, JSON.stringify(said));
    } catch {
      problem = unsaved;
    }
    go(1);
  }

  function go(by) {
    at = Math.min(Math.max(at + by, 0), audit.pairs.length - 1);
    draw();
  }

  function draw() {
    const pair = audit.pairs[at], verdict = (said[name(pair)] || {}).verdict;
    const button = (text, act, pressed) => el("button", { type: "button", class: `button${pressed ? "" : " quiet"}`, "aria-pressed": pressed ? "true" : "false", onclick: act }, text);
    const rows = ["all together", ...audit.sources].map((source, number) => el("tr", {}, el("th", { scope: "row" }, plain(source)), el("td", { class: "number" }, odds(pair.odds[number]))));
    const image = pair.picture ? el("img", { src: pair.picture, alt: `image ${plain(pair.image)}` }) : el("p", { class: "no-picture large" }, `image ${plain(pair.image)}`);
    const rect = ([x, y, width, height], kind) => el("rect", { x, y, width, height, class: kind });
    const boxes = pair.picture && pair.boxes ? el("svg", { class: "boxes", viewBox: `0 0 ${pair.boxes.width} ${pair.boxes.height}` }, pair.boxes.found.map((box) => rect(box, "found")), pair.boxes.false.map((box) => rect(box, "false"))) : null;
    document.getElementById("pair").replaceChildren(
      el("div", {}, el("div", { class: "stage" }, image, boxes), el("p", { class: "hint" }, `image ${plain(pair.image)}${pair.values ? `, ${pair.values}` : ""}`)),
      el("div", { class: "viewer-words" },
        el("h2", {}, `${words(pair.task)}?`),
        el("p", {}, `The label says ${pair.label ? "yes" : "no"}.`),
        el("div", { class: "buttons" }, Object.entries(keys).map(([key, text]) => button(`${text} (${key})`, () => judge(text), verdict === text))),
        nooch.tableBox("Evidence", el("table", {}, el("tbody", {}, rows))),
        el("div", { class: "buttons" }, button("back (b)", () => go(-1)), button("skip (s)", () => go(1)))
      )
    );
    const judged = audit.pairs.filter((one) => name(one) in said).length;
    done.textContent = `${count(at + 1)} of ${count(audit.pairs.length)}, ${count(judged)} judged${problem}`;
  }

  document.addEventListener("keydown", (event) => {
    if (event.target === reviewer || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in keys) judge(keys[event.key]);
    else if (event.key === "b" || event.key === "ArrowLeft") go(-1);
    else if (event.key === "s" || event.key === "ArrowRight") go(1);
  });
  document.getElementById("who").addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("export").addEventListener("click", () => {
    const cell = (text) => `"${String(text).replaceAll('"', '""')}"`;
    const lines = [columns, ...Object.values(said).map((one) => columns.map((column) => one[column]))];
    const file = new Blob(lines.map((line) => `${line.map(cell).join(",")}\n`), { type: "text/csv" });
    const link = el("a", { href: URL.createObjectURL(file), download: "verdicts.csv" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  draw();
});
