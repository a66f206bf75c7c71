// What is wrong with where things are on a page: a list of sentences, empty where nothing is.
() => {
  const SKIPPED = "title, option, .skip, .quiet-title";
  const name = (e) => {
    const text = (e.textContent || e.value || "").trim().slice(0, 60);
    return `${e.tagName.toLowerCase()}.${e.getAttribute("class") || ""} "${text}"`;
  };
  const shown = (e) => e.checkVisibility({ visibilityProperty: true }) && !e.closest(SKIPPED);
  // a region that scrolls on purpose can be reached with the keyboard and has a name
  const scrolls = (e) => {
    const style = getComputedStyle(e);
    return /auto|scroll/.test(style.overflowX + style.overflowY) && e.tabIndex >= 0 && e.hasAttribute("aria-label");
  };
  const known = new Map([[null, []]]);
  const around = (r) => {
    if (!known.has(r)) known.set(r, scrolls(r) ? [r, ...around(r.parentElement)] : around(r.parentElement));
    return known.get(r);
  };
  const regions = (e) => around(e.parentElement);
  // what a region hides by scrolling is not there
  const visible = (e) => {
    let { left, right, top, bottom } = e.getBoundingClientRect();
    for (const region of regions(e)) {
      const box = region.getBoundingClientRect();
      left = Math.max(left, box.left);
      right = Math.min(right, box.right);
      top = Math.max(top, box.top);
      bottom = Math.min(bottom, box.bottom);
    }
    return { e, left, right, top, bottom };
  };

  const found = [], boxes = [];
  for (const e of document.body.querySelectorAll("*")) {
    if (!shown(e)) continue;
    const style = getComputedStyle(e), box = e.getBoundingClientRect(), svg = e.ownerSVGElement;
    if (box.width < 1 || box.height < 1) continue;
    if (!regions(e).length && (box.right > innerWidth + 1 || box.left < -1)) found.push(`outside the window: ${name(e)}`);
    const cuts = style.overflowX !== "visible" && !svg && !scrolls(e) && !e.matches("select, input, img, svg");
    if (cuts && e.scrollWidth > e.clientWidth + 1) found.push(`cut off: ${name(e)}`);
    if (svg && e.tagName === "text") {
      const chart = svg.getBoundingClientRect();
      const out = [chart.left - box.left, box.right - chart.right, chart.top - box.top, box.bottom - chart.bottom];
      if (Math.max(...out) > 1) found.push(`outside its chart: ${name(e)}`);
    }
    const words = !svg && style.display !== "inline" && [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    const part = e.matches("select, input, button, text, img:not(.shade), header.top a, .panel, .card, .cards > li, figure");
    if (words || part) boxes.push(visible(e));
  }
  const there = boxes.filter((b) => b.right - b.left > 1 && b.bottom - b.top > 1).sort((a, b) => a.top - b.top);
  there.forEach((a, i) => {
    for (let j = i + 1; j < there.length && there[j].top < a.bottom - 2; j++) {
      const b = there[j];
      const apart = b.left > a.right - 2 || b.right < a.left + 2;
      if (!apart && !a.e.contains(b.e) && !b.e.contains(a.e)) found.push(`${name(a.e)} overlaps ${name(b.e)}`);
    }
  });
  const wide = document.documentElement.scrollWidth;
  if (wide > innerWidth) found.push(`the page is ${wide} px wide`);
  return found;
}
