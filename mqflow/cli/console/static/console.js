// Replaces the overview when the server sends it anew. Every page works without this script.
"use strict";
const live = document.getElementById("live");
if (live && window.EventSource) {
  const trouble = document.getElementById("trouble");
  const say = (text) => { trouble.textContent = text; trouble.hidden = !text; };
  const events = new EventSource(document.body.dataset.live);
  events.addEventListener("overview", (event) => {
    const focused = live.contains(document.activeElement) ? document.activeElement : null;
    const address = focused && focused.getAttribute("href");
    const region = focused && focused.getAttribute("aria-label");
    const before = new Map([...live.querySelectorAll("[role=region]")].map((each) => [each.getAttribute("aria-label"), each.scrollLeft]));
    const open = new Set([...live.querySelectorAll("details[open]")].map((each) => each.dataset.key));
    live.innerHTML = event.data; // the server has escaped it, and the policy of the page lets no inline script run
    for (const each of live.querySelectorAll("[role=region]")) each.scrollLeft = before.get(each.getAttribute("aria-label")) || 0;
    for (const each of live.querySelectorAll("details")) each.open = open.has(each.dataset.key);
    const again = [...live.querySelectorAll("a, [role=region]")].find((each) =>
      address ? each.getAttribute("href") === address : region && each.getAttribute("aria-label") === region);
    if (again) again.focus({ preventScroll: true });
    say("");
  });
  events.addEventListener("trouble", (event) => say(event.data));
  events.onerror = () => say(events.readyState === EventSource.CLOSED // the browser never tries again after a refused request
    ? "The page shows the last state, and is not live any more. Load it again."
    : "The console does not answer now. The page shows the last state, and tries again.");
}
