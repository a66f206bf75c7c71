// Many images in little room: only the rows that can be seen are there.
"use strict";
nooch.gallery = (box, { card, open }) => {
  const gap = 10, least = 150, tall = 214;
  let rows = [], columns = 1, wide = least, focus = 0, drawn = new Map(), frame = 0;
  const inner = nooch.el("div", { class: "gallery-inner", role: "presentation" });
  box.replaceChildren(inner);

  function measure() {
    const room = box.clientWidth - 2 * gap;
    columns = Math.max(2, Math.floor((room + gap) / (least + gap)));
    wide = Math.floor((room - gap * (columns - 1)) / columns);
    inner.style.height = `${Math.ceil(rows.length / columns) * (tall + gap) + gap}px`;
  }

  function draw() {
    frame = 0;
    const first = Math.max(0, Math.floor(box.scrollTop / (tall + gap)) - 1) * columns;
    const last = Math.min(rows.length, (Math.ceil((box.scrollTop + box.clientHeight) / (tall + gap)) + 1) * columns);
    const kept = new Map();
    for (let k = first; k < last; k++) {
      const made = drawn.get(k) || card(rows[k]);
      if (!drawn.has(k)) {
        made.id = `card-${k}`;
        made.setAttribute("role", "option");
        made.setAttribute("aria-setsize", rows.length);
        made.setAttribute("aria-posinset", k + 1);
        made.addEventListener("click", () => { focus = k; open(k); });
        inner.append(made);
      }
      made.style.left = `${gap + (k % columns) * (wide + gap)}px`;
      made.style.top = `${gap + Math.floor(k / columns) * (tall + gap)}px`;
      made.style.width = `${wide}px`;
      made.style.height = `${tall}px`;
      made.setAttribute("aria-selected", k === focus);
      kept.set(k, made);
    }
    for (const [k, made] of drawn) if (!kept.has(k)) made.remove();
    drawn = kept;
    if (rows.length) box.setAttribute("aria-activedescendant", `card-${focus}`);
    else box.removeAttribute("aria-activedescendant");
  }

  const later = () => { frame = frame || requestAnimationFrame(draw); };

  function show(k) {
    const top = Math.floor(k / columns) * (tall + gap);
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + tall + 2 * gap > box.scrollTop + box.clientHeight) box.scrollTop = top + tall + 2 * gap - box.clientHeight;
  }

  function move(k) {
    if (!rows.length) return;
    focus = Math.max(0, Math.min(rows.length - 1, k));
    show(focus);
    draw();
  }

  const keys = {
    ArrowRight: () => move(focus + 1), ArrowLeft: () => move(focus - 1), ArrowDown: () => move(focus + columns), ArrowUp: () => move(focus - columns),
    PageDown: () => move(focus + 3 * columns), PageUp: () => move(focus - 3 * columns), Home: () => move(0), End: () => move(rows.length - 1),
    Enter: () => rows.length && open(focus), " ": () => rows.length && open(focus),
  };
  box.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  box.addEventListener("scroll", later, { passive: true });
  new ResizeObserver(() => { measure(); later(); }).observe(box);

  return {
    set(next, keep = false) {
      rows = next;
      for (const made of drawn.values()) made.remove();
      drawn = new Map();
      if (!keep) { focus = 0; box.scrollTop = 0; }
      focus = Math.min(focus, Math.max(0, rows.length - 1));
      box.classList.toggle("empty", !rows.length);
      measure();
      draw();
    },
    move,
    redraw() {
      for (const made of drawn.values()) made.remove();
      drawn = new Map();
      draw();
    },
  };
};
