// The columns of a page, which pages of runs, of programs and of their models share.

// The bytes of all columns: base64 of deflated planes. `unpacking` is the element for a reason why they
// cannot be unpacked.
async function inflated(text, unpacking) {
  if (!window.DecompressionStream) {
    unpacking.textContent = 'This browser cannot unpack the timeline: it has no DecompressionStream.';
    throw new Error(unpacking.textContent);
  }
  let bytes;
  if (Uint8Array.fromBase64) {
    bytes = Uint8Array.fromBase64(text);
  } else {
    const plain = atob(text);
    bytes = new Uint8Array(plain.length);
    for (let i = 0; i < plain.length; i++) bytes[i] = plain.charCodeAt(i);
  }
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// An array for numbers of so many bytes.
function arrayFor(width, count) {
  return new (width <= 1 ? Uint8Array : width <= 2 ? Uint16Array : width <= 4 ? Uint32Array : Float64Array)(count);
}

// Unpacks the columns. A plane has one byte of each number. Code 0 is the number itself, code 1 the
// difference from the number before, and code 2 the difference from the end of the span before, whose
// length is in the column before. Numbers are below 2^53; a shift would cut them to 32 bits, so they
// are multiplied.
function unpacked(bytes, columns) {
  const found = {};
  let at = 0, last = null;
  for (const [name, code, planes, width, count] of columns) {
    const raw = code === 0 ? arrayFor(width, count) : new Float64Array(count);
    for (let plane = 0, factor = 1; plane < planes; plane++, factor *= 256) {
      for (let i = 0; i < count; i++) raw[i] += bytes[at + i] * factor;
      at += count;
    }
    let column = raw;
    if (code > 0) {
      column = arrayFor(width, count);
      for (let i = 0, value = 0; i < count; i++) {
        const rest = raw[i];
        value += rest % 2 ? -(rest + 1) / 2 : rest / 2;
        column[i] = value;
        if (code === 2) value += last[i];
      }
    }
    found[name] = last = column;
  }
  return found;
}
