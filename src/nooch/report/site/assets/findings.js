// The overview of a check: buttons that copy or save the ids of a finding's images, or the finding.
"use strict";
(async () => {
  const findings = await nooch.load("findings");
  for (const button of document.querySelectorAll(".copy-ids")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const one = findings[button.dataset.finding], markdown = "markdown" in button.dataset;
      const { ids } = markdown ? {} : await nooch.load(`split-${button.dataset.split}`);
      const text = markdown ? one.markdown : Array.from(nooch.unpack(one.rows), (row) => ids[row]).join("\n");
      if ("file" in button.dataset) {
        const address = URL.createObjectURL(new Blob([text, "\n"], { type: "text/plain" }));
        nooch.el("a", { href: address, download: `finding-${button.dataset.finding}.txt` }).click();
        setTimeout(() => URL.revokeObjectURL(address), 60000);
        return;
      }
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        // without a clipboard they can be copied by hand
        const box = nooch.el("textarea", { class: "ids", readonly: true, "aria-label": markdown ? "Markdown" : "Ids" });
        box.value = text;
        button.replaceWith(box);
        box.select();
      }
    });
  }
})();
