// The page works without this script. With it, times are in the reader's zone,
// countdowns count, and the parts of the page are replaced as they change.
"use strict";
(() => {
  const body = document.body;
  let ahead = Date.parse(body.dataset.at) - Date.now(); // of the server's clock
  let version = body.dataset.version;
  const now = () => Date.now() + ahead;

  const clock = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
  const sameDay = new Intl.DateTimeFormat(undefined, clock);
  const otherDay = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", ...clock });
  const otherYear = new Intl.DateTimeFormat(undefined, { year: "numeric", day: "numeric", month: "short", ...clock });
  const hour = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

  function local(root) {
    for (const e of root.querySelectorAll("time")) {
      const at = new Date(e.dateTime);
      if (isNaN(at)) continue;
      const today = new Date(now());
      const date = at.toDateString() === today.toDateString() ? sameDay : at.getFullYear() === today.getFullYear() ? otherDay : otherYear;
      e.textContent = (e.dataset.hour !== undefined ? hour : date).format(at);
      e.title = e.dateTime;
    }
  }

  function span(ms) {
    const s = Math.ceil(ms / 1000), m = Math.ceil(s / 60), h = Math.floor(m / 60);
    if (s < 60) return s + "s";
    if (s < 3600) return Math.floor(s / 60) + "m" + (s % 60 ? (s % 60) + "s" : "");
    if (h < 48) return h + "h" + (m % 60 ? (m % 60) + "m" : "");
    return Math.floor(h / 24) + "d" + (h % 24 ? (h % 24) + "h" : "");
  }

  function count(root) {
    for (const e of root.querySelectorAll(".rel")) {
      const away = Date.parse(e.dataset.at) - now();
      const text = away >= 0 ? "in " + span(away) : span(-away) + " ago";
      if (e.textContent !== text) e.textContent = text;
    }
  }

  function replace({ id, html }) {
    const old = document.getElementById(id);
    if (!old) return;
    const made = document.createElement("template");
    made.innerHTML = html;
    const next = made.content.firstElementChild;
    for (const e of old.querySelectorAll("details[open]")) {
      const same = e.id && made.content.getElementById(e.id);
      if (same) same.open = true;
    }
    const focus = old.contains(document.activeElement) ? path(old, document.activeElement) : null;
    const scroll = [...old.querySelectorAll(".scroll")].map(e => e.scrollLeft);
    old.replaceWith(next);
    local(next);
    count(next);
    next.querySelectorAll(".scroll").forEach((e, i) => { e.scrollLeft = scroll[i] || 0; });
    if (focus) find(next, focus)?.focus({ preventScroll: true });
  }

  function path(root, e) {
    const steps = [];
    for (; e !== root; e = e.parentElement) steps.unshift([...e.parentElement.children].indexOf(e));
    return steps;
  }
  const find = (root, steps) => steps.reduce((e, i) => e && e.children[i], root);

  const live = document.getElementById("live");
  let stream = null;
  function open() {
    stream = new EventSource(body.dataset.events + "&v=" + encodeURIComponent(version));
    stream.addEventListener("part", e => replace(JSON.parse(e.data)));
    stream.addEventListener("reload", () => location.reload());
    stream.addEventListener("at", e => {
      const { at, answers } = JSON.parse(e.data), shown = document.querySelector("#at time");
      version = e.lastEventId;
      ahead = Date.parse(at) - Date.now();
      shown.dateTime = at;
      live.textContent = answers ? "Live" : "The ledger does not answer; as of";
      live.classList.toggle("on", answers);
      local(document.getElementById("at"));
    });
    stream.onerror = () => { live.textContent = "Not connected; as of"; live.classList.remove("on"); };
  }
  document.addEventListener("visibilitychange", () => { // a hidden page costs nothing
    if (document.hidden) {
      stream.close();
    } else if (stream.readyState === EventSource.CLOSED) {
      open();
    }
  });

  document.getElementById("zone").textContent = "Times are in " + Intl.DateTimeFormat().resolvedOptions().timeZone + ".";
  local(document);
  count(document);
  setInterval(() => { if (!document.hidden) count(document); }, 1000);
  open();
})();
