// What is shown stands in the address, so that it can be linked, kept and gone back to.

const LISTS = { filter: [] };

/** What the address says: view, q, filter ([key, value] pairs), doc, span, hash, at, backend, panel. */
export function read(hash = location.hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const state = { ...LISTS, view: given.get("view") || (given.has("doc") ? "doc" : "search") };
  for (const name of ["q", "doc", "hash", "at", "backend", "panel"]) state[name] = given.get(name) || "";
  state.filter = given.getAll("filter").map(pair).filter(Boolean);
  const span = /^(\d{1,15})-(\d{1,15})$/.exec(given.get("span") || "");
  state.span = span && Number(span[1]) <= Number(span[2]) ? { start: Number(span[1]), end: Number(span[2]) } : null;
  return state;
}

function pair(text) {
  try {
    const found = JSON.parse(text);
    return Array.isArray(found) && found.length === 2 && found.every((part) => typeof part === "string") ? found : null;
  } catch {
    return null;
  }
}

/** The address of a state. */
export function link(state) {
  const out = new URLSearchParams();
  const usual = state.doc && state.view === "doc" ? "doc" : "search";
  if (state.view && state.view !== usual) out.set("view", state.view);
  for (const name of ["q", "backend", "panel", "doc", "hash", "at"]) if (state[name]) out.set(name, state[name]);
  for (const each of state.filter || []) out.append("filter", JSON.stringify(each));
  if (state.span) out.set("span", `${state.span.start}-${state.span.end}`);
  return `#${out}`;
}

/** The address of a document, from where one is: the question stays, to come back to. */
export const docLink = (now, doc, more = {}) =>
  link({ view: "doc", q: now.q, filter: now.filter, backend: now.backend, doc, ...more });

/** The conditions as the API takes them: values of one key are alternatives. */
export function asFilter(pairs) {
  const out = {};
  for (const [key, value] of pairs) (out[key] ??= []).push(value);
  return pairs.length ? out : null;
}
