// Panels of plugins. Each runs in a frame without an origin: it sees neither the page nor the token, reaches no network,
// and may ask for what its own application answers, through the page.

import * as api from "./api.js";
import { h, plain, show } from "./dom.js";

const METHODS = new Set(["GET", "POST", "PUT", "PATCH", "DELETE"]);

export function panelView({ say, fail }) {
  const element = h("div", { class: "panel" });
  let current = null;
  addEventListener("message", heard);

  async function update(state, panel) {
    current = null;
    if (!panel) {
      show(element, h("h1", {}, "No such panel"));
      return;
    }
    const frame = h("iframe", { sandbox: "allow-scripts", title: plain(panel.title), src: "./page/panel.html", referrerpolicy: "no-referrer" });
    current = { panel, frame, source: null };
    const mine = current;
    show(element, h("h1", { tabindex: -1 }, plain(panel.title)));
    try {
      const response = await api.call(api.address(panel.module.slice(1)));
      mine.source = await response.text();
      if (current !== mine) return;
      element.append(frame);
      fail("");
      say(plain(panel.title));
    } catch (error) {
      if (current === mine) fail(`${panel.title}: ${error.message}`);
    }
  }

  /** From the frame, and only from it. It has no origin that could be compared. */
  function heard(event) {
    const mine = current;
    if (!mine || event.source !== mine.frame.contentWindow || typeof event.data !== "object" || event.data === null) return;
    const { kind, id, path, options, height, message } = event.data;
    if (kind === "ready") tell(mine, { kind: "module", source: mine.source, dark: isDark() });
    else if (kind === "height" && Number.isFinite(height)) mine.frame.height = String(Math.min(20_000, Math.max(100, Math.ceil(height))));
    else if (kind === "failed") fail(`${mine.panel.title}: ${String(message).slice(0, 300)}`);
    else if (kind === "ask") answer(mine, id, path, options);
  }

  async function answer(mine, id, path, options = {}) {
    try {
      const url = within(mine.panel.prefix, path);
      const method = String(options?.method ?? "GET").toUpperCase();
      if (!METHODS.has(method)) throw new Error("A panel may not do that.");
      const body = options?.body === undefined ? undefined : String(options.body);
      const headers = body === undefined ? {} : { "content-type": "application/json" };
      const response = await api.call(url, { method, body, headers });
      tell(mine, { kind: "answer", id, status: response.status, text: await response.text() });
    } catch (error) {
      tell(mine, { kind: "answer", id, status: error.status ?? 0, error: error.message });
    }
  }

  function within(prefix, path) {
    const root = api.address(`${prefix.slice(1)}/`);
    const url = new URL(String(path).replace(/^\/+/, ""), root);
    // An encoded dot or slash may become a real one behind the server's door.
    if (url.origin !== root.origin || !url.pathname.startsWith(root.pathname) || /%2e|%2f|%5c|\\/i.test(url.pathname)) {
      throw new Error("A panel may ask its own application only.");
    }
    return url;
  }

  const tell = (mine, message) => mine.frame.contentWindow?.postMessage(message, "*");
  const isDark = () => getComputedStyle(document.documentElement).colorScheme === "dark";

  return { element, update, leave: () => { current = null; show(element); } };
}
