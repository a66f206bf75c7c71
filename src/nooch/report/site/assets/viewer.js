// One image, large, with everything that is known of it.
"use strict";
// the objects of an image and the boxes of a detector, as a drawing of its size
nooch.boxes = (of) => {
  const { el } = nooch;
  const rect = (kind) => ([x, y, width, height]) => el("rect", { class: kind, x, y, width, height });
  return of ? [el("svg", { class: "boxes", viewBox: `0 0 ${of.width} ${of.height}`, "aria-hidden": true }, ["found", "missed", "false"].flatMap((kind) => of[kind].map(rect(kind))))] : [];
};
nooch.viewer = (dialog, { describe, closed }) => {
  const { el, plain, words, count, percent } = nooch;
  let rows = [], at = 0, shaded = true;

  const picture = (split, row, large) => `pictures/${split}/${Math.floor(row / 1000)}/${row}${large ? "-large" : ""}.jpg`;
  const badge = (subset) => el("span", { class: `badge ${["positive", "negative", "easy"][subset] || "none"}` }, ["hard positive", "hard negative", "easy"][subset] || "no verdict");

  function image(about) {
    if (!about.pictures) return el("div", { class: "no-picture large" }, "no picture of this image in the report");
    const shown = el("img", { src: picture(about.split, about.row, about.pictures === 2), alt: `image ${plain(about.id)}${about.captions.length ? `: ${plain(about.captions[0])}` : ""}` });
    const box = el("div", { class: "stage" }, shown);
    for (const one of about.shades) box.append(el("img", { class: "shade", src: one.src, alt: "", hidden: !shaded }));
    box.append(...nooch.boxes(about.boxes));
    return box;
  }

  function cues(about) {
    if (!about.cues.length) return null;
    const list = about.cues.map((cue) =>
      el("li", {}, el("span", { class: "cue-name" }, words(cue.name)), nooch.bar(cue.area), el("span", { class: "number" }, percent(cue.area)), cue.color ? el("i", { class: `swatch c${cue.color}` }) : null)
    );
    const toggle = about.shades.length ? el("label", { class: "check" }, el("input", { type: "checkbox", "data-key": "shade", checked: shaded, onchange: (event) => { shaded = event.target.checked; dialog.querySelectorAll(".shade").forEach((one) => { one.hidden = !shaded; }); } }), " shade them") : null;
    return el("section", {}, el("h3", {}, "Context cues, share of the image"), el("ul", { class: "cue-list" }, list), toggle);
  }

  function contributions(about) {
    if (!about.contributions.length) return null;
    const most = Math.max(...about.contributions.map((one) => Math.abs(one.value)));
    const list = about.contributions.map((one) => el("li", { class: one.value < 0 ? "against" : "for" }, el("span", { class: "cue-name" }, one.text ? plain(one.text) : `${one.there ? "" : "no "}${words(one.name)}`), nooch.bar(Math.abs(one.value) / most), el("span", { class: "number" }, nooch.inWords.signed(one.value))));
    return el("section", {}, el("h3", {}, `What speaks for and against ${words(about.task)}, log odds`), el("ul", { class: "cue-list" }, list));
  }

  function losses(about) {
    if (!about.losses.length) return null;
    const most = Math.max(...about.losses.map((one) => one.value), 1e-9);
    const list = about.losses.map((one) => el("li", {}, el("span", { class: "cue-name" }, plain(one.method)), nooch.bar(one.value / most), el("span", { class: "number" }, one.value.toFixed(2))));
    return el("section", {}, el("h3", {}, "NLL of each method"), el("ul", { class: "cue-list" }, list));
  }

  // what had the focus has it again: without it keys would go past the dialog
  function draw() {
    const key = dialog.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
    fillIn();
    if (!dialog.open) return;
    const again = key === undefined ? null : dialog.querySelector(`[data-key="${key}"]:not([disabled])`);
    (again || dialog.querySelector("h2")).focus({ preventScroll: true });
  }

  function fillIn() {
    const about = describe(rows[at], draw);
    const step = (by, text) => el("button", { type: "button", class: "button quiet", "data-key": by, onclick: () => go(at + by), disabled: by < 0 ? at === 0 : at === rows.length - 1, "aria-label": by < 0 ? "previous image" : "next image" }, text);
    dialog.replaceChildren(
      el("div", { class: "viewer-top" }, step(-1, "←"), step(1, "→"), el("span", { class: "hint" }, `${count(at + 1)} of ${count(rows.length)}`), el("span", { class: "spring" }), el("button", { type: "button", class: "button quiet", "data-key": "copy", onclick: about.copy }, "Copy link"), el("button", { type: "button", class: "button quiet", "data-key": "close", onclick: () => dialog.close() }, "Close")),
      el("div", { class: "viewer-body" },
        el("div", { class: "viewer-image" }, image(about), el("p", { class: "hint file-name" }, [about.name, about.size].filter(Boolean).map(plain).join(" · "), about.shades.filter((one) => one.name === about.task).map((one) => el("span", {}, " ", el("i", { class: `swatch c${one.color}` }), words(one.name))), about.boxes ? el("span", {}, ` · ${plain(about.boxes.run)}: ${about.boxes.words}`) : null)),
        el("div", { class: "viewer-words" },
          el("h2", { tabindex: -1 }, `Image ${plain(about.id)}`),
          el("p", {}, `${words(about.task)} is ${about.label === 1 ? "present" : about.label === 0 ? "absent" : "unknown"}.`),
          ...about.verdicts.map((one) => el("section", { class: "verdict-box" }, el("h3", {}, plain(one.criterion), " ", badge(one.subset)), el("p", {}, plain(one.text)))),
          contributions(about), cues(about), losses(about),
          about.captions.length ? el("section", {}, el("h3", {}, "Captions"), el("ul", { class: "captions" }, about.captions.map((text) => el("li", {}, plain(text))))) : null
        )
      )
    );
  }

  function go(next) {
    if (next < 0 || next >= rows.length) return;
    at = next;
    draw();
  }

  dialog.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    go(at + by);
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => closed(at));

  return {
    open(list, k) {
      rows = list;
      at = k;
      draw();
      if (!dialog.open) dialog.showModal();
      dialog.querySelector("h2").focus();
    },
    get row() { return dialog.open ? rows[at] : null; },
    picture,
  };
};
