// Puts the views together: the address says which is shown, the header changes the address.

import * as api from "./api.js";
import { byId, h, plain, show } from "./dom.js";
import { graphView } from "./graph.js";
import { indexView } from "./indexed.js";
import { panelView } from "./panels.js";
import { readerView } from "./reader.js";
import { searchView } from "./search.js";
import { link, read } from "./state.js";

const SHORTCUTS = {
  "/": ["Search", () => byId("search").focus()],
  b: ["Back to the results", () => byId("back")?.click()],
  o: ["The outline", () => focusIn(".outline summary")],
  f: ["The facets", () => focusIn("#narrow summary")],
  g: ["The graph", () => go({ ...read(), view: "graph" })],
  i: ["What is indexed", () => go({ ...read(), view: "index" })],
  "?": ["These keys", () => openKeys()],
};
const OTHER_KEYS = { "Arrow down, arrow up": "To the results, and among them", "Escape": "Back: to the results, to the search" };
const THEMES = ["auto", "light", "dark"];
const TYPING_MS = 60;

const say = (text) => { byId("status").textContent = plain(text); };
const fail = (text) => { byId("problem").textContent = plain(text); };
const tools = { go, say, fail };
const views = { search: searchView(tools), doc: readerView(tools), graph: graphView(tools), index: indexView(tools), panel: panelView(tools) };
let panels = [];
let shown = "";
let lastHit = "";

function focusIn(selector) {
  const found = document.querySelector(selector);
  const details = found?.closest("details");
  if (details) details.open = true;
  found?.focus();
}

/** Goes to a state; `replace` where that is no step to come back to. */
function go(state, { replace = false } = {}) {
  const hash = link(state);
  if (replace) history.replaceState(null, "", hash);
  else if (hash !== location.hash) history.pushState(null, "", hash);
  return update();
}

async function update(event) {
  const state = read();
  api.useBackend(state.backend);
  const name = Object.hasOwn(views, state.view) ? state.view : "search";
  const input = byId("search");
  // Who is typing is ahead of the address.
  if (event?.type === "hashchange" || document.activeElement !== input) input.value = state.q;
  if (shown !== name) {
    views[shown]?.leave?.();
    show(byId("main"), views[name].element);
    shown = name;
    say("");
  }
  showViews(state, name);
  document.title = [state.q, name === "doc" ? state.doc : "", "Knowledge"].filter(Boolean).map(plain).join(" · ");
  await views[name].update(state, panels.find((each) => each.name === state.panel));
  if (name === "search" && shown === name && lastHit && document.activeElement === document.body) focusHit();
  // Where what had the focus is gone, Tab goes on from the view.
  if (shown === name && document.activeElement === document.body) byId("main").focus({ preventScroll: true });
}

/** Who comes back from a document is where they left. */
function focusHit() {
  const found = [...document.querySelectorAll("#results a.title")].find((each) => each.getAttribute("href") === lastHit);
  if (!found) return;
  found.focus();
  lastHit = "";
}

function showViews(state, current) {
  const to = (more) => link({ q: state.q, filter: state.filter, backend: state.backend, ...more });
  const entries = [["search", "Search", to({ view: "search" })], ["graph", "Graph", to({ view: "graph", doc: state.doc })],
    ["index", "Indexed", to({ view: "index" })], ...panels.map((each) => [`panel ${each.name}`, each.title, to({ view: "panel", panel: each.name })])];
  const name = current === "panel" ? `panel ${state.panel}` : current;
  const nav = byId("views");
  const focused = [...nav.querySelectorAll("a")].indexOf(document.activeElement);
  show(nav, entries.map(([key, title, href]) => h("a", { href, "aria-current": key === name ? "page" : null }, plain(title))));
  if (focused >= 0) nav.querySelectorAll("a")[focused]?.focus();
}

function onType() {
  let timer = 0;
  byId("search").addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const state = read();
      // The first letter is a step of its own; the others change it.
      const isNew = state.view !== "search" || !state.q;
      go({ view: "search", q: byId("search").value, filter: state.filter, backend: state.backend }, { replace: !isNew });
    }, TYPING_MS);
  });
  byId("search-form").addEventListener("submit", (event) => {
    event.preventDefault();
    if (shown === "search") views.search.move(1);
    else go({ ...read(), view: "search", doc: "", span: null, hash: "", at: "" });
  });
}

function onKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const target = event.target;
    const isField = target.matches?.("input:not([type=checkbox]), textarea, select");
    const inResults = target.id === "search" || target.closest?.("#results");
    if ((event.key === "ArrowDown" || event.key === "ArrowUp") && shown === "search" && inResults) {
      event.preventDefault();
      if (!views.search.move(event.key === "ArrowDown" ? 1 : -1) && event.key === "ArrowUp") byId("search").focus();
    } else if (event.key === "Escape" && target.id !== "search") {
      if (shown === "search") byId("search").focus();
      else byId("back") ? byId("back").click() : go({ ...read(), view: "search", doc: "" });
    } else if (!isField && Object.hasOwn(SHORTCUTS, event.key) && keysOn()) {
      event.preventDefault();
      SHORTCUTS[event.key][1]();
    }
  });
  document.addEventListener("click", (event) => {
    const hit = event.target.closest?.("#results a.title");
    if (hit) lastHit = hit.getAttribute("href");
  });
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault();
    byId("main").focus();
  });
}

const keysOn = () => stored("knowledge-keys", "on") === "on";

function openKeys() {
  show(byId("keys-list"), [...Object.entries(SHORTCUTS).map(([key, [what]]) => [key, what]), ...Object.entries(OTHER_KEYS)]
    .map(([key, what]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, what))));
  byId("keys-on").checked = keysOn();
  byId("keys-dialog").showModal();
}

/** What the browser keeps; it may refuse to. */
function stored(name, usual) {
  try {
    return localStorage.getItem(name) ?? usual;
  } catch {
    return usual;
  }
}

function store(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // Then it holds until the page is left.
  }
}

function onTools() {
  const apply = (theme) => {
    document.documentElement.dataset.theme = theme;
    byId("theme").textContent = `Theme: ${theme}`;
  };
  apply(stored("knowledge-theme", "auto"));
  byId("theme").addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
    store("knowledge-theme", next);
    apply(next);
  });
  byId("keys").addEventListener("click", openKeys);
  byId("keys-on").addEventListener("change", (event) => store("knowledge-keys", event.target.checked ? "on" : "off"));
  byId("forget").addEventListener("click", () => {
    api.forgetToken();
    location.reload();
  });
}

/** Asks for a token until one is given. */
function askForToken(why) {
  const dialog = byId("token-dialog");
  const input = byId("token");
  byId("token-why").textContent = plain(why || "This server shows its documents to those who have one.");
  input.value = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.oncancel = (event) => event.preventDefault();
    byId("token-form").onsubmit = (event) => {
      event.preventDefault();
      const token = input.value.trim();
      // A header can hold nothing else.
      if (!/^[\x21-\x7e]+$/.test(token)) {
        byId("token-why").textContent = "A token is made of letters, digits and signs, without spaces.";
        return;
      }
      input.value = "";
      dialog.close();
      byId("forget").hidden = false;
      resolve(token);
    };
  });
}

async function showBackends() {
  const { backends } = await api.status();
  if (backends.length < 2) return;
  const choice = h("select", { id: "backend", onchange: () => {
    views.search.forget();
    go({ view: "search", q: read().q, backend: choice.value });
  } }, h("option", { value: "" }, "All"), backends.map((name) => h("option", { value: name }, plain(name))));
  choice.value = read().backend;
  show(byId("backends"), h("label", { for: "backend" }, "In"), choice);
}

async function start() {
  api.whoAsks(askForToken);
  byId("forget").hidden = !api.hasToken();
  onTools();
  onType();
  onKeys();
  addEventListener("hashchange", update);
  addEventListener("online", update);
  byId("search").value = read().q;
  byId("search").focus();
  const ready = update();
  await Promise.allSettled([ready, showBackends(), api.panels().then((found) => { panels = found.panels; })]);
  if (panels.length) await update();
}

start();
