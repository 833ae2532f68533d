// Spans are of bytes; what is shown is made of characters. Here the ones become the others.

const encoder = new TextEncoder();
const decoded = (bytes) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);

/** Bytes as text, and where in it byte offsets are: `at(offset)`. All offsets must be named beforehand. */
export function located(bytes, offsets) {
  const places = new Map();
  const sorted = [...new Set(offsets)].sort((a, b) => a - b);
  let text = "";
  let from = 0;
  for (const offset of sorted) {
    const to = Math.min(Math.max(offset, 0), bytes.length);
    text += decoded(bytes.subarray(from, to));
    from = to;
    places.set(offset, text.length);
  }
  text += decoded(bytes.subarray(from));
  return { text, at: (offset) => places.get(offset) };
}

/** A snippet as pieces of text, those that match marked. */
export function pieces(snippet) {
  const bytes = encoder.encode(snippet.text);
  // Bytes that are no UTF-8 hide where characters begin.
  if (bytes.length !== snippet.span.end - snippet.span.start) return [{ text: snippet.text, marked: false }];
  const out = [];
  let from = 0;
  for (const each of snippet.highlights) {
    const [start, end] = [each.start - snippet.span.start, each.end - snippet.span.start];
    if (start < from || end > bytes.length) continue;
    out.push({ text: decoded(bytes.subarray(from, start)), marked: false });
    out.push({ text: decoded(bytes.subarray(start, end)), marked: true });
    from = end;
  }
  out.push({ text: decoded(bytes.subarray(from)), marked: false });
  return out.filter((piece) => piece.text);
}
