// Buttons of code are no landmarks, of which each would need a name.
new MutationObserver(() => {
  document.querySelectorAll(".md-code__nav:not([role])").forEach((one) => one.setAttribute("role", "presentation"));
}).observe(document.documentElement, { childList: true, subtree: true });
