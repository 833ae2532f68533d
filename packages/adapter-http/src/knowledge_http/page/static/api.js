// Calls of the API: with the token, if one is needed, and each error in words.

const BASE = new URL(".", document.baseURI);
const KEPT = "knowledge-token";
const MOST_KEPT = 200;

let askForToken = () => Promise.reject(new Error("A token is needed."));
let asking = null;
let backend = "";
const kept = new Map();

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** Who asks the user for a token: a function of the reason that gives a promise. */
export function whoAsks(ask) {
  askForToken = ask;
}

export function useBackend(name) {
  if (name !== backend) kept.clear();
  backend = name;
}

export const hasToken = () => sessionStorage.getItem(KEPT) !== null;

export function forgetToken() {
  sessionStorage.removeItem(KEPT);
  kept.clear();
}

/** The same reason is asked about once, however many calls found it. */
function askOnce(why) {
  asking ??= askForToken(why).then((token) => sessionStorage.setItem(KEPT, token)).finally(() => { asking = null; });
  return asking;
}

export function address(path, parameters = {}) {
  const url = new URL(path, BASE);
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  if (backend && !url.searchParams.has("backend") && path.startsWith("v1/")) url.searchParams.set("backend", backend);
  return url;
}

/** The response; asks for a token where one is needed, and again if that is not known. */
export async function call(url, options = {}) {
  for (;;) {
    const token = sessionStorage.getItem(KEPT);
    const headers = new Headers(options.headers);
    if (token !== null) headers.set("authorization", `Bearer ${token}`);
    let response;
    try {
      response = await fetch(url, { ...options, headers, credentials: "omit", redirect: "error" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError(0, "unreachable", "The server cannot be reached. Look whether it runs, then try again.");
    }
    if (response.status === 401) {
      const problem = await problemOf(response);
      // Another call may have brought a new one meanwhile.
      if (sessionStorage.getItem(KEPT) === token) await askOnce(token === null ? "" : problem.message);
      continue;
    }
    if (!response.ok) throw await problemOf(response);
    return response;
  }
}

async function problemOf(response) {
  try {
    const { error } = await response.json();
    return new ApiError(response.status, error.code, `${error.message}${error.id ? ` ${error.mend}` : ""}`);
  } catch {
    return new ApiError(response.status, "provider", `The server answered with ${response.status}. Try again later.`);
  }
}

const get = async (path, parameters, signal) => (await call(address(path, parameters), { signal })).json();

const post = async (path, body, signal) =>
  (await call(address(path), {
    method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" }, signal,
  })).json();

/** Keeps what a call gave: where the server is away, what was seen is still there. */
async function keptCall(key, ask) {
  try {
    const found = await ask();
    kept.delete(key);
    kept.set(key, found);
    if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
    return found;
  } catch (error) {
    if (error.code === "unreachable" && kept.has(key)) return { ...kept.get(key), away: true };
    throw error;
  }
}

export const status = () => get("v1/status");
export const query = (body, signal) => post("v1/query", body, signal);
export const list = (body, signal) => post("v1/list", body, signal);
export const verify = (citation) => post("v1/verify", citation);
export const panels = () => get("page");

const sourcePath = (id, rest = "") => `v1/sources/${encodeURIComponent(id)}${rest}`;

export const source = (id, signal) => keptCall(`s${id}`, () => get(sourcePath(id), {}, signal));

/** Bytes of a document, from `start` up to `end`, or all. */
export const content = (id, span, signal) =>
  keptCall(`c${span ? `${span.start}-${span.end}` : ""}:${id}`, async () => {
    const response = await call(address(sourcePath(id, "/content"), span || {}), { signal });
    return { bytes: new Uint8Array(await response.arrayBuffer()) };
  });
