// In a panel's frame: takes the module from the page and shows it. `show(element, {ask})` may ask its own application.
"use strict";

(() => {
  const page = window.parent;
  const waiting = new Map();
  let last = 0;
  const tell = (message) => page.postMessage(message, "*");

  const ask = (path, options) => new Promise((resolve, reject) => {
    last += 1;
    waiting.set(last, { resolve, reject });
    tell({ kind: "ask", id: last, path, options });
  });

  async function start({ source, dark }) {
    document.documentElement.classList.toggle("dark", dark);
    const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    try {
      const panel = document.getElementById("panel");
      new ResizeObserver(() => tell({ kind: "height", height: document.documentElement.scrollHeight })).observe(panel);
      await (await import(url)).show(panel, { ask });
    } catch (error) {
      tell({ kind: "failed", message: String(error?.message ?? error) });
    }
  }

  addEventListener("message", (event) => {
    if (event.source !== page) return;
    const { kind, id } = event.data;
    if (kind === "module") start(event.data);
    if (kind !== "answer" || !waiting.has(id)) return;
    const { resolve, reject } = waiting.get(id);
    waiting.delete(id);
    if (event.data.error) reject(Object.assign(new Error(event.data.error), { status: event.data.status }));
    else resolve({ status: event.data.status, text: event.data.text });
  });
  tell({ kind: "ready" });
})();
